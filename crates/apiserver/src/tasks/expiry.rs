//! Events go an hour after they were last written, as with kube-apiserver's `--event-ttl`, and the oldest of a namespace
//! go when it has too many. What lasts longer is the business of whoever follows them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::server::Core;
use crate::store::{Action, Draft, Name, Query, Write, WriteError};

const EVENTS: &str = "events";
const LIFETIME_SECONDS: i64 = 60 * 60;
const MOST_PER_NAMESPACE: usize = 10_000;
const INTERVAL: Duration = Duration::from_secs(30);
/// Deleted together, so that they share the wait for the disk.
const TOGETHER: usize = 256;

pub(crate) fn is_event(resource: &str) -> bool {
    resource == EVENTS
}

/// Runs until the server stops. The names are those of events that were written or deleted.
pub(crate) async fn run(core: Arc<Core>, mut changed: mpsc::UnboundedReceiver<Name>) {
    let mut ages = Ages::default();
    let now = || (core.options.clock)().as_second();
    let known = core.store.list(EVENTS, &Query::default());
    for object in known.map(|page| page.objects).unwrap_or_default() {
        let written = last_time(&object.value()).unwrap_or_else(now);
        ages.note(&object.name, Some(written));
    }
    let mut turn = tokio::time::interval(INTERVAL);
    turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = core.stopping.cancelled() => return,
            name = changed.recv() => {
                let Some(name) = name else { return };
                let exists = core.store.get(EVENTS, &name).is_some();
                ages.note(&name, exists.then(now));
            }
            _ = turn.tick() => {
                let due = ages.due(now() - LIFETIME_SECONDS, MOST_PER_NAMESPACE);
                for some in due.chunks(TOGETHER) {
                    let deletes = some.iter().map(|name| delete(&core, name));
                    let results = futures::future::join_all(deletes).await;
                    // Those that could not go are still known, and are tried again.
                    if let Some(Err(error)) = results.into_iter().find(Result::is_err) {
                        tracing::warn!(%error, "failed to remove old events");
                        break;
                    }
                }
            }
        }
    }
}

async fn delete(core: &Core, name: &Name) -> Result<(), WriteError> {
    let Some(object) = core.store.get(EVENTS, name) else {
        return Ok(());
    };
    let write = Write {
        resource: EVENTS.into(),
        name: name.clone(),
        action: Action::Delete(object.revision, Draft::new(EVENTS, &object.value())),
    };
    match core.store.write(write).await {
        // Somebody was quicker, or has just written it again.
        Ok(_) | Err(WriteError::NotFound | WriteError::Conflict) => Ok(()),
        Err(error) => Err(error),
    }
}

/// When an event was last written, as far as it says so itself.
fn last_time(event: &Value) -> Option<i64> {
    let times = [
        &event["lastTimestamp"],
        &event["series"]["lastObservedTime"],
        &event["eventTime"],
        &event["metadata"]["creationTimestamp"],
    ];
    let times = times.into_iter().filter_map(|time| {
        let time: Timestamp = time.as_str()?.parse().ok()?;
        Some(time.as_second())
    });
    times.max()
}

/// When each event was last written, in order.
#[derive(Default)]
struct Ages {
    written: HashMap<Name, i64>,
    namespaces: HashMap<Arc<str>, BTreeSet<(i64, Name)>>,
}

impl Ages {
    /// An event was written at this time, or is gone.
    fn note(&mut self, name: &Name, written: Option<i64>) {
        let before = match written {
            Some(written) => self.written.insert(name.clone(), written),
            None => self.written.remove(name),
        };
        let order = self
            .namespaces
            .entry(Arc::clone(&name.namespace))
            .or_default();
        if let Some(before) = before {
            order.remove(&(before, name.clone()));
        }
        if let Some(written) = written {
            order.insert((written, name.clone()));
        } else if order.is_empty() {
            self.namespaces.remove(&name.namespace);
        }
    }

    /// The events that were last written before this time, and the oldest of namespaces with more than `most`.
    fn due(&self, before: i64, most: usize) -> Vec<Name> {
        let orders = self.namespaces.values();
        let due = orders.flat_map(|order| {
            let too_many = order.len().saturating_sub(most);
            let old = order.iter().enumerate();
            old.take_while(move |(index, (written, _))| *written < before || *index < too_many)
        });
        due.map(|(_, (_, name))| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_and_the_oldest_of_too_many_are_due() {
        let mut ages = Ages::default();
        let name = |namespace: &str, index: i64| Name::new(namespace, &index.to_string());
        for index in 0..10 {
            ages.note(&name("busy", index), Some(100 + index));
        }
        ages.note(&name("calm", 1), Some(5));
        ages.note(&name("calm", 2), Some(5));
        ages.note(&name("calm", 2), Some(200));
        ages.note(&name("gone", 1), Some(5));
        ages.note(&name("gone", 1), None);
        let mut due = ages.due(103, 100);
        due.sort();
        let want = [
            name("busy", 0),
            name("busy", 1),
            name("busy", 2),
            name("calm", 1),
        ];
        assert_eq!(due, want);
        assert_eq!(ages.due(0, 8), [name("busy", 0), name("busy", 1)]);
    }

    #[test]
    fn an_event_is_as_old_as_its_newest_time() {
        let event = serde_json::json!({
            "metadata": { "creationTimestamp": "1970-01-01T00:00:01Z" },
            "lastTimestamp": null, "eventTime": "1970-01-01T00:00:02.5Z",
            "series": { "lastObservedTime": "1970-01-01T00:00:09.000001Z" },
        });
        assert_eq!(last_time(&event), Some(9));
        assert_eq!(last_time(&Value::Null), None);
    }
}
