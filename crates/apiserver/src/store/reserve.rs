//! Room on the disk that is ours before it is needed, so that a full disk can be tidied.
//!
//! Pods write to the same disk and may fill it to the last byte. What is set aside here belongs to SQLite's own two files,
//! beyond their end, where nobody else can take it. When it can no longer be had, only writes that make nothing larger are
//! taken, and they use it up to its end.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// A disk that is full is asked again after this time.
const BETWEEN_TRIES: Duration = Duration::from_millis(500);

pub(super) struct Reserve {
    database: Held,
    /// Where the file system has no shared memory there is none.
    log: Option<Held>,
    bytes: u64,
    /// When the disk was last found full.
    refused: Option<Instant>,
}

/// One of the files. It must not be closed before SQLite's connection: that would give up the connection's locks.
struct Held {
    file: File,
    /// Up to here the blocks are ours.
    until: u64,
}

impl Reserve {
    /// `bytes` are set aside for each of the two files; none when it is 0.
    pub(super) fn open(path: &Path, bytes: u64) -> io::Result<Self> {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let open = |path: &Path| {
            let file = File::options().create(false).write(true).open(path)?;
            Ok::<_, io::Error>(Held { file, until: 0 })
        };
        let mut reserve = Self {
            database: open(path)?,
            log: open(Path::new(&log)).ok(),
            bytes,
            refused: None,
        };
        // What was held over the stop is taken before somebody else does.
        reserve.is_whole();
        Ok(reserve)
    }

    /// Whether the reserve is whole, so that there is room for more than tidying.
    pub(super) fn is_whole(&mut self) -> bool {
        if self.bytes == 0 {
            return true;
        }
        if self
            .refused
            .is_some_and(|refused| refused.elapsed() < BETWEEN_TRIES)
        {
            return false;
        }
        let bytes = self.bytes;
        let held = self.has_room()
            && self.log.as_mut().is_none_or(|log| log.hold(bytes))
            && self.database.hold(bytes);
        self.refused = (!held).then(Instant::now);
        held
    }

    /// Whether others, such as the history, still find some room: what they cannot write down should not begin.
    fn has_room(&self) -> bool {
        let free = rustix::fs::fstatvfs(&self.database.file);
        free.is_ok_and(|free| free.f_bavail * free.f_frsize >= self.bytes / 4)
    }
}

/// A file in the place of the room that is given up while no server runs: SQLite's log goes when it is closed.
pub(super) struct OverStops {
    path: PathBuf,
    bytes: u64,
}

impl OverStops {
    /// Gives the room back, for the one who needs it now.
    pub(super) fn release(directory: &Path, bytes: u64) -> Self {
        let path = directory.join("store.reserve");
        let _ = std::fs::remove_file(&path);
        Self { path, bytes }
    }
}

impl Drop for OverStops {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        // Without it the next start may find the disk full; that is for the next start to say.
        let mut options = File::options();
        let made = options.create(true).truncate(true).write(true).mode(0o600);
        let held = made.open(&self.path).and_then(|file| {
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, self.bytes)
                .map_err(io::Error::from)
        });
        if held.is_err() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Held {
    fn hold(&mut self, bytes: u64) -> bool {
        let Ok(length) = self.file.metadata().map(|metadata| metadata.len()) else {
            return false;
        };
        if length + bytes / 2 <= self.until {
            return true;
        }
        let until = length + bytes;
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, until) {
            Ok(()) => {}
            // Some file systems cannot promise blocks; then it must do to have looked how many are free.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return true,
            Err(_) => {
                // Half of it is better than nothing, and may be all that was held over a stop.
                let half = length + bytes / 2;
                let _ = rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, half);
                return false;
            }
        }
        self.until = until;
        true
    }
}
