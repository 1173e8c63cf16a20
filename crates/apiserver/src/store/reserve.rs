//! Room on the disk that is ours before it is needed, so that a full disk can be tidied.
//!
//! Pods write to the same disk and may fill it to the last byte. What is set aside here belongs to SQLite's own two files,
//! beyond their end, where nobody else can take it. When it can no longer be had, only writes that make nothing larger are
//! taken, and they use it up to its end.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// A disk that is full is asked again after this time.
const BETWEEN_TRIES: Duration = Duration::from_millis(500);

pub(super) struct Reserve {
    database: Held,
    log: Held,
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
            log: open(Path::new(&log))?,
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
        let held = self.log.hold(self.bytes) && self.database.hold(self.bytes);
        self.refused = (!held).then(Instant::now);
        held
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
        let held = File::create(&self.path).and_then(|file| {
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
            // Some file systems cannot promise blocks; then all there is to see is how many are free.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                let free = rustix::fs::fstatvfs(&self.file);
                return free.is_ok_and(|free| free.f_bavail * free.f_frsize >= bytes);
            }
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
