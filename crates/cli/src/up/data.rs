//! The data folder of `astrago up`: tokens, addresses, and the lock that keeps it to one process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::exit::Failure;
use crate::output;

/// A process that was killed holds its lock until the kernel has taken it apart, which is not at once.
const A_KILLED_ONE_IS_GONE: Duration = Duration::from_secs(2);
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

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

    /// Makes the folder if it is not there, and locks it.
    pub(crate) fn open(path: PathBuf) -> Result<Self> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("failed to create the data folder {}", path.display()))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path.join("lock"))
            .with_context(|| format!("failed to open the lock of {}", path.display()))?;
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
        match File::open(&path) {
            Ok(mut file) => {
                let mut text = String::new();
                file.read_to_string(&mut text)
                    .with_context(|| format!("failed to read {}", path.display()))?;
                let text = text.trim();
                if !text.is_empty() {
                    return Ok(text.to_owned());
                }
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

    /// Writes a file of mode 0600 in one step: readers see the old content or the new.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        let temporary = self.path.join(format!(".{name}.new"));
        let written = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&temporary)
            .and_then(|mut file| {
                file.write_all(content)?;
                file.sync_all()
            })
            .and_then(|()| std::fs::rename(&temporary, &path));
        written.with_context(|| format!("failed to write {}", path.display()))
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
                Ok(Some(read.with_context(|| {
                    format!("failed to understand {}", path.display())
                })?))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("failed to read {}", path.display())),
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
    Ok(output::hexadecimal(&bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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
}
