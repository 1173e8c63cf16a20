//! How many pods every job of the template gets.

use astrago_api::{JobSetSpec, MlPolicy, TrainJob};

use crate::TRAINER_CONTAINER;
use crate::draft::Draft;
use crate::provenance::Origin;
use crate::runtime::Runtime;
use crate::template;

/// The name of the job that starts `mpirun`.
pub(crate) const LAUNCHER: &str = "launcher";

/// How many nodes train, and who said so.
pub(crate) fn num_nodes(job: &TrainJob, runtime: Runtime<'_>) -> (i32, Origin) {
    if let Some(nodes) = job.num_nodes() {
        return (nodes.max(1), Origin::train_job("spec.trainer.numNodes"));
    }
    let from_runtime = Origin::Runtime {
        kind: runtime.kind.into(),
        name: runtime.name.into(),
    };
    match runtime.policy() {
        Some(MlPolicy {
            num_nodes: Some(nodes),
            ..
        }) => ((*nodes).max(1), from_runtime),
        Some(_) => (1, Origin::Default),
        None => {
            let parallelism = template::trainer_job(&runtime.spec.template.spec)
                .and_then(|job| job.job_spec()?.parallelism);
            match parallelism {
                Some(nodes) => (nodes.max(1), from_runtime),
                None => (1, Origin::Default),
            }
        }
    }
}

/// Writes the number of pods on every job: all of a job's pods run at once, and each has to succeed.
pub(crate) fn apply(draft: &mut Draft, nodes: i32, origin: &Origin, runtime: Runtime<'_>) {
    draft.stage(origin, |spec| {
        for position in template::trainer_positions(&spec.replicated_jobs) {
            set_pods(spec, position, nodes);
        }
        if let Some(mpi) = runtime.policy().and_then(|policy| policy.mpi.as_ref()) {
            let workers = if mpi.runs_launcher_as_node() {
                nodes - 1
            } else {
                nodes
            };
            for position in 0..spec.replicated_jobs.len() {
                match spec.replicated_jobs[position].name.as_str() {
                    LAUNCHER => set_pods(spec, position, 1),
                    TRAINER_CONTAINER => set_pods(spec, position, workers),
                    _ => {}
                }
            }
        }
    });
    draft.stage(&Origin::Default, |spec| {
        for position in 0..spec.replicated_jobs.len() {
            let pods = spec.replicated_jobs[position].parallelism();
            set_pods(spec, position, pods);
            spec.replicated_jobs[position].replicas.get_or_insert(1);
        }
    });
}

fn set_pods(spec: &mut JobSetSpec, position: usize, pods: i32) {
    let job = spec.replicated_jobs[position]
        .template
        .spec
        .get_or_insert_default();
    job.parallelism = Some(pods);
    job.completions = Some(pods);
}
