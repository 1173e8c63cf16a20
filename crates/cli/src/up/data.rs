//! The data folder of `astrago up`: tokens, addresses, and the lock that keeps it to one process.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use astrago_apiserver::files;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// A process that was killed holds its lock until the kernel has taken it apart, which is not at once.
const A_KILLED_ONE_IS_GONE: Duration = Duration::from_secs(2);
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Layout of the folder: the first version had no file that says so.
pub(crate) const FORMAT: u32 = 2;
pub(crate) const FORMAT_FILE: &str = "format";
/// Room for the small files here when the disk is full.
const RESERVE_FILE: &str = "reserve";
const RESERVE_BYTES: usize = 1 << 20;

/// An open data folder; no other process has it open.
pub(crate) struct DataDir {
    path: PathBuf,
    // The lock lives as long as the file is open, also when this process is killed.
    _lock: File,
}

impl DataDir {
    /// Where the data folder is, whether or not it exists.
    pub(crate) fn locate(asked: Option<&Path>) -> Result<PathBuf> {
        if let Some(asked) = asked {
            return std::path::absolute(asked).context("failed to find the current folder");
        }
        let variable = |name: &str| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let base =
            variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")));
        let base = base.ok_or_else(|| {
            Failure::theirs("there is no home folder to keep the data in")
                .hint("name a folder with --data-dir DIR")
        })?;
        Ok(base.join("astrago"))
    }

    /// Makes the folder if it is not there, keeps it to its owner, and locks it. A folder of a newer version is refused.
    pub(crate) fn open(path: PathBuf) -> Result<Self> {
        let data = Self::lock(path)?;
        let path = &data.path;
        match read_format(path) {
            Some(found) if found > FORMAT => return Err(newer(path, found).into()),
            Some(FORMAT) => {}
            // Folders from before had none.
            _ => data.write(FORMAT_FILE, format!("{FORMAT}\n").as_bytes())?,
        }
        let reserve = path.join(RESERVE_FILE);
        if !reserve.exists() {
            // Without it the disk is full already.
            let _ = files::write_private(&reserve, &vec![0x5a; RESERVE_BYTES]);
        }
        Ok(data)
    }

    /// Refuses folders of the machine, which jobs may mount, that hold this one or lie in it: it has everybody's secrets.
    pub(crate) fn stay_out_of(&self, host_paths: &[PathBuf]) -> Result<()> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let own = real(&self.path);
        for path in host_paths {
            let lent = real(path);
            if own.starts_with(&lent) || lent.starts_with(&own) {
                let (path, own) = (path.display(), own.display());
                let words = format!(
                    "--allow-host-path {path} would show {own}, where all tokens and files are kept, to every job"
                );
                let hint = "name the folders that jobs need, or another --data-dir";
                return Err(Failure::theirs(words).hint(hint).into());
            }
        }
        Ok(())
    }

    /// As [`Self::open`], whatever is in the folder.
    pub(crate) fn lock(path: PathBuf) -> Result<Self> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("failed to create the data folder {}", path.display()))?;
        keep_to_owner(&path);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path.join("lock"))
            .map_err(|error| {
                let failure = Failure::theirs(format!("{} cannot be written", path.display()))
                    .hint("the data folder must be on a disk that can be written; name another one with --data-dir DIR");
                anyhow::Error::from(error).context(failure)
            })?;
        match lock_within(&lock, A_KILLED_ONE_IS_GONE) {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Failure::theirs(format!(
                "another `astrago up` already uses {}",
                path.display()
            ))
            .hint("stop it first, or give this one another folder with --data-dir DIR")
            .into()),
            Err(TryLockError::Error(error)) => Err(error).context("failed to lock the data folder"),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A secret kept in a file of mode 0600; made when it is not there.
    pub(crate) fn secret(&self, name: &str) -> Result<String> {
        let path = self.path.join(name);
        match std::fs::read(&path) {
            Ok(bytes) => {
                let text = std::str::from_utf8(&bytes).unwrap_or_default().trim();
                if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
                    return Ok(text.to_owned());
                }
                tracing::warn!(path = %path.display(), "the file is damaged; a new secret is made");
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("failed to read {}", path.display()));
            }
        }
        let secret = random_secret()?;
        self.write(name, format!("{secret}\n").as_bytes())?;
        Ok(secret)
    }

    /// Writes a file of mode 0600 in one step and for good: readers see the old content or the new. On a full disk the room
    /// that is kept for this is used, unless the file is as it should be already.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        let is_private = std::fs::metadata(&path)
            .is_ok_and(|metadata| metadata.permissions().mode() & 0o777 == 0o600);
        if is_private && std::fs::read(&path).is_ok_and(|found| found == content) {
            return Ok(());
        }
        let write = || files::write_private(&path, content);
        let written = match write() {
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                let _ = std::fs::remove_file(self.path.join(RESERVE_FILE));
                write()
            }
            written => written,
        };
        written.with_context(|| format!("failed to write {}", path.display()))
    }

    /// As [`Self::write`], for what only helps clients to find the server: on a disk without any room it still serves.
    pub(crate) fn write_if_possible(&self, name: &str, content: &[u8]) {
        if let Err(error) = self.write(name, content) {
            let error = format!("{error:#}");
            tracing::warn!(
                error,
                "commands find this server only by --server and --token"
            );
        }
    }

    pub(crate) fn remove(&self, name: &str) {
        // It is only a convenience for clients, which check that the server answers.
        let _ = std::fs::remove_file(self.path.join(name));
    }
}

/// Where a running `astrago up` can be reached.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Endpoints {
    pub(crate) rest: String,
    pub(crate) kube: String,
}

impl Endpoints {
    pub(crate) const FILE: &str = "endpoints.json";

    /// Reads the file of a data folder, if there is one.
    pub(crate) fn read(data: &Path) -> Result<Option<Self>> {
        let path = data.join(Self::FILE);
        match std::fs::read(&path) {
            Ok(bytes) => {
                let read = serde_json::from_slice(&bytes);
                Ok(Some(read.map_err(|error| {
                    let failure = Failure::ours(format!("{} is damaged", path.display()))
                        .hint("start `astrago up` again, which writes a new one, or name the server with --server URL");
                    anyhow::Error::from(error).context(failure)
                })?))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("failed to read {}", path.display())),
        }
    }
}

/// The version of a folder's layout as a whole; parts have versions of their own.
pub(crate) fn read_format(folder: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(folder.join(FORMAT_FILE)).ok()?;
    text.trim().parse().ok()
}

pub(crate) fn newer(folder: &Path, found: u32) -> Failure {
    Failure::theirs(format!(
        "{} was written by a newer version of astrago: its format is {found}, and this program knows formats up to {FORMAT}",
        folder.display()
    ))
    .hint("use that version, or give this one another folder with --data-dir DIR")
}

/// Takes from everybody else what an earlier version, or a copy of the folder, has given them.
fn keep_to_owner(folder: &Path) {
    for path in [folder.to_owned(), folder.join("history")] {
        let Ok(metadata) = std::fs::metadata(&path) else {
            continue;
        };
        if metadata.permissions().mode().trailing_zeros() < 6
            && let Err(error) = std::fs::set_permissions(&path, Permissions::from_mode(0o700))
        {
            tracing::warn!(path = %path.display(), %error, "failed to keep the data folder to its owner");
        }
    }
}

fn lock_within(lock: &File, patience: Duration) -> Result<(), TryLockError> {
    let began = Instant::now();
    loop {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) if began.elapsed() < patience => {
                std::thread::park_timeout(BETWEEN_TRIES);
            }
            locked => return locked,
        }
    }
}

/// 256 bits from the kernel, in hexadecimal.
pub(crate) fn random_secret() -> Result<String> {
    let mut bytes = [0_u8; 32];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("failed to get random numbers")?;
    Ok(hex::encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_made_once_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path().join("data")).unwrap();
        let secret = data.secret("admin.token").unwrap();
        assert_eq!(secret.len(), 64);
        assert_eq!(data.secret("admin.token").unwrap(), secret);
        let mode = std::fs::metadata(data.path().join("admin.token"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_is_as_it_should_be_needs_no_room() {
        use std::os::unix::fs::MetadataExt as _;
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path().join("data")).unwrap();
        let file = || {
            data.write("kubeconfig", b"same").unwrap();
            std::fs::metadata(data.path().join("kubeconfig")).unwrap()
        };
        let first = file();
        assert_eq!(file().ino(), first.ino(), "it is the file that was there");
        let path = data.path().join("kubeconfig");
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(file().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_folder_is_opened_by_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = DataDir::open(folder.path().to_owned()).unwrap();
        let error = DataDir::open(folder.path().to_owned()).err().unwrap();
        assert!(error.to_string().contains("already uses"), "{error}");
        let next = std::thread::scope(|scope| {
            let next = scope.spawn(|| DataDir::open(folder.path().to_owned()));
            drop(first);
            next.join().unwrap()
        });
        assert!(next.is_ok(), "the lock is had as soon as it is free");
    }

    #[test]
    fn a_damaged_secret_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path().to_owned()).unwrap();
        for damaged in [&b""[..], &[0; 65], &[0xff, 0xfe, b'x']] {
            std::fs::write(folder.path().join("admin.token"), damaged).unwrap();
            assert_eq!(data.secret("admin.token").unwrap().len(), 64);
        }
        std::fs::write(folder.path().join("admin.token"), "mine\n").unwrap();
        assert_eq!(data.secret("admin.token").unwrap(), "mine");
    }

    #[test]
    fn a_loose_folder_is_tightened_and_a_newer_one_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::create_dir_all(path.join("history")).unwrap();
        for loose in [&path, &path.join("history")] {
            std::fs::set_permissions(loose, Permissions::from_mode(0o755)).unwrap();
        }
        drop(DataDir::open(path.clone()).unwrap());
        for tight in [&path, &path.join("history")] {
            let mode = std::fs::metadata(tight).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
        assert_eq!(read_format(&path), Some(FORMAT));
        std::fs::write(path.join(FORMAT_FILE), "99\n").unwrap();
        let error = DataDir::open(path.clone()).err().unwrap().to_string();
        assert!(
            error.contains("newer version") && error.contains("99"),
            "{error}"
        );
        // What cannot be read says nothing, and is replaced.
        std::fs::write(path.join(FORMAT_FILE), [0; 3]).unwrap();
        drop(DataDir::open(path.clone()).unwrap());
        assert_eq!(read_format(&path), Some(FORMAT));
    }
}
