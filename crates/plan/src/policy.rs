//! How the nodes of a framework find each other: one policy per file, each a function from the
//! template so far to what it injects.
//!
//! What a policy injects wins over what the runtime, the overrides and the trainer say, except where
//! the policy says otherwise. Validation refuses most such names beforehand.

pub(crate) mod jax;
pub(crate) mod mpi;
pub(crate) mod status;
pub(crate) mod tensorflow;
pub(crate) mod torch;
pub(crate) mod torchtune;
pub(crate) mod xgboost;

use astrago_api::{JobSetSpec, TrainJob, names};
use k8s_openapi::api::core::v1::{Container, EnvVar};
use kube::ResourceExt;

use crate::draft::Draft;
use crate::runtime::Runtime;
use crate::template;
use crate::{RENDEZVOUS_PORT, TRAINER_CONTAINER};

/// What every policy is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) job: &'a TrainJob,
    pub(crate) runtime: Runtime<'a>,
    pub(crate) nodes: i32,
}

/// Applies the policy of the runtime's framework. A TensorFlow runtime may have a policy of
/// Kubeflow's besides, which has none for TensorFlow.
pub(crate) fn apply(draft: &mut Draft, context: Context<'_>) {
    if let Some(policy) = context.runtime.policy() {
        if let Some(torch) = &policy.torch {
            torch::apply(draft, context, torch);
        }
        if let Some(mpi) = &policy.mpi {
            mpi::apply(draft, context, mpi);
        }
        if policy.jax.is_some() {
            jax::apply(draft, context);
        }
        if policy.xgboost.is_some() {
            xgboost::apply(draft, context);
        }
    }
    if tensorflow::is_meant(context.runtime) {
        tensorflow::apply(draft, context);
    }
}

impl Context<'_> {
    /// The address of the first node, where the others meet. It follows the names that the template
    /// really has; upstream takes the job's name for `node` and the subdomain for the TrainJob's name.
    pub(crate) fn first_node(&self, spec: &JobSetSpec) -> String {
        self.node_address(spec, 0)
    }

    /// The short address of a training node.
    pub(crate) fn node_address(&self, spec: &JobSetSpec, index: i32) -> String {
        names::pod_address(&self.trainer_job_name(spec), index, self.subdomain(spec))
    }

    /// The full address of a training node.
    pub(crate) fn full_node_address(&self, spec: &JobSetSpec, index: i32) -> String {
        let namespace = self.job.namespace().unwrap_or_else(|| "default".into());
        let job = self.trainer_job_name(spec);
        names::pod_full_address(&job, index, self.subdomain(spec), &namespace)
    }

    /// The domain below which the pods are found.
    pub(crate) fn subdomain<'s>(&'s self, spec: &'s JobSetSpec) -> &'s str {
        let subdomain = spec
            .network
            .as_ref()
            .and_then(|network| network.subdomain.as_deref());
        subdomain
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| self.job_name())
    }

    pub(crate) fn job_name(&self) -> &str {
        self.job.metadata.name.as_deref().unwrap_or_default()
    }

    fn trainer_job_name(&self, spec: &JobSetSpec) -> String {
        let template = template::trainer_job(spec).map_or(TRAINER_CONTAINER, |job| &job.name);
        names::job(self.job_name(), template, 0)
    }
}

/// Sets variables on a container, and opens the port where the nodes meet.
pub(crate) fn inject(container: &mut Container, variables: &[EnvVar]) {
    for variable in variables {
        template::set_env(container, variable.clone());
    }
}

/// Sets variables on every training container, and opens the port where the nodes meet.
pub(crate) fn inject_into_trainers(spec: &mut JobSetSpec, variables: &[EnvVar]) {
    template::for_each_trainer(spec, |container| {
        inject(container, variables);
        template::set_port(container, RENDEZVOUS_PORT);
    });
}
