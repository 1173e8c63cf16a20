//! How much one user may ask of the server at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::auth::Identity;
use crate::status::{ApiError, Result};

/// Bytes of bodies that one user may have under way; what is made of them takes several times as much memory.
const BYTES: usize = 32 << 20;

/// Bounds per user. Components of this process and administrators have none.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub requests: usize,
    pub watches: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests: 100,
            watches: 200,
        }
    }
}

/// What each user has under way.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    counts: Mutex<HashMap<(Arc<str>, Class), Count>>,
}

#[derive(Debug, Default)]
struct Count {
    requests: usize,
    bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    Request,
    /// Long-running: watches, followed logs, exec.
    Watch,
}

/// Held while the request is under way.
#[derive(Debug)]
pub(crate) struct Permit {
    usage: Arc<Usage>,
    key: (Arc<str>, Class),
    bytes: usize,
}

impl Usage {
    /// Admits a request with a body of `bytes`, or refuses it.
    pub(crate) fn enter(
        self: &Arc<Self>,
        identity: &Identity,
        class: Class,
        bytes: usize,
        limits: Limits,
    ) -> Result<Option<Permit>> {
        if identity.is_in(crate::auth::MASTERS) {
            return Ok(None);
        }
        let key = (Arc::clone(&identity.user), class);
        let limit = match class {
            Class::Request => limits.requests,
            Class::Watch => limits.watches,
        };
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key.clone()).or_default();
        if count.bytes + bytes > BYTES {
            return Err(ApiError::TooManyRequests(format!(
                "user {:?} has requests of {BYTES} bytes under way, which is the limit; try again later",
                identity.user
            )));
        }
        if count.requests >= limit {
            let what = match class {
                Class::Request => "requests",
                Class::Watch => "watches",
            };
            return Err(ApiError::TooManyRequests(format!(
                "user {:?} has {limit} {what} under way, which is the limit; try again later",
                identity.user
            )));
        }
        count.requests += 1;
        count.bytes += bytes;
        Ok(Some(Permit {
            usage: Arc::clone(self),
            key,
            bytes,
        }))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = self
            .usage
            .counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.key) {
            count.requests -= 1;
            count.bytes -= self.bytes;
            if count.requests == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_gets_back_what_ends_and_others_are_not_touched() {
        let usage = Arc::new(Usage::default());
        let limits = Limits {
            requests: 1,
            watches: 0,
        };
        let (ann, bob) = (Identity::user("ann", &[]), Identity::user("bob", &[]));
        let first = usage.enter(&ann, Class::Request, 0, limits).unwrap();
        assert!(usage.enter(&ann, Class::Request, 0, limits).is_err());
        assert!(usage.enter(&bob, Class::Request, 0, limits).is_ok());
        assert!(usage.enter(&ann, Class::Watch, 0, limits).is_err());
        assert!(
            usage
                .enter(&Identity::admin(), Class::Watch, 0, limits)
                .unwrap()
                .is_none()
        );
        drop(first);
        assert!(
            usage
                .enter(&ann, Class::Request, BYTES + 1, limits)
                .is_err()
        );
        assert!(usage.enter(&ann, Class::Request, 0, limits).is_ok());
    }
}
