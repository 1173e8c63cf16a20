//! torchtune: which models, nodes and adapters go together.

use astrago_api::TrainJob;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::error::FieldError;
use crate::nodes::num_nodes;
use crate::policy::torchtune::{Adapter, MANAGED, is_meant, model};
use crate::runtime::Runtime;
use crate::{TRAINER_CONTAINER, resources, template};

const MULTI_NODE_MODEL: &str = "llama3_3/70B";
const MODELS: [&str; 4] = [
    "llama3_2/1B",
    "llama3_2/3B",
    MULTI_NODE_MODEL,
    "qwen2_5/1.5B",
];

pub(super) fn check(job: &TrainJob, runtime: Runtime<'_>, errors: &mut Vec<FieldError>) {
    let uses_torch = runtime
        .policy()
        .is_some_and(|policy| policy.torch.is_some());
    if !uses_torch || !is_meant(job) {
        return;
    }
    let model = model(runtime.name).unwrap_or_else(|| runtime.name.to_owned());
    if !MODELS.contains(&model.as_str()) {
        let message =
            format!("must have a supported pretrained model, invalid model configured: {model}");
        errors.push(FieldError::invalid("spec.runtimeRef.name", message));
        return;
    }
    let (nodes, _) = num_nodes(job, runtime);
    if nodes > 1 && model != MULTI_NODE_MODEL {
        let message = format!("must be 1 for {model} model");
        errors.push(FieldError::invalid("spec.trainer.numNodes", message));
    }
    let args = job
        .spec
        .trainer
        .as_ref()
        .map_or(&[][..], |trainer| &trainer.args);
    for arg in args {
        if let Some(key) = MANAGED
            .iter()
            .find(|key| arg.starts_with(&format!("{key}=")))
        {
            let message = format!(
                "must not set immutable config {key:?} in trainer args; it is managed by the runtime"
            );
            errors.push(FieldError::invalid("spec.trainer.args", message));
        }
    }
    let adapter = Adapter::of(args);
    if adapter != Adapter::Full && nodes > 1 {
        let message = "LoRA fine-tuning is not supported for multi-node training in TorchTune";
        errors.push(FieldError::invalid("spec.trainer.numNodes", message));
    }
    if adapter == Adapter::Qlora {
        check_qlora(job, runtime, &model, errors);
    }
}

fn check_qlora(job: &TrainJob, runtime: Runtime<'_>, model: &str, errors: &mut Vec<FieldError>) {
    if model == "qwen2_5/1.5B" {
        let message = format!("QLoRA is not supported for {model} model");
        errors.push(FieldError::invalid("spec.trainer.args", message));
        return;
    }
    let trainer = job.spec.trainer.as_ref();
    let one = match trainer.and_then(|trainer| trainer.num_proc_per_node.as_ref()) {
        None => true,
        Some(IntOrString::Int(number)) => *number == 1,
        Some(IntOrString::String(text)) => text == "auto" || text == "1",
    };
    if !one {
        let message = format!("must be auto or 1 for {model} model when using QLoRA");
        errors.push(FieldError::invalid("spec.trainer.numProcPerNode", message));
    }
    let container = template::trainer_job(&runtime.spec.template.spec)
        .and_then(|job| template::container(job, TRAINER_CONTAINER));
    let mut merged = container
        .and_then(|container| container.resources.clone())
        .unwrap_or_default();
    if let Some(over) = trainer.and_then(|trainer| trainer.resources_per_node.as_ref()) {
        resources::merge(&mut merged, over);
    }
    if resources::gpus(Some(&merged)) != 1 {
        let message =
            format!("must have gpu resource with value 1 for {model} model when using QLoRA");
        errors.push(FieldError::invalid(
            "spec.trainer.resourcesPerNode",
            message,
        ));
    }
}
