//! Disk space that a pod may use: measured now and then, and the pod evicted when it has more.
//!
//! A child of its own looks, because a large tree takes long and the pod has to be served meanwhile.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::sched::CloneFlags;
use nix::unistd::{Pid, pipe2};
use rustix::fs::{FileType, Stat};

use crate::spec::StorageLimit;
use crate::sys;
use crate::tree;

/// How soon after a look the next one follows, at least.
const SHORTEST: Duration = Duration::from_secs(2);
/// And at most.
const LONGEST: Duration = Duration::from_mins(1);
/// The part of the time that looking may take is one of this many.
const SHARE: u32 = 20;

/// The limits of a pod, and the look that is under way.
pub(super) struct Storage {
    limits: Vec<StorageLimit>,
    due: Instant,
    look: Option<(Pid, File, Instant)>,
}

impl Storage {
    pub(super) fn new(limits: Vec<StorageLimit>) -> Self {
        Self {
            limits,
            due: Instant::now() + SHORTEST / 2,
            look: None,
        }
    }

    /// When to look next.
    pub(super) fn wake(&self) -> Option<Instant> {
        (!self.limits.is_empty() && self.look.is_none()).then_some(self.due)
    }

    /// Begins a look when it is time.
    pub(super) fn tick(&mut self, now: Instant) {
        if self.wake().is_some_and(|due| due <= now) {
            self.due = now + LONGEST;
            self.look = self.begin().map(|(pid, said)| (pid, said, now));
        }
    }

    /// A child ended: `None` if it was another one; otherwise what was exceeded, if anything.
    #[expect(clippy::option_option, reason = "two questions, as the comment says")]
    pub(super) fn ended(&mut self, pid: Pid) -> Option<Option<String>> {
        let (_, mut said, begun) = self.look.take_if(|(looking, ..)| *looking == pid)?;
        let now = Instant::now();
        let pause = now.saturating_duration_since(begun) * SHARE;
        self.due = now + pause.clamp(SHORTEST, LONGEST);
        let mut word = String::new();
        let _ = said.read_to_string(&mut word);
        Some(Some(word).filter(|word| !word.is_empty()))
    }

    fn begin(&self) -> Option<(Pid, File)> {
        let (listen, say) = pipe2(OFlag::O_CLOEXEC).ok()?;
        let Some(pid) = sys::fork_into(CloneFlags::empty()).ok()? else {
            drop(listen);
            // Behind everything that trains.
            let _ = rustix::process::nice(10);
            if let Some(limit) = self.limits.iter().find(|limit| is_exceeded(limit)) {
                let _ = File::from(say).write_all(limit.message.as_bytes());
            }
            sys::end(0);
        };
        Some((pid, File::from(listen)))
    }
}

/// A tree that is too deep to be measured counts as too large: no honest program makes one.
fn is_exceeded(limit: &StorageLimit) -> bool {
    let mut bytes = 0;
    // Files with several names count once.
    let mut seen = HashSet::new();
    let mut add = |stat: &Stat| {
        let is_folder = FileType::from_raw_mode(stat.st_mode).is_dir();
        if is_folder || stat.st_nlink < 2 || seen.insert(stat.st_ino) {
            bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
        }
        if bytes > limit.bytes {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let mut within =
        |path: &PathBuf| tree::walk(path, &mut add).is_ok_and(|walked| walked.is_continue());
    !limit.paths.iter().all(&mut within)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn exceeds(path: &Path, bytes: u64) -> bool {
        is_exceeded(&StorageLimit {
            paths: vec![path.to_owned()],
            bytes,
            message: String::new(),
        })
    }

    #[test]
    fn files_count_once_and_links_lead_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("large"), vec![1; 1 << 20]).unwrap();
        let below = directory.path().join("a/b");
        std::fs::create_dir_all(&below).unwrap();
        std::fs::write(below.join("file"), vec![1; 100 << 10]).unwrap();
        for number in 0..10 {
            let name = directory.path().join(number.to_string());
            std::fs::hard_link(below.join("file"), name).unwrap();
        }
        std::os::unix::fs::symlink(outside.path(), directory.path().join("link")).unwrap();
        assert!(!exceeds(directory.path(), 200 << 10));
        assert!(exceeds(directory.path(), 90 << 10));
        assert!(!exceeds(Path::new("/nowhere/at/all"), 1));
    }

    #[test]
    fn a_tree_that_is_too_deep_to_be_measured_is_too_large() {
        let directory = tempfile::tempdir().unwrap();
        let deep = directory.path().join("d/".repeat(tree::DEPTH + 2));
        std::fs::create_dir_all(deep).unwrap();
        assert!(exceeds(directory.path(), 1 << 40));
    }
}
