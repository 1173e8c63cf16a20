//! `podFailurePolicy`: what a failed pod means for its Job. The first rule that matches decides; a pod that no
//! rule is for counts against the back-off limit. Of a pod that was ended on purpose the exit code says nothing, so
//! only rules about conditions are for it, and without one it counts as nothing at all.

use k8s_openapi::api::batch::v1::{
    PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::pod;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It counts against the limit.
    Count,
    /// It is replaced and does not count.
    Ignore,
    /// Its index has failed, whatever is left of the index's limit.
    FailIndex,
    /// The Job has failed, for this reason.
    FailJob(String),
}

/// What the failed `pod` means under `policy`.
pub(crate) fn meaning(policy: Option<&PodFailurePolicy>, pod: &Pod) -> Meaning {
    rule_for(policy, |rule| {
        let codes = rule.on_exit_codes.as_ref();
        codes
            .and_then(|wanted| by_exit_code(wanted, pod))
            .or_else(|| by_condition(rule, pod))
    })
    .unwrap_or(Meaning::Count)
}

/// What `policy` says about a `pod` that was ended on purpose; mostly nothing.
pub(crate) fn meaning_of_disruption(
    policy: Option<&PodFailurePolicy>,
    pod: &Pod,
) -> Option<Meaning> {
    rule_for(policy.filter(|_| pod::is_disrupted(pod)), |rule| {
        by_condition(rule, pod)
    })
}

fn rule_for(
    policy: Option<&PodFailurePolicy>,
    matches: impl Fn(&PodFailurePolicyRule) -> Option<String>,
) -> Option<Meaning> {
    let mut rules = policy.iter().flat_map(|policy| &policy.rules).enumerate();
    rules.find_map(|(number, rule)| {
        let what = matches(rule)?;
        Some(match rule.action.as_str() {
            "FailJob" => {
                Meaning::FailJob(format!("{what} matching FailJob rule at index {number}"))
            }
            "FailIndex" => Meaning::FailIndex,
            "Ignore" => Meaning::Ignore,
            _ => Meaning::Count,
        })
    })
}

fn subject(pod: &Pod) -> String {
    format!(
        "pod {}/{}",
        pod.namespace().unwrap_or_default(),
        pod.name_any()
    )
}

fn by_exit_code(wanted: &PodFailurePolicyOnExitCodesRequirement, pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let mut ended = pod::containers(status).filter_map(|container| {
        let named = wanted
            .container_name
            .as_ref()
            .is_none_or(|name| *name == container.name);
        let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
        (named && code != 0).then_some((container, code))
    });
    let (container, code) = ended.find(|(_, code)| match wanted.operator.as_str() {
        "In" => wanted.values.contains(code),
        "NotIn" => !wanted.values.contains(code),
        _ => false,
    })?;
    Some(format!(
        "Container {} for {} failed with exit code {code}",
        container.name,
        subject(pod)
    ))
}

fn by_condition(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let wanted = rule.on_pod_conditions.as_deref().unwrap_or_default();
    let mut conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let matched = conditions.find(|condition| {
        wanted.iter().any(|pattern| {
            let status = pattern.status.as_deref().unwrap_or("True");
            pattern.type_ == condition.type_ && status == condition.status
        })
    })?;
    let (kind, status) = (&matched.type_, &matched.status);
    Some(format!(
        "{} has condition {kind}={status}",
        capitalized(&subject(pod))
    ))
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn pod(exit_code: i32, condition: Option<&str>) -> Pod {
        let conditions: Vec<Value> = condition
            .iter()
            .map(|kind| json!({ "type": kind, "status": "True" }))
            .collect();
        serde_json::from_value(json!({
            "metadata": { "name": "demo-0-abcde", "namespace": "ns" },
            "status": {
                "phase": "Failed",
                "conditions": conditions,
                "containerStatuses": [{
                    "name": "node", "ready": false, "restartCount": 0, "image": "", "imageID": "",
                    "state": { "terminated": { "exitCode": exit_code } },
                }],
            },
        }))
        .expect("a valid pod")
    }

    fn policy(rules: &Value) -> PodFailurePolicy {
        serde_json::from_value(json!({ "rules": rules })).expect("a valid policy")
    }

    #[rstest]
    #[case::in_list(json!([{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}}]), Meaning::Ignore)]
    #[case::not_in_list(json!([{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [4]}}]), Meaning::Count)]
    #[case::not_in_operator(json!([{"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [4]}}]), Meaning::FailIndex)]
    #[case::other_container(json!([{"action": "Ignore", "onExitCodes": {"containerName": "x", "operator": "In", "values": [3]}}]), Meaning::Count)]
    #[case::first_rule_decides(json!([
        {"action": "Count", "onExitCodes": {"operator": "In", "values": [3]}},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}},
    ]), Meaning::Count)]
    #[case::the_job_fails(json!([{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]),
        Meaning::FailJob("Container node for pod ns/demo-0-abcde failed with exit code 3 matching FailJob rule at index 0".into()))]
    fn the_exit_code_decides(#[case] rules: Value, #[case] want: Meaning) {
        assert_eq!(meaning(Some(&policy(&rules)), &pod(3, None)), want);
    }

    #[test]
    fn a_disrupted_pod_can_be_ignored() {
        let rules = json!([{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]);
        let policy = policy(&rules);
        assert_eq!(
            meaning(Some(&policy), &pod(143, Some("DisruptionTarget"))),
            Meaning::Ignore
        );
        assert_eq!(meaning(Some(&policy), &pod(143, None)), Meaning::Count);
    }

    #[test]
    fn without_a_policy_every_failure_counts() {
        assert_eq!(meaning(None, &pod(1, None)), Meaning::Count);
    }
}
