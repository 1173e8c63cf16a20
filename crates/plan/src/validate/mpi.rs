//! MPI: a launcher that trains too needs nodes to launch on.

use astrago_api::TrainJob;

use crate::TRAINER_CONTAINER;
use crate::error::FieldError;
use crate::nodes::{LAUNCHER, num_nodes};
use crate::runtime::Runtime;

pub(super) fn check(job: &TrainJob, runtime: Runtime<'_>, errors: &mut Vec<FieldError>) {
    let Some(mpi) = runtime.policy().and_then(|policy| policy.mpi.as_ref()) else {
        return;
    };
    let jobs = &runtime.spec.template.spec.replicated_jobs;
    let has = |name: &str| jobs.iter().any(|job| job.name == name);
    let (nodes, _) = num_nodes(job, runtime);
    if nodes > 1 && mpi.runs_launcher_as_node() && !(has(LAUNCHER) && has(TRAINER_CONTAINER)) {
        let message = "must have 1 when MPI trainingRuntime with enabled runLauncherAsNode does not \
                       have either launcher and node";
        errors.push(FieldError::invalid("spec.trainer.numNodes", message));
    }
}
