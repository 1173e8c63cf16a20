//! `delete` and `deletecollection`: preconditions, grace, finalizers and propagation.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::list::Selection;
use crate::call::Call;
use crate::core::Core;
use crate::gc;
use crate::metadata;
use crate::parameters;
use crate::registry::{DEFINITIONS, Kind};
use crate::respond;
use crate::status::{ApiError, MODIFIED, Result, deleted};
use crate::store::{Action, Draft, Name, Object, Write, WriteError};

const ATTEMPTS: usize = 64;

/// How to delete.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) dry_run: bool,
}

/// What becomes of the dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They go afterwards, by garbage collection.
    Background,
    /// They go first.
    Foreground,
    /// They stay, without an owner.
    Orphan,
}

impl Propagation {
    fn finalizer(self) -> Option<&'static str> {
        match self {
            Self::Background => None,
            Self::Foreground => Some(gc::FOREGROUND),
            Self::Orphan => Some(gc::ORPHAN),
        }
    }

    fn parse(text: &str) -> Result<Self> {
        match text {
            "Background" => Ok(Self::Background),
            "Foreground" => Ok(Self::Foreground),
            "Orphan" => Ok(Self::Orphan),
            other => Err(ApiError::bad_request(format!(
                "propagationPolicy: Unsupported value: {other:?}: supported values: \
                 \"Background\", \"Foreground\", \"Orphan\""
            ))),
        }
    }
}

impl Options {
    /// From the query, and from the `DeleteOptions` in the body, which win.
    pub(crate) fn parse(call: &Call, body: &[u8]) -> Result<Self> {
        let query = &call.parameters;
        let mut options = Self {
            dry_run: query.dry_run,
            grace_period_seconds: query.grace_period_seconds,
            ..Self::default()
        };
        let mut policy = query.propagation_policy.clone();
        let mut orphan = query.orphan_dependents;
        if !body.is_empty() {
            let given = crate::decode::object(&call.headers, body)?;
            let text = |value: &Value| value.as_str().map(str::to_owned);
            options.uid = text(&given["preconditions"]["uid"]);
            options.resource_version = text(&given["preconditions"]["resourceVersion"]);
            options.grace_period_seconds = given["gracePeriodSeconds"]
                .as_i64()
                .or(options.grace_period_seconds);
            policy = text(&given["propagationPolicy"]).or(policy);
            orphan = given["orphanDependents"].as_bool().or(orphan);
            for value in given["dryRun"].as_array().into_iter().flatten() {
                options.dry_run |= parameters::dry_run(value.as_str().unwrap_or_default())?;
            }
        }
        if policy.is_some() && orphan.is_some() {
            return Err(ApiError::bad_request(
                "orphanDependents and propagationPolicy cannot both be set",
            ));
        }
        options.propagation = match (policy, orphan) {
            (Some(policy), _) => Some(Propagation::parse(&policy)?),
            (None, Some(true)) => Some(Propagation::Orphan),
            (None, Some(false)) => Some(Propagation::Background),
            (None, None) => None,
        };
        if options
            .grace_period_seconds
            .is_some_and(|seconds| seconds < 0)
        {
            return Err(ApiError::bad_request(
                "gracePeriodSeconds: must be greater than or equal to 0",
            ));
        }
        Ok(options)
    }
}

pub(crate) async fn delete(call: &Call, body: &[u8]) -> Result<Response> {
    let options = Options::parse(call, body)?;
    let outcome = remove(&call.core, &call.kind, &call.name(), &options).await?;
    if outcome.removed && !answers_object(&call.kind) {
        let subject = call.kind.subject(&call.path.name);
        let status = deleted(&subject, &outcome.object.meta.uid);
        return Ok(respond::json_value(StatusCode::OK, &status));
    }
    Ok(respond::object(call, &outcome.object, StatusCode::OK, &[]))
}

/// Whether a delete of this kind is answered with the object that is gone; of others with a Status.
fn answers_object(kind: &Kind) -> bool {
    matches!(
        &*kind.resource,
        "persistentvolumeclaims"
            | "persistentvolumes"
            | "pods"
            | "podtemplates"
            | "resourcequotas"
            | "serviceaccounts"
            | "services"
            | "storageclasses.storage.k8s.io"
    )
}

pub(crate) async fn delete_collection(call: &Call, body: &[u8]) -> Result<Response> {
    let options = Options::parse(call, body)?;
    let selection = Selection::parse(call)?;
    let page = selection.list(call, None, None, 0)?;
    let mut gone: Vec<Arc<Object>> = Vec::with_capacity(page.objects.len());
    for object in &page.objects {
        match remove(&call.core, &call.kind, &object.name, &options).await {
            Ok(outcome) => gone.push(outcome.object),
            Err(ApiError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let revision = call.core.store.revision();
    let body = respond::list(call, gone.iter().map(|object| &**object), revision, None);
    Ok(respond::json_bytes(StatusCode::OK, body))
}

/// What a delete did: the object's last state, and whether it is gone or only marked.
pub(crate) struct Outcome {
    pub(crate) object: Arc<Object>,
    pub(crate) removed: bool,
}

/// Deletes one object, or marks it for those who must act first.
pub(crate) async fn remove(
    core: &Core,
    kind: &Kind,
    name: &Name,
    options: &Options,
) -> Result<Outcome> {
    let subject = || kind.subject(&name.name);
    for _ in 0..ATTEMPTS {
        let current = core
            .store
            .get(&kind.resource, name)
            .ok_or_else(|| ApiError::NotFound(subject()))?;
        let old = current.value();
        check(&old, options).map_err(|message| ApiError::Conflict {
            subject: subject(),
            message,
        })?;
        let (new, removed) = marked(core, kind, &old, options);
        if new == old && !removed {
            return Ok(Outcome {
                object: current,
                removed: false,
            });
        }
        let draft = Draft::new(&kind.resource, &new);
        if options.dry_run {
            let object = Arc::new(draft.finish(name.clone(), current.revision));
            return Ok(Outcome { object, removed });
        }
        let action = if removed {
            Action::Delete(current.revision, draft)
        } else {
            Action::Replace(current.revision, draft)
        };
        let write = Write {
            resource: kind.resource.clone(),
            name: name.clone(),
            action,
        };
        match core.store.write(write).await {
            Ok(object) => return Ok(Outcome { object, removed }),
            Err(WriteError::Conflict) => {}
            Err(error) => return Err(ApiError::from_write(error, subject(), &name.namespace)),
        }
    }
    Err(ApiError::Conflict {
        subject: subject(),
        message: MODIFIED.to_owned(),
    })
}

fn check(object: &Value, options: &Options) -> Result<(), String> {
    let conditions = [
        ("UID", "uid", &options.uid),
        (
            "ResourceVersion",
            "resourceVersion",
            &options.resource_version,
        ),
    ];
    for (label, field, wanted) in conditions {
        let found = metadata::text(object, field);
        if let Some(wanted) = wanted
            && !wanted.is_empty()
            && wanted != found
        {
            return Err(format!(
                "Precondition failed: {label} in precondition: {wanted}, {label} in object meta: {found}"
            ));
        }
    }
    Ok(())
}

/// The object as the delete leaves it, and whether that is its end.
fn marked(core: &Core, kind: &Kind, old: &Value, options: &Options) -> (Value, bool) {
    let mut new = old.clone();
    let grace = grace_period(kind, old, options);
    let mut finalizers: Vec<String> = metadata::finalizers(old)
        .into_iter()
        .map(str::to_owned)
        .collect();
    let is_chosen = finalizers
        .iter()
        .any(|one| [gc::FOREGROUND, gc::ORPHAN].contains(&one.as_str()));
    // Kubernetes promised the users of this version that pods outlive a job that is deleted without a word about them.
    let default = (&*kind.resource == "jobs.batch" && !is_chosen).then_some(Propagation::Orphan);
    if let Some(propagation) = options.propagation.or(default) {
        finalizers.retain(|one| {
            ![gc::FOREGROUND, gc::ORPHAN].contains(&one.as_str())
                || propagation.finalizer() == Some(one)
        });
        if let Some(finalizer) = propagation.finalizer()
            && !finalizers.iter().any(|one| one == finalizer)
        {
            finalizers.push(finalizer.to_owned());
        }
    }
    if &*kind.resource == DEFINITIONS
        && core.store.count(metadata::text(old, "name")) > 0
        && !finalizers.iter().any(|one| one == gc::CUSTOM_RESOURCES)
    {
        finalizers.push(gc::CUSTOM_RESOURCES.to_owned());
    }
    let namespace_in_use = &*kind.resource == "namespaces"
        && old["spec"]["finalizers"]
            .as_array()
            .is_some_and(|finalizers| !finalizers.is_empty());
    let stays = !finalizers.is_empty() || grace > 0 || namespace_in_use;
    if finalizers.is_empty() {
        metadata::of(&mut new).remove("finalizers");
    } else {
        new["metadata"]["finalizers"] = json!(finalizers);
    }
    let was = old["metadata"]["deletionGracePeriodSeconds"].as_i64();
    // A later delete may shorten the time that is left, never lengthen it.
    if !metadata::is_terminating(old) || was.is_some_and(|was| grace < was) {
        let at = (core.options.clock)();
        let at = at
            .checked_add(SignedDuration::from_secs(grace))
            .unwrap_or(at);
        new["metadata"]["deletionTimestamp"] = metadata::timestamp(at).into();
        new["metadata"]["deletionGracePeriodSeconds"] = grace.into();
        if kind.counts_generations() && stays {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
            let generation = generation.saturating_add(1);
            new["metadata"]["generation"] = generation.into();
        }
    }
    if &*kind.resource == "namespaces" {
        new["status"]["phase"] = "Terminating".into();
    }
    (new, !stays)
}

/// Only pods that a node may be running have time to end.
fn grace_period(kind: &Kind, pod: &Value, options: &Options) -> i64 {
    let assigned = !pod["spec"]["nodeName"]
        .as_str()
        .unwrap_or_default()
        .is_empty();
    let finished = matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    if &*kind.resource != "pods" || !assigned || finished {
        return 0;
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"]
        .as_i64()
        .unwrap_or(30);
    // As in Kubernetes, less than nothing is a moment.
    let wanted = options.grace_period_seconds.unwrap_or(own);
    let wanted = if wanted < 0 { 1 } else { wanted };
    match pod["metadata"]["deletionGracePeriodSeconds"].as_i64() {
        Some(left) if metadata::is_terminating(pod) => wanted.min(left),
        _ => wanted,
    }
}
