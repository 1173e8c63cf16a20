//! An API server in this process with one real node.

use astrago_apiserver::{Identity, Options as ServerOptions, Server};
use astrago_node::{Options, launch, layout};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::support::{self, PATIENCE};

pub(crate) const NODE: &str = "test-node";
/// What the API server shows at the node's endpoints.
const TOKEN: &str = "kubelet-token";

/// A plane with one node.
pub(crate) struct Plane {
    pub(crate) client: Client,
    pub(crate) data: TempDir,
    _server: Server,
    _objects: TempDir,
}

/// A running agent; dropped, it ends as if by SIGTERM.
pub(crate) struct Agent {
    token: CancellationToken,
    pub(crate) task: tokio::task::JoinHandle<()>,
}

impl Plane {
    pub(crate) async fn start() -> Self {
        let objects = tempfile::tempdir().unwrap();
        let mut options = ServerOptions::new(objects.path());
        TOKEN.clone_into(&mut options.kubelet_token);
        let server = Server::open(options).await.unwrap();
        let client = Client::new(server.local(Identity::admin()), "default");
        Self {
            client,
            data: tempfile::tempdir().unwrap(),
            _server: server,
            _objects: objects,
        }
    }

    /// `None`, said aloud, where the machine allows no sandboxes.
    pub(crate) fn agent(&self) -> Option<Agent> {
        self.agent_with(|_| {})
    }

    /// The same with other options.
    pub(crate) fn agent_with(&self, change: impl FnOnce(&mut Options)) -> Option<Agent> {
        if let Err(error) = launch::Bridges::obtain(support::program(), []) {
            support::skip(&format!("no sandboxes on this machine: {error}"));
            return None;
        }
        let mut options = Options::new(self.data.path());
        options.node_name = NODE.into();
        TOKEN.clone_into(&mut options.kubelet_token);
        options.supervisor = support::program().into();
        options.capacity.insert("nvidia.com/gpu".into(), "2".into());
        options.host_paths = vec![self.data.path().join("allowed")];
        std::fs::create_dir_all(&options.host_paths[0]).unwrap();
        // Root of a container is a stranger there.
        support::open_to_all(&options.host_paths[0]);
        change(&mut options);
        let token = CancellationToken::new();
        let running = astrago_node::run(self.client.clone(), options, token.clone());
        let task = tokio::spawn(async move { running.await.unwrap() });
        Some(Agent { token, task })
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn create<K>(&self, object: Value) -> K
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + serde::Serialize
            + serde::de::DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api()
            .create(&PostParams::default(), &object)
            .await
            .unwrap()
    }

    /// A pod of one container that runs a script, with more fields.
    pub(crate) async fn pod(&self, name: &str, script: &str, more: Value) -> Pod {
        let mut container =
            json!({"name": "main", "image": "any", "command": ["bash", "-c", script]});
        merge(&mut container, more["container"].clone());
        let mut spec =
            json!({"nodeName": NODE, "restartPolicy": "Never", "containers": [container]});
        merge(&mut spec, more["spec"].clone());
        self.create(json!({"metadata": {"name": name, "annotations": {"who": "me"}}, "spec": spec}))
            .await
    }

    pub(crate) async fn until(&self, name: &str, what: &str, wanted: impl Fn(&Pod) -> bool) -> Pod {
        let begun = std::time::Instant::now();
        loop {
            let pod = self.api::<Pod>().get_opt(name).await.unwrap();
            if let Some(pod) = pod.clone().filter(|pod| wanted(pod)) {
                return pod;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "waited in vain until {name} {what}: {}",
                serde_json::to_string(&pod).unwrap()
            );
            support::pause(10).await;
        }
    }

    pub(crate) async fn finished(&self, name: &str) -> (String, String) {
        let pod = self
            .until(name, "is finished", |pod| {
                matches!(phase(pod), "Succeeded" | "Failed")
            })
            .await;
        (phase(&pod).to_owned(), self.log(&pod))
    }

    pub(crate) fn log(&self, pod: &Pod) -> String {
        let dir = layout::pod_logs(
            self.data.path(),
            "default",
            &pod.name_any(),
            &pod.uid().unwrap(),
        );
        support::read_log(&dir.join("main/0.log"))
    }

    pub(crate) async fn gone(&self, name: &str) {
        let begun = std::time::Instant::now();
        while self.api::<Pod>().get_opt(name).await.unwrap().is_some() || self.folders() > 0 {
            assert!(
                begun.elapsed() < PATIENCE,
                "waited in vain until {name} is gone"
            );
            support::pause(10).await;
        }
    }

    pub(crate) fn folders(&self) -> usize {
        std::fs::read_dir(layout::pods(self.data.path())).map_or(0, Iterator::count)
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.api::<Pod>()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
        self.gone(name).await;
    }
}

impl Agent {
    pub(crate) async fn end(self) {
        self.token.cancel();
        self.task.await.unwrap();
    }
}

fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("")
}
