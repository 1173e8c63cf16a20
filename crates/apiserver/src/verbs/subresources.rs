//! What lies below an object and is more than a view of it.

mod namespace;
mod node_proxy;
mod pod;
mod scale;
mod token;

use axum::body::Body;
use axum::response::Response;

use crate::http::decode;
use crate::http::path::Verb;
use crate::status::{ApiError, Result};
use crate::verbs::call::Call;
use crate::verbs::{get, patch, update};

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
    // No two kinds have different subresources of the same name.
    match (call.path.subresource.as_str(), call.verb) {
        ("scale", _) => scale::answer(&call, &decode::read(body).await?).await,
        ("binding", _) => pod::bind(&call, &decode::read(body).await?).await,
        ("eviction", _) => pod::evict(&call, &decode::read(body).await?).await,
        ("log" | "exec" | "attach" | "portforward", _) => {
            node_proxy::pod(&call, body, upgrade).await
        }
        ("proxy", _) => node_proxy::node(&call, body, upgrade).await,
        ("token", _) => token::request(&call, &decode::read(body).await?),
        ("finalize", _) => {
            let namespace = decode::object(&call.headers, &decode::read(body).await?)?;
            namespace::finalize(&call, &namespace).await
        }
        (_, Verb::Get) => get::get(&call).await,
        (_, Verb::Update) => {
            let object = decode::object(&call.headers, &decode::read(body).await?)?;
            update::update(&call, object).await
        }
        (_, Verb::Patch) => patch::patch(&call, &decode::read(body).await?).await,
        _ => Err(ApiError::MethodNotAllowed),
    }
}
