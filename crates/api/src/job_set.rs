//! JobSet (`jobset.x-k8s.io/v1alpha2`): several Jobs that belong together.

mod policy;
mod status;

pub use policy::{
    Coordinator, DependsOn, DependsOnStatus, FailurePolicy, FailurePolicyAction, FailurePolicyRule,
    Network, RestartStrategy, RetentionPolicy, StartupPolicy, StartupPolicyOrder, SuccessPolicy,
    SuccessPolicyOperator, VolumeClaimPolicy, VolumeRetention,
};
pub use status::{JobSetStatus, ReplicatedJobStatus};

use k8s_openapi::api::batch::v1::{JobSpec, JobTemplateSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{MOST_PODS, conditions, labels};

/// Specification of a set of Jobs that start, succeed, fail and are held together.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "jobset.x-k8s.io",
    version = "v1alpha2",
    kind = "JobSet",
    plural = "jobsets",
    namespaced,
    status = "JobSetStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled",
    printcolumn = r#"{"name": "TerminalState", "type": "string", "jsonPath": ".status.terminalState", "description": "Final state of JobSet"}"#,
    printcolumn = r#"{"name": "Restarts", "type": "string", "jsonPath": ".status.restarts", "description": "Number of restarts"}"#,
    printcolumn = r#"{"name": "Completed", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Completed\")].status"}"#,
    printcolumn = r#"{"name": "Suspended", "type": "string", "jsonPath": ".spec.suspend", "description": "JobSet suspended"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time this JobSet was created"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!(has(self.startupPolicy) && self.startupPolicy.startupPolicyOrder == 'InOrder' && has(self.replicatedJobs) && self.replicatedJobs.exists(x, has(x.dependsOn)))",
    "message": "StartupPolicy and DependsOn APIs are mutually exclusive"
}]))]
pub struct JobSetSpec {
    /// The Jobs of the set, in the order in which they are created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicated_jobs: Vec<ReplicatedJob>,

    /// How the pods of the set find each other.
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "Value is immutable"}]))]
    pub network: Option<Network>,

    /// When the set has succeeded.
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "Value is immutable"}]))]
    pub success_policy: Option<SuccessPolicy>,

    /// What happens when a Job of the set fails.
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "Value is immutable"}]))]
    pub failure_policy: Option<FailurePolicy>,

    /// In which order the Jobs start.
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "Value is immutable"}]))]
    pub startup_policy: Option<StartupPolicy>,

    /// Whether the set is held: its pods are removed and come back when this is false again.
    pub suspend: Option<bool>,

    /// The pod that coordinates the others; its address is put on all of them.
    pub coordinator: Option<Coordinator>,

    /// The controller that is in charge of the set.
    pub managed_by: Option<String>,

    /// How many seconds after its end the set is deleted.
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,

    /// Volumes that are claimed for the set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 50),
        extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "Value is immutable"}])
    )]
    pub volume_claim_policies: Vec<VolumeClaimPolicy>,
}

/// A template of Jobs, with the number of Jobs to make of it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicatedJob {
    /// The name of the template; the Jobs are called {set}-{name}-{index}.
    pub name: String,

    /// The group that the Jobs are counted in.
    #[schemars(extend("default" = "default"))]
    pub group_name: Option<String>,

    /// What a Job looks like.
    pub template: JobTemplateSpec,

    /// How many Jobs are made of the template.
    #[schemars(range(min = 0, max = MOST_PODS), extend("default" = 1))]
    pub replicas: Option<i32>,

    /// Jobs that must be ready or complete before these are created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 5),
        extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "Value is immutable"}])
    )]
    pub depends_on: Vec<DependsOn>,
}

impl ReplicatedJob {
    /// How many Jobs are made of the template, with its default.
    pub fn replicas(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }

    /// The group that the Jobs are counted in, with its default.
    pub fn group_name(&self) -> &str {
        self.group_name
            .as_deref()
            .filter(|name| !name.is_empty())
            .unwrap_or("default")
    }

    /// The specification of a Job, if the template has one.
    pub fn job_spec(&self) -> Option<&JobSpec> {
        self.template.spec.as_ref()
    }

    /// The template of the pods, if there is one.
    pub fn pod_template(&self) -> Option<&PodTemplateSpec> {
        self.job_spec().map(|spec| &spec.template)
    }

    /// How many pods every Job runs at once.
    pub fn parallelism(&self) -> i32 {
        self.job_spec()
            .and_then(|spec| spec.parallelism)
            .unwrap_or(1)
    }

    /// How many pods its Jobs run at once, all together.
    pub fn pods(&self) -> i64 {
        let completions = self.job_spec().and_then(|spec| spec.completions);
        let pods = completions.map_or(self.parallelism(), |most| most.min(self.parallelism()));
        i64::from(pods.max(0)) * i64::from(self.replicas().max(0))
    }

    /// The role of the job in a training: trainer, dataset-initializer or model-initializer.
    pub fn ancestor(&self) -> Option<&str> {
        let metadata = self.template.metadata.as_ref()?;
        metadata
            .labels
            .as_ref()?
            .get(labels::TRAIN_JOB_ANCESTOR_STEP)
            .map(String::as_str)
    }
}

impl JobSet {
    /// The conditions of the status; none while it has none.
    pub fn conditions(&self) -> &[Condition] {
        self.status
            .as_ref()
            .map_or(&[], |status| &status.conditions)
    }

    /// Whether the set is held.
    pub fn is_suspended(&self) -> bool {
        self.spec.suspend.unwrap_or(false)
    }

    /// Whether the set reached its end, well or badly.
    pub fn is_finished(&self) -> bool {
        conditions::is_true(self.conditions(), conditions::job_set::COMPLETED)
            || conditions::is_true(self.conditions(), conditions::job_set::FAILED)
    }

    /// How often the set was started again so far.
    pub fn restarts(&self) -> i32 {
        self.status.as_ref().map_or(0, |status| status.restarts)
    }

    /// The domain below which the pods are found, which is also the name of the Service.
    pub fn subdomain(&self) -> &str {
        self.spec
            .network
            .as_ref()
            .and_then(|network| network.subdomain.as_deref())
            .filter(|subdomain| !subdomain.is_empty())
            .or(self.metadata.name.as_deref())
            .unwrap_or_default()
    }

    /// The template of this name.
    pub fn replicated_job(&self, name: &str) -> Option<&ReplicatedJob> {
        self.spec
            .replicated_jobs
            .iter()
            .find(|job| job.name == name)
    }
}
