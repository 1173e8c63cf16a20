//! A node that runs nothing: it takes its pods to Running, and to their end when the test says so.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::{FakeClock, NAMESPACE, eventually};

/// What the node does with a pod that is bound to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Nothing; it stays Pending.
    Wait,
    /// It runs and is ready, until a command ends it.
    Run,
    /// It ends well at once.
    Succeed,
    /// It ends with this exit code at once.
    Fail(i32),
}

type Policy = Box<dyn Fn(&Pod) -> Behaviour + Send + Sync>;

#[derive(Clone)]
pub struct FakeNode {
    name: String,
    client: Client,
    clock: FakeClock,
    policy: Arc<Mutex<Policy>>,
    /// How pods end that are told to; otherwise they are just gone.
    manners: Arc<Mutex<Option<i32>>>,
    task: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl fmt::Debug for FakeNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeNode")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl FakeNode {
    /// Registers a node with this capacity, and starts to serve it.
    pub async fn start(
        client: Client,
        clock: FakeClock,
        name: &str,
        capacity: &[(&str, &str)],
    ) -> Self {
        let node = Self {
            name: name.to_string(),
            client,
            clock,
            policy: Arc::new(Mutex::new(Box::new(|_| Behaviour::Run))),
            manners: Arc::default(),
            task: Arc::default(),
        };
        node.register(capacity).await;
        let served = node.clone();
        let task = tokio::spawn(async move { served.serve().await });
        *node.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        node
    }

    /// From now on pods that arrive, or have not started, do what `policy` says.
    pub fn behave(&self, policy: impl Fn(&Pod) -> Behaviour + Send + Sync + 'static) {
        *self.policy.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(policy);
    }

    /// From now on pods that are deleted while they run end with this exit code, and the node says so before they are
    /// gone.
    pub fn stop_with(&self, exit_code: i32) {
        *self.manners.lock().unwrap_or_else(PoisonError::into_inner) = Some(exit_code);
    }

    /// Reports that it lives, as of the fake clock's time.
    pub async fn beat(&self) {
        let now = stamp(self.clock.now());
        let condition = json!({ "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                                "lastHeartbeatTime": now, "lastTransitionTime": now });
        let patch = json!({ "status": { "conditions": [condition] } });
        let nodes = Api::<Node>::all(self.client.clone());
        nodes
            .patch_status(&self.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .expect("a node");
    }

    /// The running pod of this rank ends well. Waits until there is one.
    pub async fn succeed(&self, job: &str, index: i32) -> Pod {
        self.end(job, index, 0).await
    }

    /// The running pod of this rank ends with this exit code. Waits until there is one.
    pub async fn fail(&self, job: &str, index: i32, exit_code: i32) -> Pod {
        self.end(job, index, exit_code).await
    }

    /// The running pod of this rank ends with this exit code, if there is one now.
    pub async fn end_if_running(&self, job: &str, index: i32, exit_code: i32) {
        let pods = Api::<Pod>::namespaced(self.client.clone(), NAMESPACE);
        let found = pods
            .list(&of_rank(job, index))
            .await
            .map(|list| list.items)
            .unwrap_or_default();
        if let Some(pod) = found.iter().find(|pod| is_running(pod)) {
            self.set(pod, ending(exit_code)).await;
        }
    }

    /// The running pod of this rank. Waits until there is one.
    pub async fn running(&self, job: &str, index: i32) -> Pod {
        let pods = Api::<Pod>::namespaced(self.client.clone(), NAMESPACE);
        eventually(&format!("pod {index} of {job} runs"), || async {
            let found = pods.list(&of_rank(job, index)).await;
            let found = found.map_err(|error| error.to_string())?.items;
            let states: Vec<_> = found
                .iter()
                .map(|pod| json!([pod.name_any(), pod.status]))
                .collect();
            found
                .into_iter()
                .find(is_running)
                .ok_or_else(|| format!("{states:?}"))
        })
        .await
    }

    /// Stops serving, as if the machine were gone.
    pub fn kill(&self) {
        if let Some(task) = self
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            task.abort();
        }
    }

    async fn end(&self, job: &str, index: i32, exit_code: i32) -> Pod {
        let pod = self.running(job, index).await;
        self.set(&pod, ending(exit_code)).await;
        pod
    }

    async fn register(&self, capacity: &[(&str, &str)]) {
        let resources: BTreeMap<_, _> = capacity.iter().copied().collect();
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": self.name, "labels": { "kubernetes.io/hostname": self.name } },
            "status": { "capacity": resources, "allocatable": resources },
        });
        let node: Node = serde_json::from_value(node).expect("a valid node");
        let nodes = Api::<Node>::all(self.client.clone());
        nodes
            .create(&PostParams::default(), &node)
            .await
            .expect("the node is new");
        let patch = json!({ "status": { "capacity": resources, "allocatable": resources } });
        let parameters = PatchParams::default();
        nodes
            .patch_status(&self.name, &parameters, &Patch::Merge(patch))
            .await
            .expect("a node");
        self.beat().await;
    }

    async fn serve(&self) {
        let pods = Api::<Pod>::all(self.client.clone());
        let mut events =
            std::pin::pin!(watcher(pods, watcher::Config::default()).default_backoff());
        while let Some(event) = events.next().await {
            if let Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) = event {
                self.look_at(&pod).await;
            }
        }
    }

    async fn look_at(&self, pod: &Pod) {
        let bound = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        if bound != Some(self.name.as_str()) {
            return;
        }
        if pod.metadata.deletion_timestamp.is_some() {
            let manners = *self.manners.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(exit_code) = manners.filter(|_| phase(pod) == "Running") {
                // The change brings the pod here again, ended.
                return self.set(pod, ending(exit_code)).await;
            }
            let pods = self.pods(pod);
            let parameters = DeleteParams {
                grace_period_seconds: Some(0),
                preconditions: Some(Preconditions {
                    uid: pod.uid(),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            // It may be gone already.
            let _ = pods.delete(&pod.name_any(), &parameters).await;
        } else if phase(pod) == "Pending" {
            let behaviour = (self.policy.lock().unwrap_or_else(PoisonError::into_inner))(pod);
            self.set(pod, behaviour).await;
        }
    }

    async fn set(&self, pod: &Pod, behaviour: Behaviour) {
        let now = stamp(self.clock.now());
        let (phase, ready, state) = match behaviour {
            Behaviour::Wait => return,
            Behaviour::Run => ("Running", true, json!({ "running": { "startedAt": now } })),
            Behaviour::Succeed => (
                "Succeeded",
                false,
                json!({ "terminated": { "exitCode": 0, "finishedAt": now } }),
            ),
            Behaviour::Fail(code) => (
                "Failed",
                false,
                json!({ "terminated": { "exitCode": code, "finishedAt": now, "reason": "Error" } }),
            ),
        };
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let containers: Vec<_> = containers
            .map(|container| {
                json!({ "name": container.name, "ready": ready, "restartCount": 0, "image": "", "imageID": "",
                        "state": state })
            })
            .collect();
        let status = if ready { "True" } else { "False" };
        let patch = json!({
            "metadata": { "uid": pod.uid() },
            "status": {
                "phase": phase,
                "conditions": [{ "type": "Ready", "status": status, "lastTransitionTime": now }],
                "containerStatuses": containers,
            },
        });
        // The pod may be gone meanwhile.
        let parameters = PatchParams::default();
        let _ = self
            .pods(pod)
            .patch_status(&pod.name_any(), &parameters, &Patch::Merge(patch))
            .await;
    }

    fn pods(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default())
    }
}

fn of_rank(job: &str, index: i32) -> ListParams {
    let (name, rank) = (
        "batch.kubernetes.io/job-name",
        "batch.kubernetes.io/job-completion-index",
    );
    ListParams::default().labels(&format!("{name}={job},{rank}={index}"))
}

fn is_running(pod: &Pod) -> bool {
    phase(pod) == "Running" && pod.metadata.deletion_timestamp.is_none()
}

fn ending(exit_code: i32) -> Behaviour {
    if exit_code == 0 {
        Behaviour::Succeed
    } else {
        Behaviour::Fail(exit_code)
    }
}

fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("Pending")
}

fn stamp(moment: Timestamp) -> Time {
    Time(moment)
}
