//! How much one user may ask for at once, so that a script in a loop does not take the server from
//! everybody else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use crate::identity::Caller;

/// What each user may do. Administrators are not limited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    pub reads: Limit,
    pub changes: Limit,
}

/// Requests per second in the long run, and at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    pub per_second: f64,
    pub burst: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            reads: Limit {
                per_second: 200.0,
                burst: 1000.0,
            },
            changes: Limit {
                per_second: 20.0,
                burst: 200.0,
            },
        }
    }
}

pub(crate) struct Limiter {
    limits: Option<Limits>,
    buckets: Mutex<HashMap<(String, bool), Bucket>>,
    under_way: Arc<UnderWay>,
}

/// What there is of unfinished requests, by user.
type UnderWay = Mutex<HashMap<(String, Kept), u64>>;

/// What a request has until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kept {
    /// Its answer, until that is read. A page has a few of them open, and every log that somebody follows is one.
    Answer,
    /// Bytes of its body.
    /// What is made of them takes several times as much.
    InMemory,
    OnDisk,
}

impl Kept {
    /// What one user may have there.
    const fn most(self) -> u64 {
        match self {
            Self::Answer => 200,
            Self::InMemory => 32 << 20,
            Self::OnDisk => 2 * crate::snapshot::MAX_BYTES,
        }
    }
}

/// What one request has of that, until it is dropped.
pub(crate) struct Share {
    all: Arc<UnderWay>,
    /// Administrators are not limited.
    key: Option<(String, Kept)>,
    amount: u64,
}

impl Share {
    /// Takes more; when the user has too much already, tells after how many seconds to come back.
    pub(crate) fn grow(&mut self, amount: usize) -> Result<(), u64> {
        let Some(key) = &self.key else { return Ok(()) };
        let amount = amount as u64;
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = all.entry(key.clone()).or_default();
        if *taken + amount > key.1.most() {
            return Err(1);
        }
        *taken += amount;
        self.amount += amount;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some(key) = &self.key else { return };
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = all.get_mut(key) {
            *taken -= self.amount;
            if *taken == 0 {
                all.remove(key);
            }
        }
    }
}

struct Bucket {
    left: f64,
    at: Timestamp,
}

/// Beyond this many users those whose bucket is full again are forgotten.
const MOST: usize = 10_000;

impl Limiter {
    pub(crate) fn new(limits: Option<Limits>) -> Self {
        Self {
            limits,
            buckets: Mutex::default(),
            under_way: Arc::default(),
        }
    }

    /// What a request of somebody will have under way: nothing yet.
    pub(crate) fn share(&self, caller: &Caller, kept: Kept) -> Share {
        Share {
            all: Arc::clone(&self.under_way),
            key: (!caller.is_admin()).then(|| (caller.user.clone(), kept)),
            amount: 0,
        }
    }

    /// Counts a request; when there are too many, tells after how many seconds to come back.
    pub(crate) fn count(&self, caller: &Caller, changes: bool, now: Timestamp) -> Result<(), u64> {
        let Some(limits) = self.limits.filter(|_| !caller.is_admin()) else {
            return Ok(());
        };
        let limit = if changes {
            limits.changes
        } else {
            limits.reads
        };
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MOST {
            buckets.retain(|(_, changes), bucket| {
                let limit = if *changes {
                    limits.changes
                } else {
                    limits.reads
                };
                bucket.filled(limit, now) < limit.burst
            });
        }
        let bucket = buckets
            .entry((caller.user.clone(), changes))
            .or_insert(Bucket {
                left: limit.burst,
                at: now,
            });
        bucket.left = bucket.filled(limit, now);
        bucket.at = now;
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return Ok(());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few seconds"
        )]
        let seconds = ((1.0 - bucket.left) / limit.per_second).ceil() as u64;
        Err(seconds.clamp(1, 3600))
    }
}

impl Bucket {
    fn filled(&self, limit: Limit, now: Timestamp) -> f64 {
        let passed = now.duration_since(self.at).as_secs_f64().max(0.0);
        (self.left + passed * limit.per_second).min(limit.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(user: &str, groups: &[&str]) -> Caller {
        Caller {
            user: user.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            token: None,
            expires_at: None,
            admin: false,
            credential: None,
        }
    }

    #[test]
    fn what_a_user_has_under_way_is_limited_and_comes_back() {
        let limiter = Limiter::new(None);
        let (kim, lee) = (caller("kim", &[]), caller("lee", &[]));
        let most = usize::try_from(Kept::InMemory.most()).unwrap();
        let mut first = limiter.share(&kim, Kept::InMemory);
        assert_eq!(first.grow(most), Ok(()));
        let mut second = limiter.share(&kim, Kept::InMemory);
        assert_eq!(second.grow(1), Err(1));
        assert_eq!(limiter.share(&kim, Kept::OnDisk).grow(1), Ok(()));
        assert_eq!(limiter.share(&lee, Kept::InMemory).grow(most), Ok(()));
        let admin = caller("admin", &["system:masters"]);
        assert_eq!(limiter.share(&admin, Kept::InMemory).grow(2 * most), Ok(()));
        drop(first);
        assert_eq!(second.grow(most), Ok(()));
        drop(second);
        assert!(limiter.under_way.lock().unwrap().is_empty());
    }

    #[test]
    fn a_user_is_limited_and_others_are_not() {
        let limit = Limit {
            per_second: 0.5,
            burst: 2.0,
        };
        let limiter = Limiter::new(Some(Limits {
            reads: Limits::default().reads,
            changes: limit,
        }));
        let at = |second| Timestamp::from_second(second).unwrap();
        let kim = caller("kim", &[]);
        assert_eq!(limiter.count(&kim, true, at(0)), Ok(()));
        assert_eq!(limiter.count(&kim, true, at(0)), Ok(()));
        assert_eq!(limiter.count(&kim, true, at(0)), Err(2));
        assert_eq!(limiter.count(&kim, false, at(0)), Ok(()));
        assert_eq!(limiter.count(&caller("lee", &[]), true, at(0)), Ok(()));
        assert_eq!(limiter.count(&kim, true, at(2)), Ok(()));
        let admin = caller("admin", &["system:masters"]);
        assert!((0..1000).all(|_| limiter.count(&admin, true, at(0)).is_ok()));
    }
}
