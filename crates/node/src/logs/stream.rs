//! A [`Reader`] as an asynchronous stream of bytes.
//!
//! Followers can be many and live long, so none of them holds a thread: each step runs where
//! blocking is allowed and returns, and between steps the task sleeps on the directory's inotify.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use rustix::fs::inotify;
use tokio::net::unix::pipe;

use super::reader::{Options, Reader, Step};

/// Output that is gathered before it is handed on.
const CHUNK_BYTES: usize = 64 << 10;
/// The kernel's notice comes when a file is closed, which may be a moment before the writer's lock
/// is gone; this bounds how late the end is seen. It is also the pace where there is no inotify
/// to be had (its number per user is limited).
const BACKSTOP: Duration = Duration::from_millis(500);

/// Opens a log and streams its text. Runs on a tokio runtime.
pub async fn stream(
    directory: &Path,
    attempt: u32,
    options: Options,
) -> io::Result<impl Stream<Item = io::Result<Bytes>> + Send + use<>> {
    // The watch comes first: what is written after the first look at the file is noticed.
    let watch = if options.follow {
        Watch::open(directory)
    } else {
        None
    };
    let path = directory.to_owned();
    let reader = blocking(move || Reader::open(&path, attempt, options)).await?;
    let state = Some((reader, watch));
    Ok(futures::stream::try_unfold(state, |state| async {
        let Some((mut reader, watch)) = state else {
            return Ok(None);
        };
        loop {
            if let Some(watch) = &watch {
                watch.clear();
            }
            let (back, output, step) = blocking(move || {
                let mut output = Vec::with_capacity(CHUNK_BYTES);
                let mut step = Step::More;
                while step == Step::More && output.len() < CHUNK_BYTES {
                    step = reader.step(&mut output)?;
                }
                Ok((reader, output, step))
            })
            .await?;
            reader = back;
            if !output.is_empty() || step == Step::End {
                let next = (step != Step::End).then_some((reader, watch));
                return Ok(Some((Bytes::from(output), next)));
            }
            if step == Step::Wait {
                wait(watch.as_ref()).await;
            }
        }
    }))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}

async fn wait(watch: Option<&Watch>) {
    let notice = async {
        match watch {
            Some(watch) => drop(watch.0.readable().await),
            None => std::future::pending().await,
        }
    };
    // Both outcomes lead to another look at the files.
    let _ = tokio::time::timeout(BACKSTOP, notice).await;
}

/// The notices are only counted, never looked at, so the descriptor is read like a pipe; tokio's
/// receiver for pipes is its only safe way to wait for one.
struct Watch(pipe::Receiver);

impl Watch {
    fn open(directory: &Path) -> Option<Self> {
        use inotify::{CreateFlags, WatchFlags};
        let handle = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let events = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::CLOSE_WRITE;
        inotify::add_watch(&handle, directory, events | WatchFlags::DELETE_SELF).ok()?;
        pipe::Receiver::from_owned_fd_unchecked(handle)
            .ok()
            .map(Self)
    }

    /// Forgets all notices; what they are about is looked at next.
    fn clear(&self) {
        let mut notices = [0; 4096];
        while self.0.try_read(&mut notices).is_ok_and(|read| read > 0) {}
    }
}
