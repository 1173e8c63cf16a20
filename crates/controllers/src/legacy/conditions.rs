//! Conditions of a v1 job. The one that was set last stands last, since clients show the last as the job's state.

use astrago_api::legacy::{LegacyCondition, LegacyJobStatus};
use astrago_plan::FieldErrors;
use astrago_plan::legacy::Framework;
use jiff::Timestamp;

use crate::clock::stamp;

/// The controller has seen the job.
pub(crate) const CREATED: &str = "Created";
/// The replica that leads runs.
pub(crate) const RUNNING: &str = "Running";
/// Pods failed and are replaced.
pub(crate) const RESTARTING: &str = "Restarting";
/// The job is held, or (False) was held before.
pub(crate) const SUSPENDED: &str = "Suspended";
pub(crate) const SUCCEEDED: &str = "Succeeded";
pub(crate) const FAILED: &str = "Failed";

/// The condition of this type, if it holds.
pub(crate) fn holds<'a>(status: &'a LegacyJobStatus, kind: &str) -> Option<&'a LegacyCondition> {
    let mut conditions = status.conditions.iter();
    conditions.find(|condition| condition.type_ == kind && condition.status == "True")
}

/// The condition by which the job ended.
pub(crate) fn end(status: &LegacyJobStatus) -> Option<&LegacyCondition> {
    holds(status, FAILED).or_else(|| holds(status, SUCCEEDED))
}

/// Sets a condition. Running and Restarting take each other's place; the end of a job ends both, and nothing changes
/// after it. Whether something changed.
pub(crate) fn set(
    status: &mut LegacyJobStatus,
    kind: &str,
    value: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    let text = if value { "True" } else { "False" };
    let same = |known: &LegacyCondition| {
        known.type_ == kind && known.status == text && known.reason.as_deref() == Some(reason)
    };
    if end(status).is_some() || status.conditions.iter().any(same) {
        return false;
    }
    let known = status.conditions.iter().find(|known| known.type_ == kind);
    let since = known.filter(|known| known.status == text);
    let since = since.and_then(|known| known.last_transition_time.clone());
    let replaced = match kind {
        RUNNING => Some(RESTARTING),
        RESTARTING => Some(RUNNING),
        _ => None,
    };
    status
        .conditions
        .retain(|known| known.type_ != kind && Some(known.type_.as_str()) != replaced);
    if [SUCCEEDED, FAILED].contains(&kind) {
        for known in &mut status.conditions {
            if [RUNNING, RESTARTING].contains(&known.type_.as_str()) && known.status == "True" {
                "False".clone_into(&mut known.status);
                known.last_update_time = Some(stamp(now));
                known.last_transition_time = Some(stamp(now));
            }
        }
    }
    status.conditions.push(LegacyCondition {
        type_: kind.to_owned(),
        status: text.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_update_time: Some(stamp(now)),
        last_transition_time: since.or_else(|| Some(stamp(now))),
    });
    true
}

/// The status of a job that makes no sense and never started; nothing if it says so already.
pub(crate) fn refused(
    framework: &Framework,
    name: &str,
    known: &LegacyJobStatus,
    errors: &FieldErrors,
    now: Timestamp,
) -> Option<LegacyJobStatus> {
    let mut status = known.clone();
    let message = format!("{} {name} is invalid: {errors}", framework.kind);
    let reason = framework.reason("Failed");
    set(&mut status, FAILED, true, &reason, &message, now).then(|| {
        status.completion_time = Some(stamp(now));
        status
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(status: &LegacyJobStatus) -> Vec<(&str, &str)> {
        let conditions = status.conditions.iter();
        conditions
            .map(|condition| (condition.type_.as_str(), condition.status.as_str()))
            .collect()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a moment")
    }

    #[test]
    fn the_last_condition_is_the_state() {
        let mut status = LegacyJobStatus::default();
        assert!(set(&mut status, CREATED, true, "C", "", at(1)));
        assert!(set(&mut status, RUNNING, true, "R", "", at(2)));
        assert!(!set(&mut status, RUNNING, true, "R", "", at(3)));
        assert!(set(&mut status, RESTARTING, true, "R", "", at(4)));
        assert_eq!(types(&status), [(CREATED, "True"), (RESTARTING, "True")]);
        assert!(set(&mut status, RUNNING, true, "R", "", at(5)));
        assert!(set(&mut status, SUCCEEDED, true, "S", "", at(6)));
        let want = [(CREATED, "True"), (RUNNING, "False"), (SUCCEEDED, "True")];
        assert_eq!(types(&status), want);
        assert_eq!(
            status.conditions[1].last_transition_time,
            Some(stamp(at(6)))
        );
    }

    #[test]
    fn nothing_changes_after_the_end() {
        let mut status = LegacyJobStatus::default();
        set(&mut status, FAILED, true, "F", "", at(1));
        assert!(!set(&mut status, RUNNING, true, "R", "", at(2)));
        assert!(!set(&mut status, SUCCEEDED, true, "S", "", at(2)));
        assert_eq!(types(&status), [(FAILED, "True")]);
    }
}
