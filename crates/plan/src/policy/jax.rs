//! JAX: every process gets its index, their number and the address of the coordinator.

use super::{Context, inject_into_trainers};
use crate::RENDEZVOUS_PORT;
use crate::draft::Draft;
use crate::provenance::Origin;
use crate::template::{env, env_from_completion_index};

/// Injects what JAX reads. A variable that the trainer sets itself stays, as upstream has it.
pub(crate) fn apply(draft: &mut Draft, context: Context<'_>) {
    let address = context.first_node(draft.spec());
    let mut variables = vec![
        env("JAX_NUM_PROCESSES", context.nodes.to_string()),
        env_from_completion_index("JAX_PROCESS_ID"),
        env(
            "JAX_COORDINATOR_ADDRESS",
            format!("{address}:{RENDEZVOUS_PORT}"),
        ),
    ];
    if let Some(trainer) = &context.job.spec.trainer {
        variables.retain(|ours| !trainer.env.iter().any(|theirs| theirs.name == ours.name));
    }
    draft.stage(&Origin::policy("jax"), |spec| {
        inject_into_trainers(spec, &variables);
    });
}
