//! The create form that would make a job again, and starting a job again with it.

use std::collections::BTreeMap;

use astrago_plan::Framework;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use serde_json::json;

use super::{Error, Result, create, jobs, record, runtimes};
use crate::context::Context;
use crate::form::typed::{self, Mistakes};
use crate::identity::Caller;
use crate::legacy::Kind;
use crate::model::{CreateRequest, CreateResponse, EnvVar};
use crate::names;
use crate::world::Key;
use astrago_api::TrainJob;

/// The request that made a job, with its code; for jobs that were not made by a request, the
/// nearest request.
pub(crate) async fn form(context: &Context, caller: &Caller, key: &Key) -> Result<CreateRequest> {
    let (job, code) = match jobs::find(context, caller, key).await {
        Ok(job) if job.legacy.is_some() => return Err(not_of_a_form(job.kind(), key)),
        Ok(job) => ((*job.job).clone(), record::code_of(context, key).await),
        Err(Error::NotFound { .. }) => {
            let record = jobs::find_record(context, caller, key).await?;
            let kind = &record.detail.summary.kind;
            if Kind::of(kind).is_some() {
                return Err(not_of_a_form(kind, key));
            }
            let job = serde_json::from_value(record.manifest).map_err(Error::disk)?;
            (job, record.code)
        }
        Err(error) => return Err(error),
    };
    let asked = job.annotations().get(names::REQUEST);
    let asked = asked.and_then(|text| serde_json::from_str(text).ok());
    // What an earlier version kept may have forms that only the reader of bodies knows.
    let asked = asked.and_then(|body| typed::read(&body, &mut Mistakes::default()));
    let mut form = asked.unwrap_or_else(|| derive(context, &job, caller));
    // A name can be used once.
    form.name = None;
    form.origin = Some(key.to_string());
    form.training_code = code.or(form.training_code);
    Ok(form)
}

fn not_of_a_form(kind: &str, key: &Key) -> Error {
    Error::Conflict(format!(
        "{:?} is a {kind}, which no create request can make; save its manifest and apply it again, or turn it into a \
         TrainJob with `astrago migrate`",
        key.name
    ))
}

/// Starts a job again, as a new job.
pub(crate) async fn restart(
    context: &Context,
    caller: &Caller,
    key: &Key,
) -> Result<CreateResponse> {
    let form = form(context, caller, key).await?;
    create::create(context, caller, &json!(form), None).await
}

fn derive(context: &Context, job: &TrainJob, caller: &Caller) -> CreateRequest {
    let runtime = &job.spec.runtime_ref.name;
    let frameworks = runtimes::frameworks(&context.world.mirrors);
    let framework = frameworks
        .iter()
        .find(|framework| framework.runtime == *runtime);
    let annotation = |key| job.annotations().get(key).cloned();
    let trainer = job.spec.trainer.clone().unwrap_or_default();
    let command = match trainer.command.as_slice() {
        [shell, flag, script] if shell.ends_with("sh") && flag == "-c" => script.clone(),
        words => [words, &trainer.args].concat().join(" "),
    };
    let plain = trainer.env.into_iter().filter_map(|env| {
        let (name, value) = (env.name, env.value?);
        Some(EnvVar { name, value })
    });
    let resources = trainer.resources_per_node.unwrap_or_default();
    let amount = |side: &Option<BTreeMap<String, Quantity>>, name: &str| {
        side.as_ref()?.get(name).map(|quantity| quantity.0.clone())
    };
    let mut limits = resources.limits.iter().chain(&resources.requests).flatten();
    let gpus = limits.find(|(name, _)| name.contains("gpu"));
    CreateRequest {
        user_id: job
            .labels()
            .get(names::USER)
            .unwrap_or(&caller.user)
            .clone(),
        namespace: job.namespace().unwrap_or_default(),
        framework: framework.map_or("pytorch", Framework::name).to_owned(),
        runtime: Some(runtime.clone()),
        launcher_cpu: annotation(names::LAUNCHER_CPU),
        launcher_memory: annotation(names::LAUNCHER_MEMORY),
        num_nodes: Some(trainer.num_nodes.map_or(1, i64::from)),
        image: trainer.image,
        command: Some(command).filter(|command| !command.is_empty()),
        env_vars: plain.collect(),
        cpu_request: amount(&resources.requests, "cpu"),
        cpu_limit: amount(&resources.limits, "cpu"),
        memory_request: amount(&resources.requests, "memory"),
        memory_limit: amount(&resources.limits, "memory"),
        gpu_count: gpus.map(|(_, count)| count.0.parse().unwrap_or(0)),
        ..CreateRequest::default()
    }
}
