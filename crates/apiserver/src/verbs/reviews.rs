//! The reviews: questions about identity and rights that are answered and forgotten.

use axum::response::Response;
use serde_json::{Value, json};

use crate::auth::Identity;
use crate::auth::policy::Attributes;
use crate::auth::tokens::ISSUER;
use crate::http::negotiate::Output;
use crate::http::respond;
use crate::status::{ApiError, Result, created};
use crate::verbs::call::Call;

pub(crate) fn answer(call: &Call, mut review: Value) -> Result<Response> {
    if call.output != Output::Json {
        return Err(ApiError::NotAcceptable("application/json"));
    }
    crate::verbs::create::check_type(&call.kind, &mut review)?;
    let status = call.kind.strategy.review.ok_or(ApiError::NoSuchPath)?;
    review["status"] = status(call, &review["spec"])?;
    if !review["metadata"].is_object() {
        review["metadata"] = json!({});
    }
    Ok(created(respond::json_value(&review)))
}

pub(crate) fn own_identity(call: &Call) -> Value {
    json!({ "userInfo": user_info(&call.identity) })
}

pub(crate) fn own_access(call: &Call, spec: &Value) -> Result<Value> {
    allowed(call, &call.identity, spec)
}

pub(crate) fn access(call: &Call, spec: &Value) -> Result<Value> {
    allowed(call, &subject(spec)?, spec)
}

pub(crate) fn local_access(call: &Call, spec: &Value) -> Result<Value> {
    let namespace = &spec["resourceAttributes"]["namespace"];
    if namespace.as_str().unwrap_or_default() != call.path.namespace {
        return Err(ApiError::bad_request(
            "spec.resourceAttributes.namespace must be the namespace of the request",
        ));
    }
    access(call, spec)
}

fn allowed(call: &Call, identity: &Identity, spec: &Value) -> Result<Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let attributes = match (resource.is_object(), path.is_object()) {
        (true, false) => Attributes {
            verb: text(&resource["verb"]),
            group: text(&resource["group"]),
            resource: text(&resource["resource"]),
            subresource: text(&resource["subresource"]),
            namespace: text(&resource["namespace"]),
            name: text(&resource["name"]),
            path: String::new(),
        },
        (false, true) => Attributes {
            verb: text(&path["verb"]),
            path: text(&path["path"]),
            ..Attributes::default()
        },
        _ => {
            return Err(ApiError::bad_request(
                "exactly one of spec.nonResourceAttributes or spec.resourceAttributes must be specified",
            ));
        }
    };
    let core = &call.core;
    let allowed = core.policy.get(&core.store).allows(identity, &attributes);
    let mut status = json!({ "allowed": allowed });
    if allowed {
        status["reason"] = "RBAC: allowed".into();
    }
    Ok(status)
}

fn subject(spec: &Value) -> Result<Identity> {
    let user = spec["user"].as_str().unwrap_or_default();
    let groups: Vec<&str> = spec["groups"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if user.is_empty() && groups.is_empty() {
        return Err(ApiError::bad_request(
            "at least one of spec.user or spec.groups must be specified",
        ));
    }
    let mut identity = Identity::user(user, &groups);
    // A review speaks of exactly the groups that it names.
    identity.groups = groups.into_iter().map(str::to_owned).collect();
    Ok(identity)
}

pub(crate) fn own_rules(call: &Call, spec: &Value) -> Value {
    let namespace = spec["namespace"].as_str().unwrap_or("default");
    let core = &call.core;
    let policy = core.policy.get(&core.store);
    let (mut resource, mut path) = (Vec::new(), Vec::new());
    if call.identity.is_in(crate::auth::MASTERS) {
        resource.push(json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }));
        path.push(json!({ "verbs": ["*"], "nonResourceURLs": ["*"] }));
    }
    for rule in policy.rules_of(&call.identity, namespace) {
        let list = if rule.is_about_paths() {
            &mut path
        } else {
            &mut resource
        };
        list.push(rule.to_value());
    }
    json!({ "resourceRules": resource, "nonResourceRules": path, "incomplete": false })
}

pub(crate) fn token(call: &Call, spec: &Value) -> Value {
    let core = &call.core;
    let now = (core.options.clock)().as_second();
    let token = spec["token"].as_str().unwrap_or_default();
    let asked: Vec<&str> = spec["audiences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    // Who names no audience asks on behalf of this server.
    let audiences = if asked.is_empty() {
        &[ISSUER][..]
    } else {
        &asked
    };
    match core.tokens.identify_for(&core.store, token, now, audiences) {
        Some((identity, audiences)) => {
            let user = user_info(&identity);
            json!({ "authenticated": true, "user": user, "audiences": audiences })
        }
        None => json!({ "authenticated": false, "error": "the token is not valid" }),
    }
}

fn user_info(identity: &Identity) -> Value {
    let mut info = json!({ "username": *identity.user, "groups": *identity.groups });
    if !identity.uid.is_empty() {
        info["uid"] = (*identity.uid).into();
    }
    for (key, values) in identity.extra.iter() {
        info["extra"][key] = json!(values);
    }
    info
}
