//! What lies below an object and is more than a view of it.

mod binding;
mod node_proxy;
mod scale;
mod token;

use axum::body::Body;
use axum::response::Response;

use crate::call::Call;
use crate::decode;
use crate::path::Verb;
use crate::status::{ApiError, Result};
use crate::verbs::{get, patch, update};

/// Answers a request for a subresource.
pub(crate) async fn answer(
    call: Call,
    body: Body,
    upgrade: Option<hyper::upgrade::OnUpgrade>,
) -> Result<Response> {
    let subresource = call
        .kind
        .subresources
        .iter()
        .find(|one| one.name == call.path.subresource);
    let verbs = &subresource.ok_or(ApiError::NoSuchPath)?.verbs;
    if !verbs.iter().any(|verb| verb == call.verb.as_str()) {
        return Err(ApiError::MethodNotAllowed);
    }
    match (
        &*call.kind.resource,
        call.path.subresource.as_str(),
        call.verb,
    ) {
        (_, "scale", _) => scale::answer(&call, &decode::read(body).await?).await,
        ("pods", "binding", _) => binding::bind(&call, &decode::read(body).await?).await,
        ("pods", "eviction", _) => binding::evict(&call, &decode::read(body).await?).await,
        ("pods", "log" | "exec" | "attach" | "portforward", _) => {
            node_proxy::pod(&call, body, upgrade).await
        }
        ("nodes", "proxy", _) => node_proxy::node(&call, body, upgrade).await,
        ("serviceaccounts", "token", _) => token::request(&call, &decode::read(body).await?),
        ("namespaces", "finalize", _) => {
            let namespace = decode::object(&call.headers, &decode::read(body).await?)?;
            binding::finalize(&call, &namespace).await
        }
        (_, _, Verb::Get) => get::get(&call).await,
        (_, _, Verb::Update) => {
            let object = decode::object(&call.headers, &decode::read(body).await?)?;
            update::update(&call, object).await
        }
        (_, _, Verb::Patch) => patch::patch(&call, &decode::read(body).await?).await,
        _ => Err(ApiError::MethodNotAllowed),
    }
}
