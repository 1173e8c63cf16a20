//! `serviceaccounts/token`: a token for a service account, perhaps bound to a pod.

use axum::response::Response;
use serde_json::{Value, json};

use crate::auth::tokens::ISSUER;
use crate::http::decode;
use crate::http::respond;
use crate::kinds::metadata;
use crate::status::{ApiError, Result, created};
use crate::store::Name;
use crate::verbs::call::Call;

const SHORTEST: i64 = 600;
const LONGEST: i64 = 365 * 24 * 3600;

pub(super) fn request(call: &Call, body: &[u8]) -> Result<Response> {
    let mut request = decode::object(&call.headers, body)?;
    if !matches!(request["spec"], Value::Object(_) | Value::Null) {
        return Err(ApiError::bad_request("spec: must be an object"));
    }
    let account = call.current()?;
    let seconds = request["spec"]["expirationSeconds"]
        .as_i64()
        .unwrap_or(3600);
    if !(SHORTEST..=LONGEST).contains(&seconds) {
        return Err(ApiError::bad_request(format!(
            "spec.expirationSeconds: Invalid value: {seconds}: must be between {SHORTEST} and {LONGEST}"
        )));
    }
    let bound = &request["spec"]["boundObjectRef"];
    let pod = match bound["kind"].as_str() {
        None | Some("") => None,
        Some("Pod") => {
            let name = bound["name"].as_str().unwrap_or_default();
            let pod = call
                .core
                .store
                .get("pods", &Name::new(call.namespace(), name));
            let uid = bound["uid"].as_str();
            let pod = pod.filter(|pod| uid.is_none_or(|uid| uid == &*pod.meta.uid));
            Some(pod.ok_or_else(|| {
                ApiError::NotFound(crate::status::Subject {
                    group: String::new(),
                    resource: "pods".to_owned(),
                    name: name.to_owned(),
                })
            })?)
        }
        Some(other) => {
            return Err(ApiError::bad_request(format!(
                "spec.boundObjectRef.kind: Unsupported value: {other:?}: supported values: \"Pod\""
            )));
        }
    };
    let now = (call.core.options.clock)();
    let expires = now.as_second() + seconds;
    let audiences: Vec<&str> = request["spec"]["audiences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter(|audience| !audience.is_empty())
        .collect();
    let token = call.core.tokens.issue(
        &account,
        pod.as_deref(),
        &audiences,
        now.as_second(),
        expires,
    );
    if audiences.is_empty() {
        request["spec"]["audiences"] = json!([ISSUER]);
    }
    let until = jiff::Timestamp::from_second(expires).unwrap_or(now);
    request["spec"]["expirationSeconds"] = seconds.into();
    request["kind"] = "TokenRequest".into();
    request["apiVersion"] = "authentication.k8s.io/v1".into();
    request["metadata"] =
        json!({ "name": *account.name.name, "namespace": *account.name.namespace });
    request["status"] =
        json!({ "token": token, "expirationTimestamp": metadata::timestamp(until) });
    Ok(created(respond::json_value(&request)))
}
