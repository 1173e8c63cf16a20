//! Pods that vanished while they ran.
//!
//! A pod that is deleted from outside is usually seen on its way out, and counted as a failure then. One that is
//! deleted at once (by force, or before it was bound, or by a quick node) is seen only to be gone. The watch tells,
//! and this remembers it until it is on record. A crash in between loses such a count, and nothing else: the pod is
//! replaced either way.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Pod;

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
}

impl Losses {
    /// Takes note of a change of a pod.
    pub(crate) fn notice(&self, change: &Change<Pod>) {
        let (Some(old), None) = (&change.old, &change.new) else {
            return;
        };
        let mut state = self.lock();
        let uid = old.metadata.uid.as_deref().unwrap_or_default();
        if state.ours.remove(uid) || !pod::is_active(old) {
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

    /// What vanished of this Job is on record, or does not matter any more.
    pub(crate) fn settle(&self, job: &ObjectKey, on_record: &[Arc<Pod>]) {
        let mut state = self.lock();
        if let Some(lost) = state.lost.get_mut(job) {
            lost.retain(|pod| !on_record.iter().any(|settled| Arc::ptr_eq(pod, settled)));
            if lost.is_empty() {
                state.lost.remove(job);
            }
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
        let on_record = losses.of(&ObjectKey::new("ns", "demo"), Some(&"job-1".to_string()));
        losses.settle(&ObjectKey::new("ns", "demo"), &on_record);
        assert_eq!(lost(&losses, "job-1"), 0);
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
