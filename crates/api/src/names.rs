//! Names: what is valid, how children are called after their parents, how long that may get.
//!
//! ```text
//! TrainJob  demo
//! JobSet    demo
//! Service   demo                      (or the runtime's network.subdomain)
//! Job       demo-node-0               {job set}-{template}-{replica}
//! Pod       demo-node-0-1-x7k2p       {job}-{index}-{suffix}
//! host name demo-node-0-1             reached as demo-node-0-1.demo
//! ```
//!
//! Every one of them is a DNS label of at most 63 characters, which limits the name of the TrainJob
//! more than its own rule does. [`train_job_name_limit`] knows by how much.

/// The longest DNS label.
pub const MAX_LABEL: usize = 63;
/// The letters and digits at the end of a pod's name.
pub const POD_SUFFIX: usize = 5;

/// The name of a Job of a JobSet.
pub fn job(job_set: &str, replicated_job: &str, replica: i32) -> String {
    format!("{job_set}-{replicated_job}-{replica}")
}

/// The host name of a pod, which is its name without the suffix.
pub fn pod_hostname(job: &str, index: i32) -> String {
    format!("{job}-{index}")
}

/// The name of a pod.
pub fn pod(job: &str, index: i32, suffix: &str) -> String {
    format!("{job}-{index}-{suffix}")
}

/// The short address of a pod, as it is found from the other pods of its namespace.
pub fn pod_address(job: &str, index: i32, subdomain: &str) -> String {
    format!("{job}-{index}.{subdomain}")
}

/// The full address of a pod, as it is found from everywhere in the cluster.
pub fn pod_full_address(job: &str, index: i32, subdomain: &str, namespace: &str) -> String {
    format!("{job}-{index}.{subdomain}.{namespace}.svc.cluster.local")
}

/// The node index in the name of a pod of this Job: `1` for `demo-node-0-1-x7k2p` of `demo-node-0`.
pub fn pod_index(job: &str, pod: &str) -> Option<i32> {
    let rest = pod.strip_prefix(job)?.strip_prefix('-')?;
    let (index, _suffix) = rest.split_once('-')?;
    index.parse().ok()
}

/// The name of the claim that a JobSet makes of a volume claim template.
pub fn volume_claim(template: &str, job_set: &str) -> String {
    format!("{template}-{job_set}")
}

/// How long the name of a TrainJob may be so that the names of the pods of this template still fit.
pub fn train_job_name_limit(replicated_job: &str, replicas: i32, pods: i32) -> usize {
    let last = |count: i32| (count.max(1) - 1).to_string().len();
    // {name}-{template}-{replica}-{index}-{suffix}
    let rest = 4 + replicated_job.len() + last(replicas) + last(pods) + POD_SUFFIX;
    MAX_LABEL.saturating_sub(rest)
}

/// Whether this is a DNS label as RFC 1035 has it: lower case, starting with a letter. TrainJobs,
/// JobSets and Services are named so.
pub fn is_rfc1035_label(name: &str) -> bool {
    is_rfc1123_label(name) && name.starts_with(|first: char| first.is_ascii_lowercase())
}

/// Whether this is a DNS label as RFC 1123 has it: lower case, starting with a letter or a digit.
/// Namespaces, containers and volumes are named so.
pub fn is_rfc1123_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty()
        && name.len() <= MAX_LABEL
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_called_after_their_parents() {
        let job = job("demo", "node", 0);
        assert_eq!(job, "demo-node-0");
        assert_eq!(pod(&job, 1, "x7k2p"), "demo-node-0-1-x7k2p");
        assert_eq!(pod_address(&job, 1, "demo"), "demo-node-0-1.demo");
        assert_eq!(
            pod_full_address(&job, 1, "demo", "team"),
            "demo-node-0-1.demo.team.svc.cluster.local"
        );
        assert_eq!(pod_index(&job, "demo-node-0-1-x7k2p"), Some(1));
        assert_eq!(pod_index(&job, "demo-node-01-1-x7k2p"), None);
    }

    #[test]
    fn the_limit_of_a_train_job_name_leaves_room_for_its_pods() {
        assert_eq!(train_job_name_limit("node", 1, 10), 48);
        assert_eq!(train_job_name_limit("node", 1, 11), 47);
        assert_eq!(train_job_name_limit("launcher", 1, 1), 44);
        assert_eq!(train_job_name_limit("dataset-initializer", 1, 1), 33);
        let longest = "a".repeat(train_job_name_limit("node", 1, 1000));
        assert_eq!(
            pod(&job(&longest, "node", 0), 999, "abcde").len(),
            MAX_LABEL
        );
    }

    #[test]
    fn labels_are_told_from_other_names() {
        for name in ["a", "demo-1", "a0"] {
            assert!(is_rfc1035_label(name), "{name}");
        }
        for name in [
            "",
            "1a",
            "-a",
            "a-",
            "A",
            "a.b",
            "a_b",
            "é",
            &"a".repeat(64),
        ] {
            assert!(!is_rfc1035_label(name), "{name}");
        }
        assert!(is_rfc1123_label("1a"));
    }
}
