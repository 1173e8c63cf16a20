//! Conditions of TrainJobs and JobSets, merged by type: a condition that stays what it is keeps its transition
//! time, and keeps its place in the list, since `kubectl get` shows the last one.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::clock::stamp;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) kind: &'a str,
    pub(crate) holds: bool,
    /// Why, for machines.
    pub(crate) reason: &'a str,
    /// Why, for people.
    pub(crate) message: &'a str,
}

/// Makes `conditions` say `claim`, as of `since`, about this generation of the object. Tells whether the
/// condition's status changed.
pub(crate) fn set(
    conditions: &mut Vec<Condition>,
    claim: Claim<'_>,
    generation: Option<i64>,
    since: Timestamp,
) -> bool {
    let status = if claim.holds { "True" } else { "False" };
    let known = conditions
        .iter_mut()
        .find(|known| known.type_ == claim.kind);
    let changed = known.as_ref().is_none_or(|known| known.status != status);
    let time = known
        .as_ref()
        .filter(|_| !changed)
        .map(|known| known.last_transition_time.clone());
    let condition = Condition {
        type_: claim.kind.to_string(),
        status: status.to_string(),
        reason: claim.reason.to_string(),
        message: claim.message.to_string(),
        last_transition_time: time.unwrap_or_else(|| stamp(since)),
        observed_generation: generation,
    };
    match known {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(holds: bool) -> Claim<'static> {
        Claim {
            kind: "Suspended",
            holds,
            reason: "Reason",
            message: "message",
        }
    }

    #[test]
    fn a_condition_that_stays_keeps_its_time_and_learns_the_generation() {
        let mut conditions = Vec::new();
        assert!(set(
            &mut conditions,
            claim(true),
            Some(1),
            Timestamp::UNIX_EPOCH
        ));
        assert!(!set(&mut conditions, claim(true), Some(2), Timestamp::MAX));
        assert_eq!(conditions.len(), 1);
        assert_eq!(
            conditions[0].last_transition_time,
            stamp(Timestamp::UNIX_EPOCH)
        );
        assert_eq!(conditions[0].observed_generation, Some(2));
    }

    #[test]
    fn a_condition_that_changes_gets_a_new_time() {
        let mut conditions = Vec::new();
        set(&mut conditions, claim(true), None, Timestamp::UNIX_EPOCH);
        assert!(set(&mut conditions, claim(false), None, Timestamp::MAX));
        assert_eq!(conditions[0].status, "False");
        assert_eq!(conditions[0].last_transition_time, stamp(Timestamp::MAX));
    }
}
