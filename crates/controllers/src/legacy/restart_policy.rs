//! What a failed pod means: another one in its place, or the end of the job.
//!
//! Containers that are started again in place by the node never get here; only a pod in phase Failed does.

use astrago_api::legacy::RestartPolicy;
use k8s_openapi::api::core::v1::Pod;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Replace,
    Fail,
}

/// What it means that a pod failed with this exit code. A pod without one did not end by itself: it was evicted,
/// or its node is gone.
pub(crate) fn judge(policy: RestartPolicy, exit_code: Option<i32>) -> Verdict {
    let replace = match policy {
        RestartPolicy::Never => false,
        RestartPolicy::Always | RestartPolicy::OnFailure => true,
        // 128 and a signal's number: it was killed, which may not happen again.
        RestartPolicy::ExitCode => exit_code.is_none_or(|code| code >= 128),
    };
    if replace {
        Verdict::Replace
    } else {
        Verdict::Fail
    }
}

/// The exit code that a failed pod is judged by: that of the container that trains, or of the first that failed
/// if that one did not.
pub(crate) fn exit_code(pod: &Pod, main: &str) -> Option<i32> {
    let status = pod.status.as_ref()?;
    let failed = |name: Option<&str>| {
        let mut containers = crate::pod::containers(status);
        containers.find_map(|container| {
            let ended = container.state.as_ref()?.terminated.as_ref()?;
            let meant = name.is_none_or(|name| container.name == name);
            (meant && ended.exit_code != 0).then_some(ended.exit_code)
        })
    };
    failed(Some(main)).or_else(|| failed(None))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case::never(RestartPolicy::Never, Some(137), Verdict::Fail)]
    #[case::never_evicted(RestartPolicy::Never, None, Verdict::Fail)]
    #[case::on_failure(RestartPolicy::OnFailure, Some(1), Verdict::Replace)]
    #[case::always(RestartPolicy::Always, Some(1), Verdict::Replace)]
    #[case::killed(RestartPolicy::ExitCode, Some(137), Verdict::Replace)]
    #[case::first_retryable(RestartPolicy::ExitCode, Some(128), Verdict::Replace)]
    #[case::last_permanent(RestartPolicy::ExitCode, Some(127), Verdict::Fail)]
    #[case::error(RestartPolicy::ExitCode, Some(1), Verdict::Fail)]
    #[case::evicted(RestartPolicy::ExitCode, None, Verdict::Replace)]
    fn a_failed_pod_is_replaced_or_fails_the_job(
        #[case] policy: RestartPolicy,
        #[case] code: Option<i32>,
        #[case] want: Verdict,
    ) {
        assert_eq!(judge(policy, code), want);
    }

    #[rstest]
    #[case::main(json!([["helper", 3], ["pytorch", 137]]), Some(137))]
    #[case::another(json!([["helper", 3], ["pytorch", 0]]), Some(3))]
    #[case::none(json!([]), None)]
    fn the_training_container_speaks_first(#[case] ended: Value, #[case] want: Option<i32>) {
        let containers = ended.as_array().expect("a list").iter().map(|entry| {
            json!({ "name": entry[0], "image": "", "imageID": "", "ready": false, "restartCount": 0,
                    "state": { "terminated": { "exitCode": entry[1] } } })
        });
        let containers: Vec<_> = containers.collect();
        let pod = json!({ "status": { "containerStatuses": containers } });
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        assert_eq!(exit_code(&pod, "pytorch"), want);
    }

    proptest! {
        #[test]
        fn exit_codes_split_at_128_and_nowhere_else(code in 1..=255) {
            let want = if code >= 128 { Verdict::Replace } else { Verdict::Fail };
            prop_assert_eq!(judge(RestartPolicy::ExitCode, Some(code)), want);
        }

        #[test]
        fn only_exit_code_looks_at_the_code(code in prop::option::of(0..=255), other in prop::option::of(0..=255)) {
            for policy in [RestartPolicy::Never, RestartPolicy::OnFailure, RestartPolicy::Always] {
                prop_assert_eq!(judge(policy, code), judge(policy, other));
            }
        }
    }
}
