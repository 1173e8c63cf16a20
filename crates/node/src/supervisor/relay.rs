//! The pod's end of the road on which it reports progress; see [`crate::relay`].

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::control::Channel;
use crate::relay::{ADDRESS, Caller, PORT};

/// How many connections are handed over before other work has its turn.
const AT_ONCE: usize = 8;
/// How often an absent agent is looked for while somebody waits.
const AGAIN: Duration = Duration::from_millis(250);

/// A listener in the pod's network.
pub(super) struct Relay {
    listener: TcpListener,
    /// Where the agent takes connections.
    directory: PathBuf,
    uid: String,
    /// The agent is away; callers wait in the kernel's queue until then.
    paused: Option<Instant>,
}

impl Relay {
    /// Listens; before any container runs, so that none can take the place.
    pub(super) fn open(directory: PathBuf, uid: String) -> io::Result<Self> {
        let listener = TcpListener::bind((ADDRESS, PORT))?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            directory,
            uid,
            paused: None,
        })
    }

    /// What to watch, unless the agent is away.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        self.paused.is_none().then(|| self.listener.as_fd())
    }

    /// When to look for the agent again.
    pub(super) fn wake(&self) -> Option<Instant> {
        self.paused
    }

    /// Watches again when it is time to.
    pub(super) fn tick(&mut self, now: Instant) {
        self.paused = self.paused.filter(|until| *until > now);
    }

    /// Hands over those who wait. The agent comes first: without it nobody is taken from the queue.
    pub(super) fn hand_over(&mut self) {
        for _ in 0..AT_ONCE {
            let Ok(agent) = Channel::connect_at_once(&self.directory) else {
                self.paused = Some(Instant::now() + AGAIN);
                return;
            };
            let Ok((stream, _)) = self.listener.accept() else {
                return;
            };
            let caller = Caller {
                uid: self.uid.clone(),
            };
            // An agent that dies now cuts this connection, as it would a moment later.
            let _ = agent.send(&caller, &[stream.as_fd()]);
        }
    }
}
