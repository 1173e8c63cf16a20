//! `spec.trainer`: image, command, arguments, resources and environment of the training container.

use astrago_api::{TrainJob, Trainer};
use k8s_openapi::api::core::v1::Container;

use crate::TRAINER_CONTAINER;
use crate::draft::Draft;
use crate::nodes::LAUNCHER;
use crate::provenance::Origin;
use crate::resources;
use crate::runtime::Runtime;
use crate::template;

/// Writes the trainer's fields on the training containers, each replacing the runtime's on its own:
/// a command without arguments keeps the runtime's arguments, as upstream does.
pub(crate) fn apply(draft: &mut Draft, job: &TrainJob, runtime: Runtime<'_>) {
    let Some(trainer) = &job.spec.trainer else {
        return;
    };
    if let Some(image) = &trainer.image {
        set(draft, "image", |container| {
            container.image = Some(image.clone());
        });
    }
    if !trainer.command.is_empty() {
        set(draft, "command", |container| {
            container.command = Some(trainer.command.clone());
        });
    }
    if !trainer.args.is_empty() {
        set(draft, "args", |container| {
            container.args = Some(trainer.args.clone());
        });
    }
    apply_resources(draft, trainer, runtime);
    apply_env(draft, trainer, runtime);
}

/// Calls `change` on the training containers; what it changes came from this field of the trainer.
fn set(draft: &mut Draft, field: &str, change: impl FnMut(&mut Container)) {
    draft.stage(&origin(field), |spec| {
        template::for_each_trainer(spec, change);
    });
}

fn origin(field: &str) -> Origin {
    Origin::train_job(format!("spec.trainer.{field}"))
}

/// Resources are for every node that trains: with MPI the workers, and the launcher only if it trains
/// too.
fn apply_resources(draft: &mut Draft, trainer: &Trainer, runtime: Runtime<'_>) {
    let Some(over) = &trainer.resources_per_node else {
        return;
    };
    let merge = |container: &mut Container| {
        resources::merge(container.resources.get_or_insert_default(), over);
    };
    let mpi = runtime.policy().and_then(|policy| policy.mpi.as_ref());
    draft.stage(&origin("resourcesPerNode"), |spec| match mpi {
        None => template::for_each_trainer(spec, merge),
        Some(mpi) => {
            for job in &mut spec.replicated_jobs {
                let trains = job.name == TRAINER_CONTAINER
                    || (job.name == LAUNCHER && mpi.runs_launcher_as_node());
                if let Some(container) =
                    template::container_mut(job, TRAINER_CONTAINER).filter(|_| trains)
                {
                    merge(container);
                }
            }
        }
    });
}

/// The environment is for the training container, and with MPI for the workers too if the launcher is
/// one of them.
fn apply_env(draft: &mut Draft, trainer: &Trainer, runtime: Runtime<'_>) {
    if trainer.env.is_empty() {
        return;
    }
    let add = |container: &mut Container| {
        for variable in &trainer.env {
            template::set_env(container, variable.clone());
        }
    };
    let mpi = runtime.policy().and_then(|policy| policy.mpi.as_ref());
    draft.stage(&origin("env"), |spec| {
        template::for_each_trainer(spec, add);
        if mpi.is_some_and(astrago_api::MpiPolicy::runs_launcher_as_node) {
            let workers = spec.replicated_jobs.iter_mut();
            for job in workers.filter(|job| job.name == TRAINER_CONTAINER) {
                template::container_mut(job, TRAINER_CONTAINER).map(add);
            }
        }
    });
}
