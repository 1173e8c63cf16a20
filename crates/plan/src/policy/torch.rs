//! PyTorch: every node gets the `PET_*` variables, which `torchrun` reads. The command is the user's:
//! nothing wraps it in `torchrun`, so that code which no launcher starts finds what it reads besides.

use astrago_api::{JobSetSpec, TorchPolicy};
use k8s_openapi::api::core::v1::{Container, EnvVar};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Context, inject, inject_into_trainers, torchtune};
use crate::draft::Draft;
use crate::provenance::Origin;
use crate::template::{self, env, env_from_completion_index};
use crate::{RENDEZVOUS_PORT, TRAINER_CONTAINER, resources};

/// Names that the trainer may not set.
pub const RESERVED: [&str; 5] = [
    "PET_NNODES",
    "PET_NPROC_PER_NODE",
    "PET_NODE_RANK",
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
];

/// What code reads that is one process on its node: the variable, the one of the policy's that it is made of, and
/// what it is without that.
///
/// | who reads it | what |
/// |---|---|
/// | `torch.distributed` | `RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT` |
/// | Accelerate, Hugging Face's trainer, DeepSpeed | `LOCAL_RANK` besides, or each node trains alone |
/// | Lightning | `NODE_RANK`, `MASTER_ADDR`, `MASTER_PORT`, and `LOCAL_RANK` so that it starts no further process |
/// | Composer | `NODE_RANK` and `LOCAL_WORLD_SIZE` besides |
///
/// `torchrun` sets all of them itself for its processes. Left out on purpose: `GROUP_RANK` and `TORCHELASTIC_*`, by which
/// code knows that `torchrun` has started it, and `SLURM_*`, for which Lightning expects a scheduler's own commands.
pub const ONE_PROCESS: [(&str, &str, &str); 7] = [
    ("RANK", "PET_NODE_RANK", "0"),
    ("LOCAL_RANK", "PET_LOCAL_RANK", "0"),
    ("WORLD_SIZE", "PET_NNODES", "1"),
    ("MASTER_ADDR", "PET_MASTER_ADDR", "localhost"),
    ("MASTER_PORT", "PET_MASTER_PORT", "29500"),
    ("NODE_RANK", "PET_NODE_RANK", "0"),
    ("LOCAL_WORLD_SIZE", "PET_LOCAL_WORLD_SIZE", "1"),
];

/// Injects the variables into the training containers and into those that the runtime lists.
/// torchtune gets its meeting point as an argument instead.
pub(crate) fn apply(draft: &mut Draft, context: Context<'_>, policy: &TorchPolicy) {
    let processes = num_proc_per_node(draft.spec(), context, policy);
    let variables = variables(draft.spec(), context, &processes);
    let gpus = resources::gpus(
        trainer_container(draft.spec()).and_then(|container| container.resources.as_ref()),
    );
    draft.stage(&Origin::policy("torch"), |spec| {
        if torchtune::is_meant(context.job) {
            inject_into_trainers(spec, &variables[..3]);
            torchtune::apply(spec, context, &processes);
        } else {
            inject_into_trainers(spec, &variables);
            template::for_each_trainer(spec, |container| add_one_process(container, gpus));
        }
        for target in policy
            .env_injection
            .iter()
            .flat_map(|injection| &injection.targets)
        {
            let jobs = spec.replicated_jobs.iter_mut();
            for job in jobs.filter(|job| job.name == target.job_name) {
                for name in &target.container_names {
                    if let Some(container) = template::init_container_mut(job, name) {
                        inject(container, &variables);
                    }
                    if let Some(container) = template::container_mut(job, name) {
                        inject(container, &variables);
                    }
                }
            }
        }
    });
}

/// Adds what a single process reads, except what the user or the runtime says. With several GPUs Lightning and others
/// start a process for each of them, unless `LOCAL_RANK` says that somebody did; so it stays unsaid there.
fn add_one_process(container: &mut Container, gpus: i64) {
    for (name, source, default) in ONE_PROCESS {
        if template::has_env(container, name) || gpus > 1 && name.starts_with("LOCAL_") {
            continue;
        }
        let value = if RESERVED.contains(&source) {
            format!("$({source})")
        } else {
            default.to_owned()
        };
        template::set_env(container, env(name, value));
    }
}

/// The variables, those of the meeting point last.
fn variables(spec: &JobSetSpec, context: Context<'_>, processes: &str) -> [EnvVar; 5] {
    [
        env("PET_NNODES", context.nodes.to_string()),
        env("PET_NPROC_PER_NODE", processes),
        env_from_completion_index("PET_NODE_RANK"),
        env("PET_MASTER_ADDR", context.first_node(spec)),
        env("PET_MASTER_PORT", RENDEZVOUS_PORT.to_string()),
    ]
}

/// How many processes `torchrun` starts on every node, in its own words.
///
/// `auto` stays `auto` where the node has GPUs, and is the number of its CPUs where it has none:
/// `torchrun` itself would count the machine's CPUs, not the container's. The resources are the
/// effective ones; upstream looks only at the trainer's if it mentions any.
pub(crate) fn num_proc_per_node(
    spec: &JobSetSpec,
    context: Context<'_>,
    policy: &TorchPolicy,
) -> String {
    let asked = context.job.spec.trainer.as_ref();
    let asked = asked.and_then(|trainer| trainer.num_proc_per_node.as_ref());
    let resources = trainer_container(spec).and_then(|container| container.resources.as_ref());
    match asked.or(policy.num_proc_per_node.as_ref()) {
        Some(IntOrString::Int(number)) => number.to_string(),
        Some(IntOrString::String(text)) if text == "cpu" => resources::cpus(resources).to_string(),
        Some(IntOrString::String(text)) if text != "auto" => text.clone(),
        _ if resources::gpus(resources) > 0 => "auto".into(),
        _ => resources::cpus(resources).to_string(),
    }
}

pub(crate) fn trainer_container(spec: &JobSetSpec) -> Option<&Container> {
    template::container(template::trainer_job(spec)?, TRAINER_CONTAINER)
}
