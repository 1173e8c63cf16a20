//! When a finished object is to be deleted.
//!
//! Counted from the moment it finished, as its status has it: a server that was down when the time was up
//! deletes on its next start, and a restart never resets the count.

use jiff::Timestamp;

use crate::clock::after;

/// What to do about an object that finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ttl {
    /// It stays.
    Keep,
    /// It stays until then.
    Until(Timestamp),
    /// Its time is up.
    Expired,
}

/// What to do at `now` about an object that finished at `finished` and is kept for `seconds`.
pub(crate) fn ttl(seconds: Option<i32>, finished: Option<Timestamp>, now: Timestamp) -> Ttl {
    let (Some(seconds), Some(finished)) = (seconds, finished) else {
        return Ttl::Keep;
    };
    let due = after(finished, i64::from(seconds.max(0)));
    if due <= now {
        Ttl::Expired
    } else {
        Ttl::Until(due)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a moment")
    }

    #[rstest]
    #[case::no_ttl(None, Some(100), Ttl::Keep)]
    #[case::not_finished(Some(10), None, Ttl::Keep)]
    #[case::at_once(Some(0), Some(200), Ttl::Expired)]
    #[case::not_yet(Some(101), Some(100), Ttl::Until(at(201)))]
    #[case::just_now(Some(100), Some(100), Ttl::Expired)]
    #[case::long_ago(Some(5), Some(100), Ttl::Expired)]
    #[case::in_the_future_by_skewed_clocks(Some(5), Some(300), Ttl::Until(at(305)))]
    fn the_time_counts_from_the_end(
        #[case] seconds: Option<i32>,
        #[case] finished: Option<i64>,
        #[case] want: Ttl,
    ) {
        assert_eq!(ttl(seconds, finished.map(at), at(200)), want);
    }
}
