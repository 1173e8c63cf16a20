//! `activeDeadlineSeconds`: how long a job may take, counted from its creation or its last resumption.

use astrago_api::TrainJob;
use astrago_api::conditions::{find, train_job as condition};
use jiff::{SignedDuration, Timestamp};

/// When the time of `job` is up; `None` if it is not limited or the job is held.
pub fn deadline(job: &TrainJob) -> Option<Timestamp> {
    let seconds = job.spec.active_deadline_seconds?;
    if job.is_suspended() {
        return None;
    }
    let start = match find(job.conditions(), condition::SUSPENDED) {
        // Let go just now, and not yet written down: the time starts with that.
        Some(suspended) if suspended.status == "True" => return None,
        Some(resumed) => resumed.last_transition_time.0,
        None => job.metadata.creation_timestamp.as_ref()?.0,
    };
    Some(after(start, seconds))
}

/// `seconds` after `start`; saturates at the end of time instead of failing.
pub fn after(start: Timestamp, seconds: i64) -> Timestamp {
    let end = start.checked_add(SignedDuration::from_secs(seconds));
    end.unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn stamp(time: Timestamp) -> String {
        time.to_string()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a moment")
    }

    #[rstest]
    #[case::unlimited(None, false, None, None)]
    #[case::from_creation(Some(60), false, None, Some(160))]
    #[case::held(Some(60), true, None, None)]
    #[case::held_after_a_run(Some(60), true, Some(("True", 120)), None)]
    #[case::just_let_go(Some(60), false, Some(("True", 120)), None)]
    #[case::from_resumption(Some(60), false, Some(("False", 500)), Some(560))]
    fn the_time_runs_while_the_job_is_not_held(
        #[case] seconds: Option<i64>,
        #[case] suspend: bool,
        #[case] suspended: Option<(&str, i64)>,
        #[case] want: Option<i64>,
    ) {
        let conditions: Vec<Value> = suspended
            .iter()
            .map(|(status, second)| {
                json!({ "type": "Suspended", "status": status, "reason": "x", "message": "",
                        "lastTransitionTime": stamp(at(*second)) })
            })
            .collect();
        let job: TrainJob = serde_json::from_value(json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": { "name": "demo", "creationTimestamp": stamp(at(100)) },
            "spec": { "runtimeRef": { "name": "torch" }, "suspend": suspend, "activeDeadlineSeconds": seconds },
            "status": { "conditions": conditions },
        }))
        .expect("a valid job");
        assert_eq!(deadline(&job).map(Timestamp::as_second), want);
    }
}
