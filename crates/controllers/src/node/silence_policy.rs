//! What the silence of a node means.
//!
//! It is measured by our own clock from the moment we saw its last sign of life, not from the time that the sign
//! carries: when all of a machine was off for an hour, or only the control plane was, no node is lost at once on
//! the next start, and training that went on without us goes on with us.

use jiff::Timestamp;

use crate::clock::after;

/// So long a node may be silent before it gets no new pods.
const UNREADY_AFTER: i64 = 60;

/// So long a node may be silent before its pods are given up. Training is expensive to start again, and
/// `astrago up` is stopped and started by hand.
const LOST_AFTER: i64 = 360;

/// What the silence means, and until when it means no more than that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    /// It is short.
    Usual(Timestamp),
    /// It is too long to give the node more work.
    Worrying(Timestamp),
    /// The node is taken for lost.
    Final,
}

/// What it means at `now` that a node was last heard of at `heard`.
pub(crate) fn silence(heard: Timestamp, now: Timestamp) -> Silence {
    let (unready, lost) = (after(heard, UNREADY_AFTER), after(heard, LOST_AFTER));
    if now < unready {
        Silence::Usual(unready)
    } else if now < lost {
        Silence::Worrying(lost)
    } else {
        Silence::Final
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
    #[case::just_heard(1000, Silence::Usual(at(1060)))]
    #[case::a_minute(1060, Silence::Worrying(at(1360)))]
    #[case::five_minutes(1300, Silence::Worrying(at(1360)))]
    #[case::six_minutes(1360, Silence::Final)]
    #[case::a_clock_that_was_set_back(500, Silence::Usual(at(1060)))]
    fn silence_gets_worse(#[case] now: i64, #[case] want: Silence) {
        assert_eq!(silence(at(1000), at(now)), want);
    }
}
