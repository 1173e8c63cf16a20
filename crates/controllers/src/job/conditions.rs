//! Conditions of a Job, merged by type: a condition that stays what it is keeps its transition time.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};

use crate::clock::stamp;

pub(crate) fn set(
    status: &mut JobStatus,
    kind: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let value = if holds { "True" } else { "False" };
    let conditions = status.conditions.get_or_insert_default();
    let condition = JobCondition {
        type_: kind.to_string(),
        status: value.to_string(),
        reason: Some(reason.to_string()),
        message: Some(message.to_string()),
        last_probe_time: Some(stamp(now)),
        last_transition_time: Some(stamp(now)),
    };
    match conditions.iter_mut().find(|known| known.type_ == kind) {
        Some(known) if known.status == value => {}
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_stays_keeps_its_time() {
        let mut status = JobStatus::default();
        let (first, second) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
        set(
            &mut status,
            "Suspended",
            true,
            "JobSuspended",
            "Job suspended",
            first,
        );
        set(
            &mut status,
            "Suspended",
            true,
            "JobSuspended",
            "Job suspended",
            second,
        );
        let conditions = status.conditions.clone().unwrap_or_default();
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0].last_transition_time, Some(stamp(first)));
        set(
            &mut status,
            "Suspended",
            false,
            "JobResumed",
            "Job resumed",
            second,
        );
        let conditions = status.conditions.unwrap_or_default();
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0].last_transition_time, Some(stamp(second)));
    }
}
