//! What a create request would become, down to the pods, and where every field comes from.

use std::collections::BTreeMap;

use astrago_api::TrainJob;
use astrago_plan::Runtime;
use serde::Serialize;
use serde_json::Value;

use super::{Error, Result, create};
use crate::context::Context;
use crate::form::JobRequest;
use crate::identity::Caller;
use crate::model::{FieldError, Preview, PreviewPod};
use crate::view;
use crate::world::Key;

pub(crate) fn preview(context: &Context, caller: &Caller, body: &Value) -> Result<Preview> {
    let (request, name, made) = create::plan(context, caller, body)?;
    let mut objects = Vec::new();
    objects.extend(made.system.iter().map(value));
    objects.extend(made.code.iter().map(value));
    objects.extend(made.snapshot.iter().map(value));
    objects.extend(made.checkpoints.iter().map(value));
    let planned = plan(context, &request, &made.train_job)?;
    objects.push(made.train_job);
    let mut derived = vec![value(&planned.plan.job_set)];
    derived.extend(planned.service.iter().map(value));
    derived.extend(planned.jobs.iter().map(value));
    derived.extend(planned.pods.iter().map(|pod| value(&pod.pod)));
    let provenance = planned.pods.first().map(|pod| {
        pod.origins
            .iter()
            .map(|(path, origin)| (path.to_owned(), origin.to_string()))
            .collect()
    });
    let pods = planned.pods.iter().map(|planned| PreviewPod {
        role: planned.replicated_job.clone(),
        rank: i64::from(planned.index),
        needs: view::of_pod(&planned.pod),
        yaml: (planned.index == 0).then(|| planned.annotated_yaml()),
    });
    let pods = pods.collect();
    let yaml: Vec<String> = objects
        .iter()
        .filter_map(|object| serde_saphyr::to_string(object).ok())
        .collect();
    Ok(Preview {
        trainjob_name: name,
        objects,
        derived,
        provenance: provenance.unwrap_or_else(BTreeMap::new),
        yaml: yaml.join("---\n"),
        pods,
    })
}

/// Plans a TrainJob with the runtime that it names.
pub(super) fn plan(
    context: &Context,
    request: &JobRequest,
    train_job: &Value,
) -> Result<astrago_plan::Preview> {
    let job: TrainJob =
        serde_json::from_value(train_job.clone()).map_err(|error| Error::Internal {
            operation: "read our own TrainJob",
            source: Box::new(error),
        })?;
    let mirrors = &context.world.mirrors;
    let runtime = mirrors
        .cluster_runtimes
        .get(&Key::new("", &request.framework.runtime))
        .ok_or_else(|| {
            Error::invalid(
                "framework",
                format!("there is no runtime {:?}", request.framework.runtime),
            )
        })?;
    let planned = astrago_plan::preview(&job, Runtime::from(&*runtime), &context.plan);
    planned.map_err(|errors| {
        Error::Invalid(
            errors
                .iter()
                .map(|error| FieldError::new(&error.field, &error.message))
                .collect(),
        )
    })
}

/// Kubernetes' types always have a JSON form.
fn value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}
