//! Everything but the machine: the API server and the controllers in this process.

use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, PoisonError};

use astrago_api::{TrainJob, conditions};
use astrago_apiserver::{Identity, Server};
use astrago_controllers::report::Metrics;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{FakeClock, FakeNode, eventually, runtime};

/// The namespace of tests that do not care.
pub const NAMESPACE: &str = "default";

/// What lives in a namespace.
pub trait Namespaced:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
{
}

impl<K> Namespaced for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
{
}

/// An API server in a temporary directory, controllers when asked for, and a fake node.
pub struct Plane {
    /// The administrator's client.
    pub client: Client,
    /// The time of the API server, the controllers and the node.
    pub clock: FakeClock,
    /// A node with plenty of everything.
    pub node: FakeNode,
    /// What the controllers counted, over all of their runs.
    pub metrics: Arc<Metrics>,
    server: Server,
    controllers: Mutex<Option<(CancellationToken, JoinHandle<()>)>>,
    _directory: TempDir,
}

impl Debug for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plane")
            .field("now", &self.clock.now())
            .finish_non_exhaustive()
    }
}

impl Plane {
    /// Starts the API server with our kinds, the runtime `torch` and a fake node. No controllers yet.
    pub async fn start() -> Self {
        let node: &[(&str, &str)] = &[
            ("cpu", "64"),
            ("memory", "256Gi"),
            ("pods", "4000"),
            ("nvidia.com/gpu", "8"),
        ];
        Self::with_node(node).await
    }

    /// As [`Plane::start`], with a node of this capacity.
    pub async fn with_node(capacity: &[(&str, &str)]) -> Self {
        // `RUST_LOG=debug` shows what goes on; a second subscriber in the same process is refused, which is fine.
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_test_writer()
            .try_init();
        let start = Timestamp::from_second(1_800_000_000).expect("a moment");
        let clock = FakeClock::at(start);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut options = astrago_apiserver::Options::new(directory.path());
        let time = clock.clone();
        options.clock = Arc::new(move || time.now());
        let server = Server::open(options).await.expect("an API server");
        let client = Client::new(server.local(Identity::admin()), NAMESPACE);
        install_kinds(&client).await;
        let node = FakeNode::start(client.clone(), clock.clone(), "node-a", capacity).await;
        let plane = Self {
            client,
            clock,
            node,
            metrics: Arc::default(),
            server,
            controllers: Mutex::new(None),
            _directory: directory,
        };
        plane.create_cluster(&runtime("torch").build()).await;
        plane
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    pub fn run_controllers(&self) {
        self.run_controllers_with(self.controllers_options());
    }

    /// Starts the controllers in another way.
    pub fn run_controllers_with(&self, options: astrago_controllers::Options) {
        self.start_controllers(self.controllers_client(), options);
    }

    /// Starts the controllers with something between them and the API server.
    pub fn run_controllers_through(&self, between: impl FnOnce(Client) -> Client) {
        self.start_controllers(
            between(self.controllers_client()),
            self.controllers_options(),
        );
    }

    fn controllers_client(&self) -> Client {
        let controllers = Identity::component("controllers");
        Client::new(self.server.local(controllers), NAMESPACE)
    }

    fn controllers_options(&self) -> astrago_controllers::Options {
        astrago_controllers::Options {
            clock: Arc::new(self.clock.clone()),
            metrics: Arc::clone(&self.metrics),
            ..astrago_controllers::Options::embedded()
        }
    }

    fn start_controllers(&self, client: Client, options: astrago_controllers::Options) {
        let stop = CancellationToken::new();
        let task = tokio::spawn(astrago_controllers::run(client, options, stop.clone()));
        *self
            .controllers
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some((stop, task));
    }

    /// Ends the controllers in order.
    pub async fn stop_controllers(&self) {
        let running = self
            .controllers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some((stop, task)) = running {
            stop.cancel();
            task.await.expect("the controllers end without a panic");
        }
    }

    /// Ends the controllers in the middle of whatever they do.
    pub async fn crash_controllers(&self) {
        let running = self
            .controllers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some((_, task)) = running {
            task.abort();
            let _ = task.await;
        }
    }

    /// Objects of a kind in [`NAMESPACE`].
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub async fn create<K: Namespaced>(&self, object: &K) -> K {
        let namespace = object.namespace().unwrap_or_else(|| NAMESPACE.to_string());
        let api = Api::<K>::namespaced(self.client.clone(), &namespace);
        api.create(&PostParams::default(), object)
            .await
            .expect("the object is accepted")
    }

    pub async fn create_cluster<K>(&self, object: &K) -> K
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let api = Api::<K>::all(self.client.clone());
        api.create(&PostParams::default(), object)
            .await
            .expect("the object is accepted")
    }

    pub async fn patch<K: Namespaced>(&self, name: &str, patch: Value) -> K {
        let api = self.api::<K>();
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .expect("the patch is accepted")
    }

    /// Deletes an object, with what it owns afterwards.
    pub async fn delete<K: Namespaced>(&self, name: &str) {
        let parameters = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        self.api::<K>()
            .delete(name, &parameters)
            .await
            .expect("the object is there");
    }

    /// All objects of a kind in [`NAMESPACE`].
    pub async fn list<K: Namespaced>(&self) -> Vec<K> {
        self.api::<K>()
            .list(&ListParams::default())
            .await
            .expect("a list")
            .items
    }

    /// Waits until `check` says so of an object, and returns it.
    pub async fn until<K: Namespaced>(
        &self,
        what: &str,
        name: &str,
        check: impl Fn(&K) -> bool,
    ) -> K {
        let api = self.api::<K>();
        eventually(&format!("{} {name} {what}", K::kind(&())), || async {
            match api.get_opt(name).await {
                Ok(Some(object)) if check(&object) => Ok(object),
                Ok(Some(object)) => {
                    let value = serde_json::to_value(&object).unwrap_or_default();
                    Err(value["status"].to_string())
                }
                Ok(None) => Err("it does not exist".to_string()),
                Err(error) => Err(error.to_string()),
            }
        })
        .await
    }

    /// Waits until a TrainJob has this condition.
    pub async fn until_condition(&self, name: &str, kind: &str) -> TrainJob {
        self.until(&format!("is {kind}"), name, |job: &TrainJob| {
            conditions::is_true(job.conditions(), kind)
        })
        .await
    }

    pub async fn until_gone<K: Namespaced>(&self, name: &str) {
        let api = self.api::<K>();
        eventually(&format!("{} {name} is gone", K::kind(&())), || async {
            match api.get_opt(name).await {
                Ok(None) => Ok(()),
                Ok(Some(object)) => Err(format!("{:?}", object.meta())),
                Err(error) => Err(error.to_string()),
            }
        })
        .await;
    }

    /// Waits until nothing of a kind is left in [`NAMESPACE`].
    pub async fn until_none<K: Namespaced>(&self) {
        eventually(&format!("no {} is left", K::kind(&())), || async {
            let left = self.list::<K>().await;
            let names: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
            if names.is_empty() {
                Ok(())
            } else {
                Err(format!("{names:?}"))
            }
        })
        .await;
    }
}

/// Creates our definitions and waits until they are served.
async fn install_kinds(client: &Client) {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let all = [astrago_api::crds(), astrago_api::legacy::legacy_crds()].concat();
    for definition in all {
        definitions
            .create(&PostParams::default(), &definition)
            .await
            .expect("our definitions are valid");
    }
    let jobs = Api::<TrainJob>::all(client.clone());
    eventually("our kinds are served", || async {
        jobs.list(&ListParams::default()).await.map(|_| ())
    })
    .await;
}
