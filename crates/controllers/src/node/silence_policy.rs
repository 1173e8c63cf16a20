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
const LOST_AFTER: i64 = 420;

/// A silent node is looked at at least so often.
const LOOK_EVERY: i64 = 60;

/// When so much time lies between two looks, it was we who were not there: a laptop was closed, or a process held.
/// [`LOST_AFTER`] is longer than this and a pause between two looks together, so that a nap is never taken for a
/// loss.
const ASLEEP_AFTER: i64 = 300;

/// What is known of a node's signs of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hearing {
    /// The last sign, by the node's clock.
    sign: Option<Timestamp>,
    /// When we saw it, or woke up, by ours.
    heard: Timestamp,
    /// When we last looked, by ours.
    looked: Timestamp,
}

/// What is known when the newest sign at `now` is `sign`.
pub(crate) fn hear(before: Option<Hearing>, sign: Option<Timestamp>, now: Timestamp) -> Hearing {
    let awake = |before: &Hearing| now <= after(before.looked, ASLEEP_AFTER);
    match before.filter(|before| before.sign == sign && awake(before)) {
        Some(before) => Hearing {
            looked: now,
            ..before
        },
        None => Hearing {
            sign,
            heard: now,
            looked: now,
        },
    }
}

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

/// What it means at `now` that a node was last heard of then.
pub(crate) fn silence(hearing: &Hearing, now: Timestamp) -> Silence {
    let heard = hearing.heard;
    let (unready, lost) = (after(heard, UNREADY_AFTER), after(heard, LOST_AFTER));
    if now < unready {
        Silence::Usual(unready)
    } else if now < lost {
        Silence::Worrying(lost.min(after(now, LOOK_EVERY)))
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

    fn heard_at(second: i64) -> Hearing {
        hear(None, Some(at(0)), at(second))
    }

    #[rstest]
    #[case::just_heard(1000, Silence::Usual(at(1060)))]
    #[case::a_minute(1060, Silence::Worrying(at(1120)))]
    #[case::nearly_seven_minutes(1400, Silence::Worrying(at(1420)))]
    #[case::seven_minutes(1420, Silence::Final)]
    #[case::a_clock_that_was_set_back(500, Silence::Usual(at(1060)))]
    fn silence_gets_worse(#[case] now: i64, #[case] want: Silence) {
        assert_eq!(silence(&heard_at(1000), at(now)), want);
    }

    #[test]
    fn a_new_sign_ends_the_silence_and_the_same_one_does_not() {
        let before = heard_at(1000);
        assert_eq!(hear(Some(before), Some(at(0)), at(1100)).heard, at(1000));
        assert_eq!(hear(Some(before), Some(at(5)), at(1100)).heard, at(1100));
    }

    #[test]
    fn a_nap_of_ours_is_no_silence_of_the_node() {
        let before = heard_at(1000);
        assert_eq!(
            silence(&hear(Some(before), Some(at(0)), at(9000)), at(9000)),
            Silence::Usual(at(9060))
        );
    }
}
