//! Snapshots on disk: `snapshots/<namespace>/<digest>.tar.gz`, and beside each its listing as JSON.
//!
//! A content is stored once per namespace, however many jobs use it. A namespace is a wall: what is
//! stored in one cannot be named from another, so knowing a digest gives nobody anything.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::Semaphore;

use crate::snapshot::{self, Digest, Listing};

/// The most bytes of archives that one namespace may have stored.
const NAMESPACE_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// So many archives are checked at a time.
const CHECKS: usize = 2;

/// How long a snapshot is kept that no job uses, at least: its job may be about to come.
const GRACE: Duration = Duration::from_hours(1);

/// Why a snapshot could not be stored or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("failed to use the folder of snapshots")]
    Disk(#[from] io::Error),
    #[error("failed to describe a snapshot")]
    Listing(#[from] serde_json::Error),
    #[error("it is not a snapshot")]
    Archive(#[source] snapshot::Error),
    #[error("the snapshots of this namespace already take {0} bytes")]
    Full(u64),
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// An upload on its way. Its file goes with it, also when whoever sends it goes away in the middle.
pub(crate) struct Draft(PathBuf);

impl Draft {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Unless it has become a snapshot.
        let _ = fs::remove_file(&self.0);
    }
}

#[derive(Clone)]
pub(crate) struct Snapshots {
    folder: PathBuf,
    /// Whoever checks an archive has one of these: that keeps a processor busy.
    pub(crate) checks: Arc<Semaphore>,
}

impl Snapshots {
    pub(crate) fn new(folder: PathBuf) -> Self {
        let checks = Arc::new(Semaphore::new(CHECKS));
        Self { folder, checks }
    }

    /// A file to receive an upload into, on the same file system; its name is no snapshot's.
    pub(crate) fn draft(&self) -> Result<Draft> {
        let folder = self.folder.join(".uploads");
        fs::create_dir_all(&folder)?;
        Ok(Draft(folder.join(crate::random_text(20))))
    }

    /// Checks an uploaded archive and stores it, unless its content is there already. Reads the whole
    /// archive: not for the async threads.
    pub(crate) fn store(&self, namespace: &str, draft: &Draft) -> Result<(Digest, Listing)> {
        let draft = draft.path();
        let archive = BufReader::new(fs::File::open(draft)?);
        let listing = snapshot::read(archive, |_, _, _| Ok(())).map_err(Error::Archive)?;
        let digest = listing.digest();
        let (archive, description) = self.paths(namespace, &digest);
        if let Some(known) = self.find(namespace, &digest)? {
            return Ok((digest, known));
        }
        let folder = self.folder.join(namespace);
        fs::create_dir_all(&folder)?;
        let taken = bytes_in(&folder)?;
        if taken + fs::metadata(draft)?.len() > NAMESPACE_BYTES {
            return Err(Error::Full(taken));
        }
        fs::File::open(draft)?.sync_all()?;
        let mut described = fs::File::create(&description)?;
        described.write_all(&serde_json::to_vec(&listing)?)?;
        described.sync_all()?;
        // The archive last: what has one is whole.
        fs::rename(draft, &archive)?;
        fs::File::open(&folder)?.sync_all()?;
        Ok((digest, listing))
    }

    /// The files of a snapshot of this namespace, if it is there. Who asks has a job in mind, so it
    /// counts as young again. One whose listing is damaged is not there, and may be stored again.
    pub(crate) fn find(&self, namespace: &str, digest: &Digest) -> Result<Option<Listing>> {
        let (archive, description) = self.paths(namespace, digest);
        if !archive.exists() || !description.exists() {
            return Ok(None);
        }
        fs::File::open(&archive)?.set_modified(SystemTime::now())?;
        let listing: Option<Listing> = serde_json::from_slice(&fs::read(description)?).ok();
        Ok(listing.filter(|listing| listing.digest() == *digest))
    }

    pub(crate) fn archive(&self, namespace: &str, digest: &Digest) -> PathBuf {
        self.paths(namespace, digest).0
    }

    /// Deletes what no job uses, neither a living one nor one of the history.
    pub(crate) fn sweep(&self, used: &BTreeSet<(String, String)>) -> Result<usize> {
        let mut deleted = 0;
        let old = |path: &Path| {
            let age = fs::metadata(path).and_then(|metadata| metadata.modified());
            age.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > GRACE))
        };
        for folder in entries(&self.folder)? {
            let namespace = file_name(&folder);
            for file in entries(&folder)? {
                let digits = file_name(&file);
                let digits = digits.split('.').next().unwrap_or_default();
                let key = (namespace.clone(), format!("sha256:{digits}"));
                // Both files are as old as the archive.
                let archive = folder.join(format!("{digits}.tar.gz"));
                let judged = if archive.exists() { &archive } else { &file };
                if !used.contains(&key) && old(judged) {
                    fs::remove_file(&file)?;
                    deleted += 1;
                }
            }
        }
        Ok(deleted)
    }

    fn paths(&self, namespace: &str, digest: &Digest) -> (PathBuf, PathBuf) {
        let folder = self.folder.join(namespace);
        let digits = digest.digits();
        (
            folder.join(format!("{digits}.tar.gz")),
            folder.join(format!("{digits}.json")),
        )
    }
}

fn bytes_in(folder: &Path) -> io::Result<u64> {
    let sizes = entries(folder)?.into_iter().map(fs::metadata);
    sizes.map(|metadata| metadata.map(|file| file.len())).sum()
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_stored_once_and_is_its_namespaces_own() {
        let folder = tempfile::tempdir().unwrap();
        let snapshots = Snapshots::new(folder.path().join("snapshots"));
        let store = |namespace: &str, content: &[u8]| {
            let draft = snapshots.draft().unwrap();
            fs::write(draft.path(), content).unwrap();
            snapshots.store(namespace, &draft)
        };
        let archive = snapshot::pack([("train.py", false, b"print()".as_slice())]).unwrap();
        let (digest, listing) = store("team", &archive).unwrap();
        assert_eq!(store("team", &archive).unwrap().0, digest);
        assert!(store("team", b"nonsense").is_err());
        assert_eq!(
            entries(&folder.path().join("snapshots/team"))
                .unwrap()
                .len(),
            2
        );
        assert_eq!(
            entries(&folder.path().join("snapshots/.uploads"))
                .unwrap()
                .len(),
            0
        );
        assert_eq!(snapshots.find("team", &digest).unwrap(), Some(listing));
        assert_eq!(snapshots.find("other", &digest).unwrap(), None);
    }

    #[test]
    fn what_a_power_failure_left_of_a_snapshot_is_stored_again() {
        let folder = tempfile::tempdir().unwrap();
        let snapshots = Snapshots::new(folder.path().to_owned());
        let archive = snapshot::pack([("train.py", false, b"print()".as_slice())]).unwrap();
        let store = || {
            let draft = snapshots.draft().unwrap();
            fs::write(draft.path(), &archive).unwrap();
            snapshots.store("team", &draft)
        };
        let (digest, listing) = store().unwrap();
        let other = snapshot::pack([("other.py", false, b"print()".as_slice())]).unwrap();
        let other = snapshot::read(&*other, |_, _, _| Ok(())).unwrap();
        for damage in [Vec::new(), serde_json::to_vec(&other).unwrap()] {
            fs::write(snapshots.paths("team", &digest).1, damage).unwrap();
            assert_eq!(snapshots.find("team", &digest).unwrap(), None);
            assert_eq!(store().unwrap().1, listing);
            assert_eq!(
                snapshots.find("team", &digest).unwrap(),
                Some(listing.clone())
            );
        }
    }

    #[test]
    fn what_no_job_uses_goes_when_it_is_old() {
        let folder = tempfile::tempdir().unwrap();
        let snapshots = Snapshots::new(folder.path().to_owned());
        let mut digests = Vec::new();
        for text in ["kept", "old", "young"] {
            let draft = snapshots.draft().unwrap();
            let archive = snapshot::pack([("train.py", false, text.as_bytes())]).unwrap();
            fs::write(draft.path(), archive).unwrap();
            digests.push(snapshots.store("team", &draft).unwrap().0);
        }
        let yesterday = SystemTime::now() - Duration::from_hours(24);
        for digest in &digests[..2] {
            for path in [
                snapshots.paths("team", digest).0,
                snapshots.paths("team", digest).1,
            ] {
                fs::File::open(path)
                    .unwrap()
                    .set_modified(yesterday)
                    .unwrap();
            }
        }
        let used = BTreeSet::from([("team".to_owned(), digests[0].to_string())]);
        assert_eq!(
            snapshots.sweep(&used).unwrap(),
            2,
            "an archive and its listing"
        );
        let left: Vec<bool> = digests
            .iter()
            .map(|digest| snapshots.find("team", digest).unwrap().is_some())
            .collect();
        assert_eq!(left, [true, false, true]);
    }
}
