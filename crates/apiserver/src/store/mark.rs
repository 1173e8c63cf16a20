//! The mark: the newest revision that was acknowledged, in a file of its own beside the database.
//!
//! SQLite ends its log at the first frame that it cannot read, as if nothing had ever followed. The mark knows better. It is
//! written after a group is on disk and is not waited for: it may be older than the log after a power loss, never newer.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

pub(super) const FILE: &str = "store.mark";

pub(super) struct Mark {
    file: File,
}

impl Mark {
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(directory.join(FILE))?;
        Ok(Self { file })
    }

    /// One that cannot be written, as after the disk has failed.
    #[cfg(test)]
    pub(super) fn failed(directory: &Path) -> io::Result<Self> {
        let file = File::open(directory.join(FILE))?;
        Ok(Self { file })
    }

    pub(super) fn set(&self, revision: u64) -> io::Result<()> {
        let revision = revision.to_le_bytes();
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&revision);
        bytes[8..].copy_from_slice(&crc32fast::hash(&revision).to_le_bytes());
        self.file.write_all_at(&bytes, 0)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// The revision in a directory's mark; `None` when there is no mark or it cannot be trusted.
pub(super) fn read(directory: &Path) -> Option<u64> {
    let bytes = std::fs::read(directory.join(FILE)).ok()?;
    let (revision, checksum) = bytes.split_first_chunk::<8>()?;
    (crc32fast::hash(revision).to_le_bytes() == checksum).then(|| u64::from_le_bytes(*revision))
}
