//! TensorFlow: every node gets `TF_CONFIG`, with the addresses of all nodes and its own index.
//!
//! Kubeflow has no policy for TensorFlow, so runtimes help themselves with an init container
//! `tf-config-generator` that writes `TF_CONFIG` to a file, and users had to tell it the number of
//! nodes a second time (`PET_NNODES`, or `NUM_WORKERS` in older runtimes). Here both come from
//! `numNodes`, always: what a user or a runtime says instead loses, because a wrong count makes nodes
//! wait for peers that never come.
//!
//! `TF_CONFIG` itself is set besides, so that code which does not read the file is right too. It is
//! one text for all nodes: the index in it is a reference to a variable, which Kubernetes expands on
//! every node. A `TF_CONFIG` of the user's own stays.

use astrago_api::JobSetSpec;
use k8s_openapi::api::core::v1::EnvVar;

use super::{Context, inject};
use crate::TRAINER_CONTAINER;
use crate::draft::Draft;
use crate::provenance::Origin;
use crate::runtime::Runtime;
use crate::template::{self, env, env_from_completion_index};

/// The init container that writes `TF_CONFIG` to a file.
pub const GENERATOR: &str = "tf-config-generator";
/// The port where the workers meet.
const PORT: i32 = 2222;
/// Linux refuses a longer variable (128 KiB, with its name and the closing zero), so that no
/// container would start. Jobs of that size have to use the file.
const LONGEST_VALUE: usize = 128 * 1024 - "TF_CONFIG=".len() - 1;

/// Whether the runtime is one for TensorFlow: it says so by its policy or its label, or it has the
/// init container.
pub(crate) fn is_meant(runtime: Runtime<'_>) -> bool {
    runtime
        .policy()
        .is_some_and(|policy| policy.tensorflow.is_some())
        || runtime.framework() == Some("tensorflow")
        || template::trainer_job(&runtime.spec.template.spec)
            .is_some_and(|job| template::init_container(job, GENERATOR).is_some())
}

/// Injects the counts into both containers, and `TF_CONFIG` into the training container.
pub(crate) fn apply(draft: &mut Draft, context: Context<'_>) {
    let counts = [
        env("PET_NNODES", context.nodes.to_string()),
        env("NUM_WORKERS", context.nodes.to_string()),
        env_from_completion_index("PET_NODE_RANK"),
    ];
    let config = tf_config(draft.spec(), context);
    draft.stage(&Origin::policy("tensorflow"), |spec| {
        for position in template::trainer_positions(&spec.replicated_jobs) {
            let job = &mut spec.replicated_jobs[position];
            if let Some(container) = template::init_container_mut(job, GENERATOR) {
                inject(container, &counts);
            }
            if let Some(container) = template::container_mut(job, TRAINER_CONTAINER) {
                inject(container, &counts);
                template::set_port(container, PORT);
                if let Some(config) = &config
                    && !template::has_env(container, "TF_CONFIG")
                {
                    template::set_env(container, config.clone());
                }
            }
        }
    });
}

/// `TF_CONFIG`, unless it would be too long to be a variable.
fn tf_config(spec: &JobSetSpec, context: Context<'_>) -> Option<EnvVar> {
    let workers: Vec<String> = (0..context.nodes)
        .map(|index| format!("\"{}:{PORT}\"", context.full_node_address(spec, index)))
        .collect();
    let value = format!(
        "{{\"cluster\":{{\"worker\":[{}]}},\"task\":{{\"type\":\"worker\",\"index\":$(PET_NODE_RANK)}}}}",
        workers.join(",")
    );
    (value.len() < LONGEST_VALUE).then(|| env("TF_CONFIG", value))
}
