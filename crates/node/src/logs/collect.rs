//! Deleting logs that are no longer needed.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::files;
use super::reader::is_being_written;
use crate::tree;

/// How long logs of pods that are gone are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub age: Duration,
    /// All of them together; the oldest go first.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            age: Duration::from_hours(30 * 24),
            bytes: 10 << 30,
        }
    }
}

/// Deletes logs of pods that are not in `live` (by uid) and are too old or too much. Logs that
/// are being written stay in any case. Returns how many pods' logs were deleted.
pub fn collect(data_dir: &Path, live: &BTreeSet<String>, keep: Retention) -> io::Result<usize> {
    let mut dead = Vec::new();
    for entry in files::entries(&data_dir.join("logs"))? {
        let entry = entry?;
        let name = entry.file_name();
        let uid = name.to_str().and_then(|name| name.rsplit('_').next());
        if uid.is_some_and(|uid| !live.contains(uid)) {
            dead.push(measure(entry.path())?);
        }
    }
    // Youngest first, so that the budget is spent on them.
    dead.sort_by_key(|pod| std::cmp::Reverse(pod.touched));
    let oldest = SystemTime::now()
        .checked_sub(keep.age)
        .unwrap_or(SystemTime::UNIX_EPOCH);
    let mut used = 0_u64;
    let mut deleted = 0;
    for pod in dead {
        used = used.saturating_add(pod.bytes);
        if (used > keep.bytes || pod.touched < oldest) && !pod.written {
            tree::remove(&pod.path)?;
            used -= pod.bytes;
            deleted += 1;
        }
    }
    Ok(deleted)
}

struct Pod {
    path: PathBuf,
    bytes: u64,
    touched: SystemTime,
    written: bool,
}

fn measure(path: PathBuf) -> io::Result<Pod> {
    let touched = fs::metadata(&path)?.modified()?;
    let mut pod = Pod {
        path,
        bytes: 0,
        touched,
        written: false,
    };
    for container in files::entries(&pod.path)? {
        let container = container?.path();
        pod.written |= is_being_written(&container);
        if !container.is_dir() {
            continue;
        }
        for file in files::entries(&container)? {
            let metadata = file?.metadata()?;
            pod.bytes += metadata.len();
            pod.touched = pod.touched.max(metadata.modified()?);
        }
    }
    Ok(pod)
}
