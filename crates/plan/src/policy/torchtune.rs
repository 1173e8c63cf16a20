//! torchtune: the user says `tune run`, the runtime knows the rest of the command.
//!
//! Recipe and configuration follow from the model in the runtime's name, from the number of nodes
//! and processes, and from whether the arguments ask for LoRA.

use astrago_api::{JobSetSpec, TrainJob};

use super::Context;
use super::torch::trainer_container;
use crate::template;
use crate::{RENDEZVOUS_PORT, resources};

/// Settings in the runtime's command that belong to the runtime: where things lie on its volume.
pub(crate) const MANAGED: [&str; 4] = [
    "output_dir",
    "tokenizer.path",
    "tokenizer.merges_file",
    "checkpointer.checkpoint_dir",
];

/// Whether the TrainJob means torchtune.
pub(crate) fn is_meant(job: &TrainJob) -> bool {
    job.spec
        .trainer
        .as_ref()
        .is_some_and(|trainer| trainer.command == ["tune", "run"])
}

/// Completes the command; the arguments stay the user's.
pub(crate) fn apply(spec: &mut JobSetSpec, context: Context<'_>, processes: &str) {
    let gpus = gpus(spec);
    let mut command = vec!["tune".to_owned(), "run".to_owned()];
    let several = processes.parse::<i64>().is_ok_and(|number| number > 1);
    if context.nodes > 1 || several || gpus > 1 {
        let address = context.first_node(spec);
        command.push(format!("--rdzv_endpoint={address}:{RENDEZVOUS_PORT}"));
    }
    let args = context
        .job
        .spec
        .trainer
        .as_ref()
        .map_or(&[][..], |trainer| &trainer.args);
    let (recipe, suffix) = recipe(context.nodes, processes, gpus, Adapter::of(args));
    command.push(recipe.into());
    command.push("--config".into());
    command.push(format!(
        "{}{suffix}",
        model(context.runtime.name).unwrap_or_default()
    ));
    let runtime_command = template::trainer_job(&context.runtime.spec.template.spec)
        .and_then(|job| template::container(job, crate::TRAINER_CONTAINER))
        .and_then(|container| container.command.as_deref())
        .unwrap_or_default();
    command.extend(
        runtime_command
            .iter()
            .filter(|word| is_managed(word))
            .cloned(),
    );
    template::for_each_trainer(spec, |container| container.command = Some(command.clone()));
}

/// How the weights are trained.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Adapter {
    Full,
    Lora,
    /// LoRA on a quantized model.
    Qlora,
}

impl Adapter {
    /// What the arguments ask for.
    pub(crate) fn of(args: &[String]) -> Self {
        let says = |setting: &str| args.iter().any(|arg| arg.contains(setting));
        if !says("model.lora_attn_modules") {
            Self::Full
        } else if says("model.quantize_base=true") && !says("model.use_dora=true") {
            Self::Qlora
        } else {
            Self::Lora
        }
    }
}

/// The recipe, and the end of the configuration's name.
pub(crate) fn recipe(
    nodes: i32,
    processes: &str,
    gpus: i64,
    adapter: Adapter,
) -> (&'static str, &'static str) {
    let single = nodes == 1 && (processes == "1" || gpus == 1);
    match (nodes > 1, single, adapter) {
        (true, ..) => ("full_finetune_distributed", "_full_multinode"),
        (_, true, Adapter::Full) => ("full_finetune_single_device", "_full_single_device"),
        (_, true, Adapter::Lora) => ("lora_finetune_single_device", "_lora_single_device"),
        (_, true, Adapter::Qlora) => ("lora_finetune_single_device", "_qlora_single_device"),
        (_, false, Adapter::Full) => ("full_finetune_distributed", "_full"),
        (_, false, Adapter::Lora) => ("lora_finetune_distributed", "_lora"),
        (_, false, Adapter::Qlora) => ("lora_finetune_distributed", "_qlora"),
    }
}

/// The model that a runtime is for: `llama3_2/1B` for `torchtune-llama3.2-1b`.
pub(crate) fn model(runtime: &str) -> Option<String> {
    let parts: Vec<&str> = runtime.split('-').collect();
    let ["torchtune", family, size] = parts[..] else {
        return None;
    };
    Some(format!(
        "{}/{}",
        family.replace('.', "_"),
        size.to_uppercase()
    ))
}

pub(crate) fn gpus(spec: &JobSetSpec) -> i64 {
    resources::gpus(trainer_container(spec).and_then(|container| container.resources.as_ref()))
}

/// Whether a word of a command is a setting that belongs to the runtime.
pub(crate) fn is_managed(word: &str) -> bool {
    word.split_once('=')
        .is_some_and(|(key, _)| MANAGED.contains(&key))
}
