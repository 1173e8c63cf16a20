//! `delete` and `deletecollection`: preconditions, grace, finalizers and propagation.

use std::sync::Arc;

use axum::response::Response;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::commit::{Decision, Key, commit};
use super::list::Selection;
use crate::http::parameters;
use crate::http::respond;
use crate::kinds::metadata;
use crate::kinds::registry::Kind;
use crate::server::Core;
use crate::status::{ApiError, Result, deleted};
use crate::store::{Name, Object};
use crate::tasks::gc;
use crate::verbs::call::Call;

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
            let given = crate::http::decode::object(&call.headers, body)?;
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
        Ok(options)
    }
}

pub(crate) async fn delete(call: &Call, body: &[u8]) -> Result<Response> {
    let options = Options::parse(call, body)?;
    let outcome = remove(&call.core, &call.kind, &call.name(), &options).await?;
    if outcome.removed && !call.kind.strategy.delete_answers_object {
        let subject = call.kind.subject(&call.path.name);
        let status = deleted(&subject, &outcome.object.meta.uid);
        return Ok(respond::json_value(&status));
    }
    Ok(respond::object(call, &outcome.object, &[]))
}

pub(crate) async fn delete_collection(call: Call, body: &[u8]) -> Result<Response> {
    let options = Options::parse(&call, body)?;
    let selection = Selection::parse(&call)?;
    let page = selection.list(&call, None, None, 0)?;
    let mut gone: Vec<Arc<Object>> = Vec::with_capacity(page.objects.len());
    for object in &page.objects {
        match remove(&call.core, &call.kind, &object.name, &options).await {
            Ok(outcome) => gone.push(outcome.object),
            Err(ApiError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let revision = call.core.store.revision();
    Ok(respond::list(call, gone, revision, None))
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
    let key = Key {
        resource: &kind.resource,
        name,
        kind: Some(kind),
    };
    let subject = || kind.subject(&name.name);
    let not_found = || ApiError::NotFound(subject());
    let decide = |current: Option<&Object>| {
        let old = current.ok_or_else(not_found)?.value();
        check(&old, options).map_err(|message| ApiError::Conflict {
            subject: subject(),
            message,
        })?;
        let new = marked(core, kind, &old, options);
        Ok(match key.decision(Some(&new)) {
            Decision::Remove(last) => (Decision::Remove(last), true),
            _ if new == old => (Decision::Keep, false),
            decision => (decision, false),
        })
    };
    let (object, removed) = commit(&core.store, key, options.dry_run, decide).await?;
    let object = object.ok_or_else(not_found)?;
    Ok(Outcome { object, removed })
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

/// The object as the delete leaves it.
fn marked(core: &Core, kind: &Kind, old: &Value, options: &Options) -> Value {
    let strategy = kind.strategy;
    let mut new = old.clone();
    let grace = (strategy.grace_period)(old, options.grace_period_seconds);
    let finalizers = finalizers(core, kind, old, options);
    let stays = !finalizers.is_empty() || grace > 0 || (strategy.is_in_use)(old);
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
        if strategy.counts_generations && stays {
            metadata::next_generation(old, &mut new);
        }
    }
    (strategy.terminate)(&mut new);
    new
}

/// Those that the object has, that of the propagation instead of another one's, and that of its kind.
fn finalizers<'a>(core: &Core, kind: &Kind, old: &'a Value, options: &Options) -> Vec<&'a str> {
    let mut finalizers = metadata::finalizers(old);
    let is_chosen = |one: &&str| [gc::FOREGROUND, gc::ORPHAN].contains(one);
    let orphans = kind.strategy.orphans && !finalizers.iter().any(is_chosen);
    let default = orphans.then_some(Propagation::Orphan);
    if let Some(propagation) = options.propagation.or(default) {
        let own = propagation.finalizer();
        finalizers.retain(|one| !is_chosen(one) || own == Some(*one));
        finalizers.extend(own.filter(|own| !finalizers.contains(own)));
    }
    let added = (kind.strategy.finalizer)(&core.store, old);
    finalizers.extend(added.filter(|added| !finalizers.contains(added)));
    finalizers
}
