//! Lists: the current state, or a past one made by undoing the ring.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::object::{Name, Object};
use super::shard::{self, Shard};
use super::watch::Expired;
use super::{Store, read};

#[derive(Default)]
pub struct Query<'a> {
    /// Empty for all namespaces.
    pub namespace: &'a str,
    /// Labels that every result must carry; they are looked up in the index.
    pub labels: &'a [(String, String)],
    /// Likewise for indexed fields.
    pub fields: &'a [(String, String)],
    /// Everything else that a result must satisfy.
    pub filter: Option<&'a (dyn Fn(&Object) -> bool + Sync)>,
    /// Go on after this name.
    pub after: Option<Name>,
    /// At most this many; 0 for all.
    pub limit: usize,
    /// The state at exactly this revision instead of the newest.
    pub at: Option<u64>,
}

/// A part of a list, complete when `more` is false.
#[derive(Debug)]
pub struct Page {
    pub objects: Vec<Arc<Object>>,
    /// The revision at which this is the state.
    pub revision: u64,
    pub more: bool,
    /// How many come after this part, where nothing but a limit cuts it.
    pub remaining: Option<usize>,
}

impl Store {
    pub fn list(&self, resource: &str, query: &Query<'_>) -> Result<Page, Expired> {
        // Read before the shard is locked: whatever the shard holds is at least this new.
        let complete = self.shared.revision.load(Ordering::Acquire);
        let Some(shard) = self.shared.shard(resource) else {
            return Ok(Page {
                objects: Vec::new(),
                revision: query.at.unwrap_or(complete),
                more: false,
                remaining: None,
            });
        };
        let shard = read(&shard);
        let revision = query.at.unwrap_or_else(|| complete.max(shard.revision));
        let past = match query.at {
            Some(at) if at < shard.revision => Some(undone(&shard, at)?),
            _ => None,
        };
        let (objects, left) = collect(&shard, query, past.as_ref());
        let is_plain = query.filter.is_none() && query.labels.is_empty() && query.fields.is_empty();
        Ok(Page {
            objects,
            revision,
            more: left > 0,
            remaining: Some(left).filter(|left| is_plain && *left > 0),
        })
    }
}

type Past = BTreeMap<Name, Option<Arc<Object>>>;

/// For each name that changed after `revision`, what it was then.
fn undone(shard: &Shard, revision: u64) -> Result<Past, Expired> {
    let events = shard.events_after(revision).ok_or(Expired {
        oldest: shard.compacted,
    })?;
    Ok(events
        .rev()
        .map(|event| (event.object.name.clone(), event.previous.clone()))
        .collect())
}

/// The objects, and how many there are beyond them; where there is a filter, whether there are.
fn collect(shard: &Shard, query: &Query<'_>, past: Option<&Past>) -> (Vec<Arc<Object>>, usize) {
    let labels = query
        .labels
        .iter()
        .map(|(key, value)| shard::label_term(key, value));
    let fields = query
        .fields
        .iter()
        .map(|(path, value)| shard::field_term(path, value));
    let terms: Vec<_> = labels.chain(fields).collect();
    let current = shard.range(query.namespace, query.after.as_ref(), &terms);
    let room = if query.limit == 0 {
        usize::MAX
    } else {
        query.limit
    };
    let wanted = |object: &Object| query.filter.is_none_or(|filter| filter(object));

    let Some(past) = past else {
        let mut objects = Vec::new();
        let mut found = current.filter(|object| wanted(object));
        while let Some(object) = found.next() {
            if objects.len() == room {
                let rest = if query.filter.is_none() {
                    found.count()
                } else {
                    0
                };
                return (objects, rest + 1);
            }
            objects.push(Arc::clone(object));
        }
        return (objects, 0);
    };
    let carries = |object: &Object| {
        query
            .labels
            .iter()
            .all(|(key, value)| object.label(key) == Some(value))
            && query
                .fields
                .iter()
                .all(|(path, value)| object.field(path) == Some(value))
    };
    let unchanged = current.filter(|object| !past.contains_key(&object.name));
    let mut merged: BTreeMap<&Name, &Arc<Object>> = unchanged
        .filter(|object| wanted(object))
        .map(|object| (&object.name, object))
        .collect();
    merged.extend(past.iter().filter_map(|(name, object)| {
        let object = object.as_ref()?;
        let inside = query.namespace.is_empty() || *name.namespace == *query.namespace;
        let later = query.after.as_ref().is_none_or(|after| name > after);
        (inside && later && carries(object) && wanted(object)).then_some((name, object))
    }));
    let left = merged.len().saturating_sub(room);
    (merged.into_values().take(room).cloned().collect(), left)
}
