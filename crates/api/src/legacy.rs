//! The jobs of the Training Operator v1 (`kubeflow.org/v1`), which came before TrainJob.
//!
//! ```text
//!  PyTorchJob / TFJob / MPIJob / XGBoostJob / PaddleJob / MXJob / JAXJob
//!       |  <framework>ReplicaSpecs: { Master: …, Worker: … }
//!       v
//!   Pod `<job>-<replica type>-<index>` ──> Service of the same name
//! ```
//!
//! The kinds differ in a key and a few extra fields; [`LegacyJob`] is what they have in common, and what the one
//! controller for all of them works with.

mod elastic;
pub mod framework;
mod kinds;
mod replica;
mod rules;
mod run_policy;
mod status;

pub use elastic::{ElasticPolicy, RdzvBackend, RdzvConf};
pub use framework::{Framework, MASTER_ROLE};
pub use kinds::{
    JAXJob, JAXJobSpec, MPIJob, MPIJobSpec, MXJob, MXJobSpec, PaddleJob, PaddleJobSpec, PyTorchJob,
    PyTorchJobSpec, TFJob, TFJobSpec, XGBoostJob, XGBoostJobSpec,
};
pub use replica::{ReplicaSpec, ReplicaSpecs, RestartPolicy};
pub use run_policy::{CleanPodPolicy, RunPolicy, SchedulingPolicy};
pub use status::{LegacyCondition, LegacyJobStatus, ReplicaStatus};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps,
};
use kube::CustomResourceExt;
use schemars::JsonSchema;
use serde_json::json;

use crate::schema;

/// The API group of the v1 jobs.
pub const LEGACY_GROUP: &str = "kubeflow.org";

/// What all v1 jobs have in common.
pub trait LegacyJob {
    /// The replicas by type, as the user spelled the types.
    fn replica_specs(&self) -> &ReplicaSpecs;
    /// How the job is run and cleaned up.
    fn run_policy(&self) -> &RunPolicy;
    /// What is known of the job.
    fn status(&self) -> Option<&LegacyJobStatus>;
}

/// The custom resource definitions of the v1 jobs, in a fixed order, ready to be applied.
pub fn legacy_crds() -> Vec<CustomResourceDefinition> {
    vec![
        definition::<PyTorchJob, PyTorchJobSpec>("PyTorch", &framework::PYTORCH),
        definition::<TFJob, TFJobSpec>("TensorFlow", &framework::TENSORFLOW),
        definition::<MPIJob, MPIJobSpec>("MPI", &framework::MPI),
        definition::<XGBoostJob, XGBoostJobSpec>("XGBoost", &framework::XGBOOST),
        definition::<PaddleJob, PaddleJobSpec>("PaddlePaddle", &framework::PADDLE),
        definition::<MXJob, MXJobSpec>("MXNet", &framework::MXNET),
        definition::<JAXJob, JAXJobSpec>("JAX", &framework::JAX),
    ]
}

fn definition<Kind: CustomResourceExt, Spec: JsonSchema>(
    name: &str,
    framework: &Framework,
) -> CustomResourceDefinition {
    let definition = Kind::crd();
    let kind = &definition.spec.names.kind;
    let description = format!("{kind} is a job of the Training Operator v1 for {name}.");
    let mut definition = schema::with_status::<Spec, LegacyJobStatus>(definition, &description);
    default_run_policy(&mut definition);
    add_rules(&mut definition, framework);
    definition
}

fn add_rules(definition: &mut CustomResourceDefinition, framework: &Framework) {
    for version in &mut definition.spec.versions {
        let schema = version.schema.as_mut();
        let Some(root) = schema.and_then(|schema| schema.open_api_v3_schema.as_mut()) else {
            continue;
        };
        let mut value = serde_json::to_value(&*root).expect("a schema is JSON");
        rules::add(framework, &mut value);
        let changed: JSONSchemaProps =
            serde_json::from_value(value).expect("rules do not change the form of a schema");
        *root = changed;
    }
}

/// A job always comes back with its run policy, though it may be empty: clients of the Training Operator cannot read
/// one without.
fn default_run_policy(definition: &mut CustomResourceDefinition) {
    for version in &mut definition.spec.versions {
        let schema = version.schema.as_mut();
        let root = schema.and_then(|schema| schema.open_api_v3_schema.as_mut());
        let spec = root.and_then(|root| root.properties.as_mut()?.get_mut("spec"));
        let policy = spec.and_then(|spec| spec.properties.as_mut()?.get_mut("runPolicy"));
        if let Some(policy) = policy {
            policy.default = Some(JSON(json!({})));
        }
    }
}
