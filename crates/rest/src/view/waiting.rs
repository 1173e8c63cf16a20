//! Why something waits, for programs.

use astrago_plan::fit::Waiting;

use crate::model::Cause;

/// Why a job waits, with how many are before it.
pub(crate) fn cause_of_waiting(waiting: &Waiting) -> Cause {
    let cause = Cause::of(&waiting.cause);
    match waiting.ahead.at_least() {
        0 => cause,
        jobs => cause
            .with("ahead", jobs)
            .with("ahead_is_exact", waiting.ahead.is_exact()),
    }
}

#[cfg(test)]
mod tests {
    use astrago_plan::fit::{self, Ahead, GPU};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reason_of_the_scheduler_keeps_its_code_and_numbers() {
        let waiting = Waiting {
            cause: fit::Cause::Shortage {
                resource: GPU.to_owned(),
                needed: "4".parse().unwrap(),
                free: "1".parse().unwrap(),
            },
            ahead: Ahead::new(2),
        };
        let want = json!({ "code": "shortage", "parameters": {
            "resource": "nvidia.com/gpu", "needed": "4", "free": "1", "ahead": 2, "ahead_is_exact": true } });
        assert_eq!(json!(cause_of_waiting(&waiting)), want);
        let cause = Cause::of(&fit::Cause::Kept);
        assert_eq!(json!(cause), json!({ "code": "kept" }));
    }
}
