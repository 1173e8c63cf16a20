//! The one way in which objects change: read, decide, and write on condition that nothing has moved meanwhile. When
//! something has, the decision is made again on the newer state; a caller who named a `resourceVersion` then fails their
//! precondition, anyone else never notices.

use std::sync::Arc;

use serde_json::Value;

use crate::kinds::metadata;
use crate::kinds::registry::Kind;
use crate::server::Core;
use crate::status::{ApiError, Result, Subject};
use crate::store::{Action, Draft, Name, Object, Store, Write, WriteError};

/// Far more than any real contention needs; a bound nevertheless.
const ATTEMPTS: usize = 64;

/// The object that a change is about.
#[derive(Clone, Copy)]
pub(crate) struct Key<'a> {
    pub(crate) resource: &'a Arc<str>,
    pub(crate) name: &'a Name,
    /// Absent when its definition is gone.
    pub(crate) kind: Option<&'a Kind>,
}

/// What becomes of an object.
pub(crate) enum Decision {
    /// It stays as it is.
    Keep,
    /// It is to be like this.
    Write(Draft),
    /// This is its last state.
    Remove(Draft),
}

/// Commits what `decide` makes of the current object, and answers the object as it then is. What `decide` returns
/// besides is held until it is written.
pub(crate) async fn commit<T>(
    store: &Store,
    key: Key<'_>,
    dry_run: bool,
    mut decide: impl FnMut(Option<&Object>) -> Result<(Decision, T)>,
) -> Result<(Option<Arc<Object>>, T)> {
    for _ in 0..ATTEMPTS {
        let current = store.get(key.resource, key.name);
        let (decision, held) = decide(current.as_deref())?;
        let action = match (decision, &current) {
            (Decision::Keep, _) | (Decision::Remove(_), None) => return Ok((current, held)),
            (Decision::Write(draft) | Decision::Remove(draft), _) if dry_run => {
                let name = key.name.clone();
                let object = match current {
                    Some(current) => draft.finish(name, current.revision),
                    None => draft.finish(name, 0).without_revision(),
                };
                return Ok((Some(object.into()), held));
            }
            (Decision::Write(draft), None) => Action::Create(draft),
            (Decision::Write(draft), Some(current)) => Action::Replace(current.revision, draft),
            (Decision::Remove(draft), Some(current)) => Action::Delete(current.revision, draft),
        };
        let write = Write {
            resource: Arc::clone(key.resource),
            name: key.name.clone(),
            action,
        };
        match store.write(write).await {
            Ok(object) => return Ok((Some(object), held)),
            // Somebody was quicker.
            Err(WriteError::Conflict | WriteError::NotFound | WriteError::AlreadyExists) => {}
            Err(error) => {
                let namespace = &key.name.namespace;
                return Err(ApiError::from_write(error, key.subject(), namespace));
            }
        }
    }
    Err(ApiError::modified(key.subject()))
}

/// Makes a change of the server's own. An object that is gone, or that `change` leaves as it is, is left alone.
pub(crate) async fn edit(
    core: &Core,
    resource: &Arc<str>,
    name: &Name,
    change: impl Fn(&mut Value),
) -> Result<Option<Arc<Object>>> {
    let table = core.registry.table();
    let kind = table.by_resource(resource).map(|kind| &**kind);
    let key = Key {
        resource,
        name,
        kind,
    };
    let decide = |current: Option<&Object>| {
        let Some(old) = current.map(Object::value) else {
            return Ok((Decision::Keep, ()));
        };
        let mut new = old.clone();
        change(&mut new);
        let is_changed = new != old;
        Ok((key.decision(is_changed.then_some(&new)), ()))
    };
    Ok(commit(&core.store, key, false, decide).await?.0)
}

impl Key<'_> {
    /// Writes the object, if there is one to write; removes it if it is deleted and nothing keeps it any more.
    pub(crate) fn decision(self, object: Option<&Value>) -> Decision {
        let Some(object) = object else {
            return Decision::Keep;
        };
        let draft = Draft::new(self.resource, object);
        let is_in_use = || {
            self.kind
                .is_some_and(|kind| (kind.strategy.is_in_use)(object))
        };
        let grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
        if metadata::is_terminating(object)
            && metadata::finalizers(object).is_empty()
            && grace.unwrap_or(0) <= 0
            && !is_in_use()
        {
            Decision::Remove(draft)
        } else {
            Decision::Write(draft)
        }
    }

    fn subject(self) -> Subject {
        if let Some(kind) = self.kind {
            return kind.subject(&self.name.name);
        }
        let (plural, group) = self.resource.split_once('.').unwrap_or((self.resource, ""));
        Subject {
            group: group.to_owned(),
            resource: plural.to_owned(),
            name: self.name.name.to_string(),
        }
    }
}
