//! How many restarts and how much time are too much.

use astrago_api::legacy::RunPolicy;
use jiff::Timestamp;

use crate::clock::after;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Restarts {
    /// Of containers, in pods that are there.
    pub(crate) in_place: i32,
    /// Of pods, on record, with the restarts of their containers.
    pub(crate) replaced: i32,
    /// Pods that failed and would have to be replaced now.
    pub(crate) due: i32,
}

/// Whether the limit is reached. As with a Job of Kubernetes, as many pods as the limit says are replaced, and
/// containers that start again in place reach the limit when they have done so as often.
pub(crate) fn too_many(limit: Option<i32>, restarts: Restarts) -> bool {
    let Some(limit) = limit else { return false };
    let past = restarts.in_place.saturating_add(restarts.replaced);
    let in_place = restarts.in_place > 0 && past >= limit;
    let replaced = restarts.due > 0 && past.saturating_add(restarts.due) > limit;
    in_place || replaced
}

/// When the time of a job is up that runs since `start`.
pub(crate) fn deadline(policy: &RunPolicy, start: Option<Timestamp>) -> Option<Timestamp> {
    Some(after(start?, policy.active_deadline_seconds?.max(0)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn restarts(in_place: i32, replaced: i32, due: i32) -> Restarts {
        Restarts {
            in_place,
            replaced,
            due,
        }
    }

    #[rstest]
    #[case::no_limit(None, restarts(100, 100, 1), false)]
    #[case::nothing_happened(Some(0), restarts(0, 0, 0), false)]
    #[case::none_allowed_in_place(Some(0), restarts(1, 0, 0), true)]
    #[case::none_allowed_anew(Some(0), restarts(0, 0, 1), true)]
    #[case::below(Some(3), restarts(2, 0, 0), false)]
    #[case::reached_in_place(Some(3), restarts(3, 0, 0), true)]
    #[case::last_one_allowed(Some(3), restarts(0, 2, 1), false)]
    #[case::all_used_and_running(Some(3), restarts(0, 3, 0), false)]
    #[case::one_too_many(Some(3), restarts(0, 3, 1), true)]
    #[case::both_count(Some(3), restarts(1, 2, 0), true)]
    #[case::several_at_once(Some(3), restarts(0, 2, 2), true)]
    fn the_limit_counts_every_restart(
        #[case] limit: Option<i32>,
        #[case] restarts: Restarts,
        #[case] want: bool,
    ) {
        assert_eq!(too_many(limit, restarts), want);
    }

    proptest! {
        /// A pod that fails again and again is replaced exactly as often as the limit says.
        #[test]
        fn pods_are_replaced_as_often_as_the_limit_says(limit in 0..50) {
            let mut replaced = 0;
            while !too_many(Some(limit), restarts(0, replaced, 1)) {
                replaced += 1;
            }
            prop_assert_eq!(replaced, limit);
        }

        /// What is too much stays too much.
        #[test]
        fn more_restarts_never_help(limit in 0..10, a in 0..12, b in 0..12, due in 0..3, more in 0..5) {
            if too_many(Some(limit), restarts(a, b, due)) {
                prop_assert!(too_many(Some(limit), restarts(a + more, b, due)));
                prop_assert!(too_many(Some(limit), restarts(a, b + more, due)));
                prop_assert!(too_many(Some(limit), restarts(a, b, due + more)));
            }
        }
    }

    #[test]
    fn the_deadline_counts_from_the_start() {
        let policy = RunPolicy {
            active_deadline_seconds: Some(30),
            ..RunPolicy::default()
        };
        let start = Timestamp::from_second(100).expect("a moment");
        assert_eq!(
            deadline(&policy, Some(start)).map(Timestamp::as_second),
            Some(130)
        );
        assert_eq!(deadline(&policy, None), None);
        assert_eq!(deadline(&RunPolicy::default(), Some(start)), None);
    }
}
