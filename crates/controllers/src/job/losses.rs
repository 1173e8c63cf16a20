//! Pods that vanished while they ran.
//!
//! A pod that is deleted from outside is usually seen on its way out, and counted as a failure then. One that is
//! deleted at once (by force, or before it was bound, or by a quick node) is seen only to be gone. The watch tells,
//! and this remembers it until it is on record. A crash in between loses such a count, and nothing else: the pod is
//! replaced either way.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Pod;

use super::fetch::Observed;
use crate::context::{job_of, owner_uid};
use crate::mirror::Change;
use crate::pod;
use crate::queue::ObjectKey;

/// What vanished and is not on record yet.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lost: HashMap<ObjectKey, Vec<Arc<Pod>>>,
    /// Uids of pods that we delete ourselves.
    ours: HashSet<String>,
    /// Uids of pods whose failure is on record since they were seen on their way out.
    counted: HashSet<String>,
}

impl Losses {
    /// Takes note of a change of a pod.
    pub(crate) fn notice(&self, change: &Change<Pod>) {
        let (Some(old), None) = (&change.old, &change.new) else {
            return;
        };
        let mut state = self.lock();
        let uid = old.metadata.uid.as_deref().unwrap_or_default();
        let known = state.ours.remove(uid) | state.counted.remove(uid);
        if known || pod::is_terminal(old) {
            return;
        }
        if let Some(job) = job_of(old) {
            state.lost.entry(job).or_default().push(Arc::clone(old));
        }
    }

    /// We are about to delete this pod; that is no loss.
    pub(crate) fn expect(&self, pod: &Pod) {
        self.lock().ours.extend(pod.metadata.uid.clone());
    }

    /// The pods of the Job with this uid that vanished.
    pub(crate) fn of(&self, job: &ObjectKey, uid: Option<&String>) -> Vec<Arc<Pod>> {
        let state = self.lock();
        let lost = state.lost.get(job).into_iter().flatten();
        lost.filter(|pod| owner_uid(&***pod).as_ref() == uid)
            .cloned()
            .collect()
    }

    /// What was `observed` of this Job is on record: the pods that vanished, and those on their way out.
    pub(crate) fn settle(&self, job: &ObjectKey, observed: &Observed) {
        let mut state = self.lock();
        let mut lost = state.lost.remove(job).unwrap_or_default();
        lost.retain(|pod| {
            !observed
                .lost
                .iter()
                .any(|settled| Arc::ptr_eq(pod, settled))
        });
        for pod in observed.own.iter().filter(|pod| pod::is_terminating(pod)) {
            // It may have vanished while its count was being written.
            let before = lost.len();
            lost.retain(|vanished| vanished.metadata.uid != pod.metadata.uid);
            if lost.len() == before {
                state.counted.extend(pod.metadata.uid.clone());
            }
        }
        if !lost.is_empty() {
            state.lost.insert(job.clone(), lost);
        }
    }

    /// The Job is gone.
    pub(crate) fn forget(&self, job: &ObjectKey) {
        self.lock().lost.remove(job);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(phase: &str) -> Arc<Pod> {
        let pod = json!({
            "metadata": {
                "name": "demo-0-abcde", "namespace": "ns", "uid": "pod-1",
                "labels": { "batch.kubernetes.io/job-name": "demo" },
                "ownerReferences": [
                    { "apiVersion": "batch/v1", "kind": "Job", "name": "demo", "uid": "job-1", "controller": true },
                ],
            },
            "status": { "phase": phase },
        });
        Arc::new(serde_json::from_value(pod).expect("a valid pod"))
    }

    fn lost(losses: &Losses, uid: &str) -> usize {
        losses
            .of(&ObjectKey::new("ns", "demo"), Some(&uid.to_string()))
            .len()
    }

    #[test]
    fn only_a_pod_that_could_still_run_is_a_loss() {
        let losses = Losses::default();
        losses.notice(&Change {
            old: Some(pod("Succeeded")),
            new: None,
        });
        losses.notice(&Change {
            old: Some(pod("Running")),
            new: Some(pod("Running")),
        });
        assert_eq!(lost(&losses, "job-1"), 0);
        losses.notice(&Change {
            old: Some(pod("Running")),
            new: None,
        });
        assert_eq!(lost(&losses, "job-1"), 1);
        assert_eq!(lost(&losses, "job-2"), 0);
        let key = ObjectKey::new("ns", "demo");
        let lost_pods = losses.of(&key, Some(&"job-1".to_string()));
        losses.settle(
            &key,
            &Observed {
                lost: lost_pods,
                ..Observed::default()
            },
        );
        assert_eq!(lost(&losses, "job-1"), 0);
    }

    #[test]
    fn a_pod_that_was_counted_on_its_way_out_is_no_loss_when_it_is_gone() {
        let losses = Losses::default();
        let mut leaving = (*pod("Running")).clone();
        leaving.metadata.deletion_timestamp =
            Some(crate::clock::stamp(jiff::Timestamp::UNIX_EPOCH));
        let leaving = Arc::new(leaving);
        let observed = Observed {
            own: vec![Arc::clone(&leaving)],
            ..Observed::default()
        };
        losses.settle(&ObjectKey::new("ns", "demo"), &observed);
        losses.notice(&Change {
            old: Some(Arc::clone(&leaving)),
            new: None,
        });
        assert_eq!(lost(&losses, "job-1"), 0);
        // Nor is one that was gone before its count was on record.
        losses.notice(&Change {
            old: Some(Arc::clone(&leaving)),
            new: None,
        });
        losses.settle(&ObjectKey::new("ns", "demo"), &observed);
        assert_eq!(lost(&losses, "job-1"), 0);
        // One that nobody saw leave is.
        losses.notice(&Change {
            old: Some(leaving),
            new: None,
        });
        assert_eq!(lost(&losses, "job-1"), 1);
    }

    #[test]
    fn what_we_delete_ourselves_is_no_loss() {
        let losses = Losses::default();
        losses.expect(&pod("Running"));
        losses.notice(&Change {
            old: Some(pod("Running")),
            new: None,
        });
        assert_eq!(lost(&losses, "job-1"), 0);
    }
}
