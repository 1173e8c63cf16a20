//! The create form that would make a job again, and starting a job again with it.

use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::{Error, Result, create, jobs, record};
use crate::context::Context;
use crate::identity::Caller;
use crate::legacy::Kind;
use crate::model::CreateResponse;
use crate::names;
use crate::world::Key;
use astrago_api::TrainJob;

/// The request that made a job, with its code; for jobs that were not made by a request, the
/// nearest request.
pub(crate) async fn form(context: &Context, caller: &Caller, key: &Key) -> Result<Value> {
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
    let mut form = match job
        .annotations()
        .get(names::REQUEST)
        .map(|text| serde_json::from_str(text))
    {
        Some(Ok(Value::Object(form))) => form,
        _ => derive(&job, caller),
    };
    // A name can be used once.
    form.remove("name");
    if let Some(code) = code {
        form.insert("training_code".to_owned(), json!(code));
    }
    Ok(Value::Object(form))
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
    create::create(context, caller, &form, None).await
}

fn derive(job: &TrainJob, caller: &Caller) -> Map<String, Value> {
    let mut form = Map::new();
    let mut put = |name: &str, value: Value| form.insert(name.to_owned(), value);
    let user = job
        .labels()
        .get(names::USER)
        .cloned()
        .unwrap_or_else(|| caller.user.clone());
    put("user_id", json!(user));
    put("namespace", json!(job.namespace()));
    let runtime = &job.spec.runtime_ref.name;
    let framework = [
        "tensorflow",
        "horovod",
        "deepspeed",
        "jax",
        "xgboost",
        "mlx",
    ]
    .into_iter()
    .find(|framework| runtime.contains(framework))
    .unwrap_or("pytorch");
    put("framework", json!(framework));
    put("runtime", json!(runtime));
    for (field, annotation) in [
        ("launcher_cpu", names::LAUNCHER_CPU),
        ("launcher_memory", names::LAUNCHER_MEMORY),
    ] {
        if let Some(amount) = job.annotations().get(annotation) {
            put(field, json!(amount));
        }
    }
    let Some(trainer) = &job.spec.trainer else {
        put("num_nodes", json!(1));
        return form;
    };
    put("num_nodes", json!(trainer.num_nodes.unwrap_or(1)));
    if let Some(image) = &trainer.image {
        put("image", json!(image));
    }
    let command = match trainer.command.as_slice() {
        [shell, flag, script] if shell.ends_with("sh") && flag == "-c" => script.clone(),
        words => words
            .iter()
            .chain(&trainer.args)
            .cloned()
            .collect::<Vec<String>>()
            .join(" "),
    };
    if !command.is_empty() {
        put("command", json!(command));
    }
    let plain = trainer.env.iter().filter(|env| env.value.is_some());
    let env: Vec<Value> = plain
        .map(|env| json!({ "name": env.name, "value": env.value }))
        .collect();
    if !env.is_empty() {
        put("env_vars", Value::Array(env));
    }
    if let Some(resources) = &trainer.resources_per_node {
        let sides = [
            ("request", &resources.requests),
            ("limit", &resources.limits),
        ];
        for (side, list) in sides {
            for (name, quantity) in list.iter().flatten() {
                match name.as_str() {
                    "cpu" | "memory" => _ = put(&format!("{name}_{side}"), json!(quantity.0)),
                    gpu if gpu.contains("gpu") => {
                        let count: i64 = quantity.0.parse().unwrap_or(0);
                        put("gpu_count", json!(count));
                    }
                    _ => {}
                }
            }
        }
    }
    form
}
