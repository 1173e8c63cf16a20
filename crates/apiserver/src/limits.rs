//! How much one user may ask of the server at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::auth::Identity;
use crate::status::{ApiError, Result};

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
    counts: Mutex<HashMap<(Arc<str>, Class), usize>>,
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
}

impl Usage {
    /// Counts a request in, or refuses it.
    pub(crate) fn enter(
        self: &Arc<Self>,
        identity: &Identity,
        class: Class,
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
        if *count >= limit {
            let what = match class {
                Class::Request => "requests",
                Class::Watch => "watches",
            };
            return Err(ApiError::TooManyRequests(format!(
                "user {:?} has {limit} {what} under way, which is the limit; try again later",
                identity.user
            )));
        }
        *count += 1;
        Ok(Some(Permit {
            usage: Arc::clone(self),
            key,
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
            *count -= 1;
            if *count == 0 {
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
        let first = usage.enter(&ann, Class::Request, limits).unwrap();
        assert!(usage.enter(&ann, Class::Request, limits).is_err());
        assert!(usage.enter(&bob, Class::Request, limits).is_ok());
        assert!(usage.enter(&ann, Class::Watch, limits).is_err());
        assert!(
            usage
                .enter(&Identity::admin(), Class::Watch, limits)
                .unwrap()
                .is_none()
        );
        drop(first);
        assert!(usage.enter(&ann, Class::Request, limits).is_ok());
    }
}
