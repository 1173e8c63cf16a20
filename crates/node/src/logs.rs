//! Container logs: written by the supervisor, read by the kubelet's endpoints.
//!
//! # Files
//!
//! `logs/<namespace>_<pod>_<uid>/<container>/<attempt>.log`, in the line format of Kubernetes'
//! container runtimes: `2026-01-02T03:04:05.000000006Z stdout F text`, where `P` instead of `F`
//! marks a piece of a line that goes on in the next record of that stream. Rotation never renames:
//! the files of attempt 0 are `0.log`, `0.log.1`, `0.log.2` …, the highest number is the newest,
//! and the oldest are deleted. A reader therefore knows what comes next by counting, and can
//! neither skip a file nor read one twice.
//!
//! # How reader and writer meet
//!
//! They share nothing but the files, so either may be killed at any moment:
//!
//! - The writer holds a lock on the container's directory for as long as it lives. A reader that
//!   has read everything and finds the lock free knows that no more will come.
//! - A reader holds a shared lock on the file that it reads. The writer leaves that file and all
//!   newer ones alone when it rotates, up to a bound, so that a slow `logs -f` loses nothing.
//! - The kernel tells a waiting reader about writes (inotify); nothing is polled.

mod collect;
mod files;
mod reader;
mod record;
mod stream;
mod tail;
mod writer;

#[cfg(test)]
mod tests;

pub use collect::{Retention, collect};
pub(crate) use files::pods_of_name;
pub use files::{attempts, find_pod};
pub use reader::{Options, Reader, Step, is_being_written};
pub use stream::stream;
pub use writer::{Limits, Writer};

/// Where a container's output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    Stdout,
    Stderr,
}
