//! From an HTTP request to a verb.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use astrago_patch::bounds::MAX_BODY;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures::{FutureExt as _, StreamExt as _};
use http::request::Parts;
use http::{Method, header};
use serde_json::json;

use super::{decode, health, negotiate, respond};
use crate::admission;
use crate::auth::lease::Lease;
use crate::auth::policy::Attributes;
use crate::auth::{Identity, authenticate};
use crate::http::limits::{Class, Permit};
use crate::http::parameters::Parameters;
use crate::http::path::{self, ResourcePath, Target, Verb};
use crate::kinds::discovery;
use crate::kinds::registry::Kind;
use crate::kinds::selector::Fields;
use crate::options::ExtraGroup;
use crate::server::Core;
use crate::status::{ApiError, Result};
use crate::verbs;
use crate::verbs::call::{self, Call};
use crate::verbs::{reviews, subresources};

/// What is known of a request when it is counted and audited.
#[derive(Default)]
struct Record {
    user: Option<Identity>,
    verb: Option<Verb>,
    /// The plural of a resource that exists; others are not let into labels, as anyone could make up more.
    resource: Option<Arc<str>>,
}

pub(crate) async fn handle(core: &Arc<Core>, request: Request) -> Response {
    let began = Instant::now();
    let mut record = Record::default();
    let uri = request.uri().path().to_owned();
    // A bug that one request meets is that request's alone.
    let answered = AssertUnwindSafe(answer(core, request, &mut record)).catch_unwind();
    let response = answered.await.unwrap_or_else(|panic| {
        Err(ApiError::Internal(format!(
            "a request for {uri} panicked: {}",
            astrago_net::supervise::message(&*panic)
        )))
    });
    let response = response.unwrap_or_else(IntoResponse::into_response);
    note(core, &record, &uri, response.status().as_u16(), began);
    response
}

async fn answer(core: &Arc<Core>, request: Request, record: &mut Record) -> Result<Response> {
    let target = path::parse(request.uri().path());
    let target = target.ok_or_else(|| ApiError::bad_request("the path is not validly encoded"))?;
    let (parts, body) = request.into_parts();
    let known = parts.extensions.get::<Identity>();
    let identity = authenticate::identify(core, known, &parts.headers)?;
    record.user = Some(identity.clone());
    match target {
        Target::Other(path) => other(core, &path, &identity, &parts),
        Target::Resource(path) => resource(core, path, identity, parts, body, record).await,
    }
}

async fn resource(
    core: &Arc<Core>,
    path: ResourcePath,
    identity: Identity,
    mut parts: Parts,
    body: Body,
    record: &mut Record,
) -> Result<Response> {
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let parameters = Parameters::parse(&query)?;
    let is_watch = parameters.watch && path.subresource.is_empty();
    let verb = Verb::of(&parts.method, !path.name.is_empty(), is_watch);
    let verb = verb.ok_or(ApiError::MethodNotAllowed)?;
    record.verb = Some(verb);

    let kind = core
        .registry
        .find(&path.group, &path.version, &path.resource);
    record.resource = kind.as_ref().map(|kind| kind.plural.clone());
    let selected = Fields::parse(&parameters.field_selector, |_| true)?;
    let attributes = authenticate::attributes(&path, authorized_verb(&path, verb), selected.name());
    authorize(core, &identity, &attributes)?;
    let class = class(&path, verb, &query);
    let bytes = size(&body);
    let permit = core
        .usage
        .enter(&identity, class, bytes, core.options.limits)?;

    let extra = core.options.extra_groups.iter();
    if let Some(extra) = extra
        .into_iter()
        .find(|one| one.group == path.group && one.version == path.version)
    {
        return Ok(elsewhere(extra, identity, parts, body).await);
    }
    let kind = kind.ok_or(ApiError::NoSuchPath)?;
    check_shape(&path, &kind, verb)?;
    let accept = parts
        .headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    let raw = matches!(
        path.subresource.as_str(),
        "log" | "exec" | "attach" | "portforward" | "proxy"
    );
    let output = match negotiate::output(accept.unwrap_or_default()) {
        Err(_) if raw => negotiate::Output::Json,
        other => other?,
    };
    let known = parts.extensions.get::<Identity>();
    let lease = match class {
        Class::Request => None,
        Class::Watch => Lease::new(core, known, &identity, &parts.headers, attributes),
    };
    let upgrade = parts.extensions.remove::<hyper::upgrade::OnUpgrade>();
    let call = Call {
        core: core.clone(),
        output,
        kind,
        path,
        verb,
        identity,
        manager_name: call::manager_name(&parameters, &parts.headers),
        parameters,
        headers: parts.headers,
        method: parts.method,
        query,
        lease: lease.clone(),
    };
    let response = perform(call, body, upgrade).await?;
    let is_made = HttpBody::size_hint(response.body()).exact().is_some();
    Ok(match class {
        Class::Request if is_made => response,
        // What is made while it is read counts until its last byte is sent.
        Class::Request => holding(response, permit),
        Class::Watch => holding(leased(response, lease), permit),
    })
}

async fn perform(
    call: Call,
    body: Body,
    upgrade: Option<hyper::upgrade::OnUpgrade>,
) -> Result<Response> {
    if !call.path.subresource.is_empty() {
        return subresources::answer(call, body, upgrade).await;
    }
    match call.verb {
        Verb::Get => verbs::get::get(&call).await,
        Verb::List => verbs::list::list(call).await,
        Verb::Watch => verbs::watch::watch(call).await,
        Verb::Create => {
            let body = decode::read(body).await?;
            let (object, repeats) = decode::object_with_repeats(&call.headers, &body)?;
            if call.kind.strategy.review.is_some() {
                return reviews::answer(&call, object);
            }
            let warnings = admission::repeated_fields(&call, &repeats)?;
            let response = verbs::create::create(&call, object).await?;
            Ok(respond::with_warnings(response, &warnings))
        }
        Verb::Update => {
            let body = decode::read(body).await?;
            let (object, repeats) = decode::object_with_repeats(&call.headers, &body)?;
            let warnings = admission::repeated_fields(&call, &repeats)?;
            let response = verbs::update::update(&call, object).await?;
            Ok(respond::with_warnings(response, &warnings))
        }
        Verb::Patch => verbs::patch::patch(&call, &decode::read(body).await?).await,
        Verb::Delete => verbs::delete::delete(&call, &decode::read(body).await?).await,
        Verb::DeleteCollection => {
            verbs::delete::delete_collection(call, &decode::read(body).await?).await
        }
    }
}

/// Connecting to a pod is a right of its own, whichever method the client begins with.
fn authorized_verb(path: &ResourcePath, verb: Verb) -> Verb {
    match path.subresource.as_str() {
        "exec" | "attach" | "portforward" => Verb::Create,
        _ => verb,
    }
}

fn class(path: &ResourcePath, verb: Verb, query: &str) -> Class {
    let follows = path.subresource == "log"
        && crate::http::parameters::pairs(query)
            .any(|(key, value)| key == "follow" && crate::http::parameters::truth(&value));
    let connects = matches!(path.subresource.as_str(), "exec" | "attach" | "portforward");
    if verb == Verb::Watch || follows || connects {
        Class::Watch
    } else {
        Class::Request
    }
}

/// How many bytes a body may turn out to have.
fn size(body: &Body) -> usize {
    let hint = HttpBody::size_hint(body);
    let most = hint.upper().and_then(|most| usize::try_from(most).ok());
    most.unwrap_or(MAX_BODY).min(MAX_BODY)
}

fn authorize(core: &Arc<Core>, identity: &Identity, attributes: &Attributes) -> Result<()> {
    if core.policy.get(&core.store).allows(identity, attributes) {
        return Ok(());
    }
    // Who has not said who they are is asked to, rather than refused for good.
    if identity.is_anonymous() {
        return Err(ApiError::Unauthorized);
    }
    Err(attributes.forbidden(identity))
}

/// Refuses paths that no kind has: a namespace on cluster-scoped kinds, unknown subresources.
fn check_shape(path: &ResourcePath, kind: &Kind, verb: Verb) -> Result<()> {
    if !kind.namespaced && !path.namespace.is_empty() && !path.is_namespace() {
        return Err(ApiError::NoSuchPath);
    }
    if kind.namespaced && path.namespace.is_empty() && !path.name.is_empty() {
        return Err(ApiError::NoSuchPath);
    }
    if !path.subresource.is_empty() && !kind.has_subresource(&path.subresource) {
        return Err(ApiError::NoSuchPath);
    }
    if path.subresource.is_empty() && !kind.allows(verb.as_str()) {
        return Err(ApiError::MethodNotAllowed);
    }
    if verb == Verb::Create && kind.terminating && path.subresource.is_empty() {
        return Err(ApiError::MethodNotAllowed);
    }
    Ok(())
}

async fn elsewhere(
    extra: &ExtraGroup,
    identity: Identity,
    mut parts: Parts,
    body: Body,
) -> Response {
    parts.extensions.insert(identity);
    let request = Request::from_parts(parts, body);
    match tower::ServiceExt::oneshot(extra.router.clone(), request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Everything that is no resource: discovery, OpenAPI, health, metrics.
fn other(core: &Arc<Core>, path: &str, identity: &Identity, parts: &Parts) -> Result<Response> {
    let attributes = Attributes {
        verb: parts.method.as_str().to_ascii_lowercase(),
        path: path.to_owned(),
        ..Attributes::default()
    };
    authorize(core, identity, &attributes)?;
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return Err(ApiError::MethodNotAllowed);
    }
    if path.starts_with("/api") {
        return discovery::answer(core, path, &parts.headers);
    }
    health::answer(core, path, parts)
}

/// Ends the body when its caller's rights do. They are looked at before every frame, so that nothing which was written
/// after they were taken away is sent.
fn leased(response: Response, lease: Option<Lease>) -> Response {
    let Some(lease) = lease else {
        return response;
    };
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(lease.ended())))
}

/// Keeps the permit until the body has been sent or dropped.
fn holding(response: Response, permit: Option<Permit>) -> Response {
    let Some(permit) = permit else {
        return response;
    };
    response.map(|body| {
        Body::new(http_body_util::BodyExt::map_frame(body, move |frame| {
            let _held = &permit;
            frame
        }))
    })
}

fn note(core: &Core, record: &Record, uri: &str, code: u16, began: Instant) {
    let resource = record.resource.as_deref().unwrap_or_default();
    let verb = record.verb.map_or("other", Verb::as_str);
    let took = began.elapsed();
    core.metrics.record(verb, resource, code, took);
    let reads = matches!(
        record.verb,
        None | Some(Verb::Get | Verb::List | Verb::Watch)
    );
    if let (Some(audit), false) = (&core.audit, reads) {
        audit.record(json!({
            "time": (core.options.clock)().to_string(),
            "user": record.user.as_ref().map(|user| user.user.to_string()),
            "groups": record.user.as_ref().map(|user| user.groups.to_vec()),
            "verb": verb,
            "path": uri,
            "code": code,
        }));
    }
}
