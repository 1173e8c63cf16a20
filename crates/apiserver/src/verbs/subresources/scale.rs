//! `/scale`: a custom resource's replica count as an `autoscaling/v1` Scale.

use axum::response::Response;
use serde_json::{Value, json};

use crate::http::decode;
use crate::http::path::Verb;
use crate::http::respond;
use crate::kinds::metadata;
use crate::kinds::registry::kind::Scale;
use crate::kinds::schema::FieldError;
use crate::status::{ApiError, Result};
use crate::verbs::call::Call;
use crate::verbs::modify::{Tracking, modify};
use crate::verbs::patch;

pub(super) async fn answer(call: &Call, body: &[u8]) -> Result<Response> {
    let paths = call
        .kind
        .custom
        .as_ref()
        .and_then(|custom| custom.scale.as_ref());
    let paths = paths.ok_or(ApiError::NoSuchPath)?;
    let object = match call.verb {
        Verb::Get => call.current()?,
        Verb::Update => {
            let scale = decode::object(&call.headers, body)?;
            modify(call, Tracking::Update, |old| {
                scaled(call, paths, old, &scale)
            })
            .await?
            .0
        }
        Verb::Patch => {
            let media = decode::media_type(&call.headers);
            let change = patch::change(call, media, decode::json(body)?)?;
            let scaling = |old: &Value| scaled(call, paths, old, &change(&view(call, paths, old))?);
            modify(call, Tracking::Update, scaling).await?.0
        }
        _ => return Err(ApiError::MethodNotAllowed),
    };
    Ok(respond::json_value(&view(call, paths, &call.view(&object))))
}

fn view(call: &Call, paths: &Scale, object: &Value) -> Value {
    let number = |path: &str| at(object, path).and_then(Value::as_i64).unwrap_or(0);
    let metadata = &object["metadata"];
    let mut status = json!({ "replicas": number(&paths.status_replicas) });
    if let Some(selector) = paths
        .label_selector
        .as_ref()
        .and_then(|path| at(object, path))
    {
        status["selector"] = selector.clone();
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"], "namespace": call.namespace(), "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": { "replicas": number(&paths.spec_replicas) },
        "status": status,
    })
}

/// The object with the replicas of a Scale.
fn scaled(call: &Call, paths: &Scale, old: &Value, scale: &Value) -> Result<Value> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 {
        let value = &scale["spec"]["replicas"];
        let detail = "must be greater than or equal to 0";
        let error = FieldError::invalid("spec.replicas", value, detail);
        return Err(crate::admission::invalid(&call.kind, old, vec![error]));
    }
    let mut new = old.clone();
    let version = metadata::text(scale, "resourceVersion");
    if !version.is_empty() {
        new["metadata"]["resourceVersion"] = version.into();
    }
    let mut place = &mut new;
    for step in steps(&paths.spec_replicas) {
        if !matches!(place, Value::Object(_) | Value::Null) {
            return Err(ApiError::bad_request(format!(
                "the object has no place for replicas at {}",
                paths.spec_replicas
            )));
        }
        place = &mut place[step];
    }
    *place = replicas.into();
    Ok(new)
}

fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    steps(path).try_fold(object, |value, step| value.get(step))
}

/// The steps of a path such as `.spec.replicas`.
fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|step| !step.is_empty())
}
