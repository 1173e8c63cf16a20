//! XGBoost: every worker gets its index, their number and the address of the tracker.

use super::{Context, inject_into_trainers};
use crate::draft::Draft;
use crate::provenance::Origin;
use crate::template::{self, env, env_from_completion_index};
use crate::{RENDEZVOUS_PORT, TRAINER_CONTAINER, resources};

/// Names that the trainer may not set.
pub(crate) const RESERVED: [&str; 4] = [
    "DMLC_TRACKER_URI",
    "DMLC_TRACKER_PORT",
    "DMLC_TASK_ID",
    "DMLC_NUM_WORKER",
];

/// Injects what XGBoost's tracker reads. There is a worker per GPU, or one per node without any.
pub(crate) fn apply(draft: &mut Draft, context: Context<'_>) {
    let container = template::trainer_job(draft.spec())
        .and_then(|job| template::container(job, TRAINER_CONTAINER));
    let gpus = resources::gpus(container.and_then(|container| container.resources.as_ref()));
    let workers = i64::from(context.nodes) * gpus.max(1);
    let variables = [
        env("DMLC_TRACKER_URI", context.first_node(draft.spec())),
        env("DMLC_TRACKER_PORT", RENDEZVOUS_PORT.to_string()),
        env_from_completion_index("DMLC_TASK_ID"),
        env("DMLC_NUM_WORKER", workers.to_string()),
    ];
    draft.stage(&Origin::policy("xgboost"), |spec| {
        inject_into_trainers(spec, &variables);
    });
}
