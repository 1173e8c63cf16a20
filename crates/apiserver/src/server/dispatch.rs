//! From an HTTP request to a verb.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};

use super::Server;
use crate::auth::Identity;
use crate::call::Call;
use crate::decode;
use crate::negotiate;
use crate::parameters::Parameters;
use crate::path::{self, ResourcePath, Target, Verb};
use crate::respond;
use crate::status::{ApiError, Result};
use crate::verbs;

pub(super) async fn handle(State(server): State<Server>, request: Request) -> Response {
    answer(&server, request)
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

async fn answer(server: &Server, request: Request) -> Result<Response> {
    let target = path::parse(request.uri().path());
    let target = target.ok_or_else(|| ApiError::bad_request("the path is not validly encoded"))?;
    let identity = server.authenticate(&request)?;
    match target {
        Target::Other(path) => other(server, &path, &request),
        Target::Resource(path) => resource(server, path, identity, request).await,
    }
}

async fn resource(
    server: &Server,
    path: ResourcePath,
    identity: Identity,
    request: Request,
) -> Result<Response> {
    let parameters = Parameters::parse(request.uri().query().unwrap_or_default())?;
    let verb = Verb::of(request.method(), !path.name.is_empty(), parameters.watch);
    let verb = verb.ok_or(ApiError::MethodNotAllowed)?;
    let kind = server
        .core
        .registry
        .find(&path.group, &path.version, &path.resource);
    let kind = kind.ok_or(ApiError::NoSuchPath)?;
    let (parts, body) = request.into_parts();
    let accept = parts
        .headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    let call = Call {
        core: server.core.clone(),
        output: negotiate::output(accept.unwrap_or_default())?,
        kind,
        path,
        verb,
        identity,
        parameters,
        headers: parts.headers,
    };
    check_shape(&call)?;
    match call.verb {
        Verb::Get => verbs::get::get(&call).await,
        Verb::List => verbs::list::list(&call).await,
        Verb::Watch => verbs::watch::watch(call).await,
        Verb::Create => {
            let object = decode::object(&call.headers, &decode::read(body).await?)?;
            verbs::create::create(&call, object).await
        }
        Verb::Update => {
            let object = decode::object(&call.headers, &decode::read(body).await?)?;
            verbs::update::update(&call, object).await
        }
        Verb::Patch => verbs::patch::patch(&call, &decode::read(body).await?).await,
        Verb::Delete => verbs::delete::delete(&call, &decode::read(body).await?).await,
        Verb::DeleteCollection => {
            verbs::delete::delete_collection(&call, &decode::read(body).await?).await
        }
    }
}

/// Refuses paths that no kind has: a namespace on cluster-scoped kinds, unknown subresources.
fn check_shape(call: &Call) -> Result<()> {
    let (path, kind) = (&call.path, &call.kind);
    let is_namespace = &*kind.resource == "namespaces";
    if !kind.namespaced && !path.namespace.is_empty() && !is_namespace {
        return Err(ApiError::NoSuchPath);
    }
    if kind.namespaced && path.namespace.is_empty() && !path.name.is_empty() {
        return Err(ApiError::NoSuchPath);
    }
    if !path.subresource.is_empty() && !kind.has_subresource(&path.subresource) {
        return Err(ApiError::NoSuchPath);
    }
    if path.subresource.is_empty() && !kind.allows(call.verb.as_str()) {
        return Err(ApiError::MethodNotAllowed);
    }
    Ok(())
}

fn other(server: &Server, path: &str, _request: &Request) -> Result<Response> {
    match path {
        "/livez" | "/healthz" => Ok(respond::text(StatusCode::OK, "ok")),
        "/readyz" if server.core.store.is_writable() => Ok(respond::text(StatusCode::OK, "ok")),
        "/readyz" => Ok(respond::text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the store cannot be written",
        )),
        _ => Err(ApiError::NoSuchPath),
    }
}

impl Server {
    fn authenticate(&self, request: &Request) -> Result<Identity> {
        if let Some(identity) = request.extensions().get::<Identity>() {
            return Ok(identity.clone());
        }
        let header = request.headers().get(header::AUTHORIZATION);
        let token = header.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        match token {
            Some(token)
                if self
                    .core
                    .options
                    .admin_tokens
                    .iter()
                    .any(|one| one == token) =>
            {
                Ok(Identity::admin())
            }
            _ => Err(ApiError::Unauthorized),
        }
    }
}
