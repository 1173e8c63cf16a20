//! How many connections a server has, and which of them it can do without.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio_util::sync::CancellationToken;

/// The connections of one listener.
pub(crate) struct Connections {
    most: usize,
    /// Counts what happens, so that the connection that was quiet for longest is known without a clock.
    events: AtomicU64,
    open: Mutex<HashMap<u64, Arc<State>>>,
}

#[derive(Default)]
struct State {
    requests: AtomicUsize,
    quiet_since: AtomicU64,
    closed: CancellationToken,
}

impl Connections {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most: most.max(1),
            events: AtomicU64::new(0),
            open: Mutex::default(),
        })
    }

    /// A place for one more connection. If there is none, the one that has been without a request for longest
    /// gives up its own; `None` if all of them are busy.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Connection> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= self.most {
            let quiet = open.iter().filter(|(_, state)| state.is_quiet());
            let longest = quiet.min_by_key(|(_, state)| state.quiet_since.load(Ordering::Relaxed));
            let id = *longest?.0;
            if let Some(state) = open.remove(&id) {
                state.closed.cancel();
            }
        }
        let id = self.event();
        let state = Arc::new(State {
            quiet_since: AtomicU64::new(id),
            ..State::default()
        });
        open.insert(id, Arc::clone(&state));
        Some(Connection {
            id,
            state,
            all: Arc::clone(self),
        })
    }

    fn event(&self) -> u64 {
        self.events.fetch_add(1, Ordering::Relaxed)
    }
}

impl State {
    fn is_quiet(&self) -> bool {
        self.requests.load(Ordering::Relaxed) == 0
    }
}

/// One connection's place, until it is dropped.
pub(crate) struct Connection {
    id: u64,
    state: Arc<State>,
    all: Arc<Connections>,
}

impl Connection {
    /// A request has begun; it lasts as long as what is returned.
    pub(crate) fn begin(&self) -> Request {
        self.state.requests.fetch_add(1, Ordering::Relaxed);
        Request {
            state: Arc::clone(&self.state),
            all: Arc::clone(&self.all),
        }
    }

    /// Resolves when the place was given to somebody else.
    pub(crate) fn closed(&self) -> CancellationToken {
        self.state.closed.clone()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let open = &self.all.open;
        open.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.id);
    }
}

pub(crate) struct Request {
    state: Arc<State>,
    all: Arc<Connections>,
}

impl Request {
    /// It lasts until its answer is sent, or given up.
    pub(crate) fn until_sent(self, body: Body) -> Body {
        until_sent(body, self)
    }
}

/// The same body, with something that is dropped when it has been sent, or given up.
pub fn until_sent<T: Send + Unpin + 'static>(body: Body, held: T) -> Body {
    Body::new(Sending { body, _held: held })
}

impl Drop for Request {
    fn drop(&mut self) {
        let now = self.all.event();
        self.state.quiet_since.store(now, Ordering::Relaxed);
        self.state.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Sending<T> {
    body: Body,
    _held: T,
}

impl<T: Unpin> HttpBody for Sending<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_that_was_quiet_for_longest_makes_room() {
        let all = Connections::new(3);
        let [first, second, third] = [(); 3].map(|()| all.enter().unwrap());
        let busy = first.begin();
        drop(second.begin());
        let _fourth = all.enter().unwrap();
        assert!(third.closed().is_cancelled());
        assert!(!first.closed().is_cancelled() && !second.closed().is_cancelled());
        drop(busy);
    }

    #[test]
    fn nobody_who_is_being_answered_makes_room() {
        let all = Connections::new(2);
        let [first, second] = [(); 2].map(|()| all.enter().unwrap());
        let (one, two) = (first.begin(), second.begin());
        assert!(all.enter().is_none());
        let sending = one.until_sent(Body::from("answer"));
        assert!(all.enter().is_none());
        drop(sending);
        assert!(all.enter().is_some());
        assert!(first.closed().is_cancelled());
        drop(two);
    }

    #[test]
    fn a_connection_that_ends_leaves_its_place() {
        let all = Connections::new(1);
        drop(all.enter().unwrap());
        let second = all.enter().unwrap();
        assert!(!second.closed().is_cancelled());
    }
}
