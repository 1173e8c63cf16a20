//! One authenticated, authorised request for a resource: what every verb gets.

use std::sync::Arc;

use astrago_patch::apply::Manager;
use astrago_patch::bounds;
use http::{HeaderMap, Method};
use serde_json::Value;
use tokio::sync::MutexGuard;

use super::commit::{Decision, Key};
use crate::admission;
use crate::admission::quota::Reservation;
use crate::admission::room::Place;
use crate::auth::lease::Lease;
use crate::auth::{Identity, MASTERS, authenticate};
use crate::http::negotiate::Output;
use crate::http::parameters::Parameters;
use crate::http::path::{ResourcePath, Verb};
use crate::kinds::conversion;
use crate::kinds::registry::Kind;
use crate::server::Core;
use crate::status::{ApiError, Result};
use crate::store::{Name, Object};

/// What is set aside for an object until it is written.
pub(crate) type Held = Option<(Option<Reservation>, Option<Place>)>;

pub(crate) struct Call {
    pub(crate) core: Arc<Core>,
    pub(crate) kind: Arc<Kind>,
    pub(crate) path: ResourcePath,
    pub(crate) verb: Verb,
    pub(crate) identity: Identity,
    pub(crate) parameters: Parameters,
    pub(crate) output: Output,
    pub(crate) headers: HeaderMap,
    pub(crate) manager_name: String,
    pub(crate) method: Method,
    /// The query as it came, for proxies.
    pub(crate) query: String,
    /// What ends a stream that outlives its caller's rights.
    pub(crate) lease: Option<Lease>,
}

impl Call {
    /// The key of the object that the path names.
    pub(crate) fn name(&self) -> Name {
        Name::new(self.namespace(), &self.path.name)
    }

    /// The namespace for storage: empty for cluster-scoped kinds, even where the path has one.
    pub(crate) fn namespace(&self) -> &str {
        if self.kind.namespaced {
            &self.path.namespace
        } else {
            ""
        }
    }

    /// The object that the path names.
    pub(crate) fn current(&self) -> Result<Arc<Object>> {
        let object = self.core.store.get(&self.kind.resource, &self.name());
        object.ok_or_else(|| self.not_found())
    }

    /// An object's tree in the version of this request.
    pub(crate) fn view(&self, object: &Object) -> Value {
        conversion::view(&self.kind, object)
    }

    pub(crate) fn conflict(&self, message: String) -> ApiError {
        let subject = self.kind.subject(&self.path.name);
        ApiError::Conflict { subject, message }
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::NotFound(self.kind.subject(&self.path.name))
    }

    /// The author of this request's changes, for managed fields.
    pub(crate) fn manager<'a>(&'a self, now: &'a str) -> Manager<'a> {
        Manager {
            name: &self.manager_name,
            api_version: &self.kind.api_version,
            subresource: &self.path.subresource,
            now,
        }
    }

    /// The object under this name.
    pub(crate) fn key<'a>(&'a self, name: &'a Name) -> Key<'a> {
        Key {
            resource: &self.kind.resource,
            name,
            kind: Some(&self.kind),
        }
    }

    /// Waits until nobody else decides about an object of this kind, where that matters. `new` is what is to be created.
    pub(crate) async fn turn(&self, new: Option<&Value>) -> Option<MutexGuard<'_, ()>> {
        let takes_turns = self.kind.strategy.takes_turns?;
        match new {
            Some(new) if !takes_turns(new) => None,
            _ => Some(self.core.turns.lock().await),
        }
    }

    /// The last step before an admitted object is written: it must fit, and what it takes is held until then.
    pub(crate) fn settle(
        &self,
        name: &Name,
        new: Value,
        old: Option<(&Object, &Value)>,
    ) -> Result<(Decision, Held)> {
        admission::check_bounds(&new)?;
        let held = (
            self.reserve(name, &new, old.map(|(_, value)| value))?,
            self.make_room(name, &new, old.map(|(object, _)| object))?,
        );
        let stored = conversion::to_storage(&self.kind, new);
        Ok((self.key(name).decision(Some(&stored)), Some(held)))
    }

    /// Reserves what an object takes of the namespace's quotas, beyond what it took before.
    fn reserve(
        &self,
        name: &Name,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<Option<Reservation>> {
        let reserved = self
            .core
            .quotas
            .reserve(&self.kind.resource, name, new, old);
        reserved.map_err(|exceeded| ApiError::Forbidden {
            subject: self.kind.subject(&name.name),
            reason: exceeded.to_string(),
        })
    }

    /// Makes room for an object in its namespace. Those who keep the system going may let one grow that is there.
    fn make_room(&self, name: &Name, new: &Value, old: Option<&Object>) -> Result<Option<Place>> {
        let before = old.map_or(0, |old| old.json.len());
        let grows = bounds::weight(new).saturating_sub(before);
        if old.is_some() && (grows == 0 || self.identity.is_in(MASTERS)) {
            return Ok(None);
        }
        let core = &self.core;
        let taken = core.rooms.take(
            &core.store,
            core.options.room,
            &name.namespace,
            old.is_none(),
            grows,
        );
        taken.map_err(|reason| ApiError::Forbidden {
            subject: self.kind.subject(&name.name),
            reason,
        })
    }

    /// Whoever applies what does not exist creates it, and must be allowed to.
    pub(crate) fn authorize_create(&self) -> Result<()> {
        let attributes = authenticate::attributes(&self.path, Verb::Create, None);
        if self
            .core
            .policy
            .get(&self.core.store)
            .allows(&self.identity, &attributes)
        {
            return Ok(());
        }
        Err(attributes.forbidden(&self.identity))
    }
}

/// Who managed fields name as the author: the parameter, else the client's program.
pub(crate) fn manager_name(parameters: &Parameters, headers: &HeaderMap) -> String {
    if !parameters.field_manager.is_empty() {
        return parameters.field_manager.clone();
    }
    let agent = headers
        .get(http::header::USER_AGENT)
        .and_then(|value| value.to_str().ok());
    let program = agent
        .unwrap_or_default()
        .split('/')
        .next()
        .unwrap_or_default();
    if program.is_empty() {
        "unknown".to_owned()
    } else {
        program.chars().take(128).collect()
    }
}
