//! Why something waits, for programs: the scheduler's sentence taken apart again.

use astrago_api::quantity::Amount;
use astrago_plan::fit::{self, Waiting};

use crate::model::Cause;

/// What a sentence of the scheduler says.
pub(crate) fn cause_of_sentence(sentence: &str) -> Cause {
    let Ok(waiting) = sentence.parse::<Waiting>();
    let cause = cause_of(&waiting.cause);
    match waiting.ahead.at_least() {
        0 => cause,
        jobs => cause
            .with("ahead", jobs)
            .with("ahead_is_exact", waiting.ahead.is_exact()),
    }
}

/// A cause of the fit check or of the scheduler, with its words and numbers.
pub(crate) fn cause_of(cause: &fit::Cause) -> Cause {
    use fit::Cause as From;
    let text = |amount: &Amount| amount.to_string();
    match cause {
        From::Shortage {
            resource,
            needed,
            free,
        } => Cause::new("shortage")
            .with("resource", resource.as_str())
            .with("needed", text(needed))
            .with("free", text(free)),
        From::Scattered {
            resource,
            needed,
            free,
        } => Cause::new("scattered")
            .with("resource", resource.as_str())
            .with("needed", text(needed))
            .with("free", text(free)),
        From::Room { pods, fits } => Cause::new("room").with("pods", *pods).with("fits", *fits),
        From::TooBig {
            resource,
            needed,
            largest,
        } => Cause::new("too_big")
            .with("resource", resource.as_str())
            .with("needed", text(needed))
            .with("largest", text(largest)),
        From::TooMuch {
            resource,
            needed,
            all,
        } => Cause::new("too_much")
            .with("resource", resource.as_str())
            .with("needed", text(needed))
            .with("all", text(all)),
        From::NotTogether { pods } => Cause::new("not_together").with("pods", *pods),
        From::NoNodeSelected => Cause::new("no_node_selected"),
        From::NoNodeAffine => Cause::new("no_node_affine"),
        From::Tainted => Cause::new("tainted"),
        From::Cordoned => Cause::new("cordoned"),
        From::NotReady => Cause::new("not_ready"),
        From::Quota {
            quota,
            resource,
            needed,
            free,
        } => Cause::new("quota")
            .with("quota", quota.as_str())
            .with("resource", resource.as_str())
            .with("needed", text(needed))
            .with("free", text(free)),
        From::OverQuota {
            quota,
            resource,
            needed,
            hard,
        } => Cause::new("over_quota")
            .with("quota", quota.as_str())
            .with("resource", resource.as_str())
            .with("needed", text(needed))
            .with("hard", text(hard)),
        From::Kept => Cause::new("kept"),
        From::Pods { missing } => Cause::new("pods").with("missing", *missing),
        From::Gated { gate } => Cause::new("gated").with("gate", gate.as_str()),
        From::NoClaim { claim } => Cause::new("no_claim").with("claim", claim.as_str()),
        // Also what another scheduler wrote: nothing is known of it but its words.
        From::Invalid { reason } => Cause::new("other").with("text", reason.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sentence_of_the_scheduler_is_read_back() {
        let cause = cause_of_sentence("needs 4 GPUs, 1 free; 2 jobs ahead");
        let want = json!({ "code": "shortage", "parameters": {
            "resource": "nvidia.com/gpu", "needed": "4", "free": "1", "ahead": 2, "ahead_is_exact": true } });
        assert_eq!(json!(cause), want);
        let cause = cause_of_sentence("0/3 nodes are available");
        assert_eq!(
            json!(cause),
            json!({ "code": "other", "parameters": { "text": "0/3 nodes are available" } })
        );
    }
}
