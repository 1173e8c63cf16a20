//! Events for people: what happened to an object, as `kubectl describe` shows it.
//!
//! The same message about the same object is one Event with a count. Its name is derived from what it says, so
//! that folding works across restarts of the controllers and needs no memory. Events are written after the
//! fact by one task, and never hold up or fail a reconcile.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::clock::{SharedClock, stamp};
use crate::fingerprint::fingerprint;

/// The component that events are reported by.
const COMPONENT: &str = "astrago-controllers";

/// Kubernetes refuses longer messages.
const LONGEST_MESSAGE: usize = 1024;

/// How many names are remembered with their count, to spare a read before each repetition.
const REMEMBERED: usize = 4096;

#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// The object that it is about.
    pub regarding: ObjectReference,
    /// `Normal` or `Warning`.
    pub severity: Severity,
    /// PascalCase, for machines.
    pub reason: String,
    /// A sentence, for people.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
pub enum Severity {
    Normal,
    Warning,
}

impl Notice {
    pub fn normal(
        regarding: ObjectReference,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            regarding,
            severity: Severity::Normal,
            reason: reason.into(),
            message: message.into(),
        }
    }

    pub fn warning(
        regarding: ObjectReference,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            regarding,
            severity: Severity::Warning,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// The reference by which an event names its object.
pub fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    let meta = object.meta();
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path: None,
    }
}

/// Hands notices to the task that writes them.
#[derive(Debug, Clone)]
pub struct Recorder {
    notices: mpsc::UnboundedSender<Notice>,
}

impl Recorder {
    /// A recorder and the end that [`write`] reads from.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Notice>) {
        let (notices, receiver) = mpsc::unbounded_channel();
        (Self { notices }, receiver)
    }

    /// Tells it, some time soon.
    pub fn send(&self, notice: Notice) {
        // The receiver is gone only when the controllers are shutting down.
        let _ = self.notices.send(notice);
    }
}

/// Writes notices until cancelled, then those that are still waiting.
pub async fn write(
    client: Client,
    clock: SharedClock,
    mut notices: mpsc::UnboundedReceiver<Notice>,
    stop: CancellationToken,
) {
    let mut writer = Writer {
        client,
        clock,
        counts: HashMap::new(),
    };
    while let Some(Some(notice)) = stop.run_until_cancelled(notices.recv()).await {
        writer.write(&notice).await;
    }
    while let Ok(notice) = notices.try_recv() {
        writer.write(&notice).await;
    }
}

struct Writer {
    client: Client,
    clock: SharedClock,
    counts: HashMap<String, i32>,
}

impl Writer {
    async fn write(&mut self, notice: &Notice) {
        let namespace = notice.regarding.namespace.as_deref().unwrap_or("default");
        let events = Api::<Event>::namespaced(self.client.clone(), namespace);
        let event = event(notice, namespace, self.clock.now());
        let name = event.metadata.name.clone().unwrap_or_default();
        if self.counts.len() > REMEMBERED {
            self.counts.clear();
        }
        let written = match self.counts.get(&name).copied() {
            Some(count) => self.repeat(&events, &name, count).await,
            None => match events.create(&PostParams::default(), &event).await {
                Err(kube::Error::Api(status)) if status.is_already_exists() => {
                    let count = match events.get_opt(&name).await {
                        Ok(known) => known.and_then(|known| known.count).unwrap_or(0),
                        Err(_) => 1,
                    };
                    self.repeat(&events, &name, count).await
                }
                created => created.map(|_| 1),
            },
        };
        match written {
            Ok(count) => {
                self.counts.insert(name, count);
            }
            Err(error) => {
                self.counts.remove(&name);
                // The namespace may be going away, and a lost event is not worth a retry.
                tracing::debug!(event = name, error = %error, "event not written");
            }
        }
    }

    async fn repeat(&self, events: &Api<Event>, name: &str, count: i32) -> kube::Result<i32> {
        let count = count.saturating_add(1);
        let patch = json!({ "count": count, "lastTimestamp": stamp(self.clock.now()) });
        events
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(count)
    }
}

fn event(notice: &Notice, namespace: &str, now: Timestamp) -> Event {
    let message = cut(&notice.message, LONGEST_MESSAGE);
    let severity: &'static str = notice.severity.into();
    let regarding = &notice.regarding;
    let digest = fingerprint(&[
        regarding.kind.as_deref().unwrap_or_default(),
        regarding.uid.as_deref().unwrap_or_default(),
        severity,
        &notice.reason,
        message,
    ]);
    let subject = regarding.name.as_deref().unwrap_or("unknown");
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{digest:016x}", cut(subject, 230))),
            namespace: Some(namespace.to_string()),
            ..ObjectMeta::default()
        },
        involved_object: regarding.clone(),
        reason: Some(notice.reason.clone()),
        message: Some(message.to_string()),
        type_: Some(severity.to_string()),
        first_timestamp: Some(stamp(now)),
        last_timestamp: Some(stamp(now)),
        count: Some(1),
        source: Some(EventSource {
            component: Some(COMPONENT.to_string()),
            host: None,
        }),
        reporting_component: Some(COMPONENT.to_string()),
        reporting_instance: Some(String::new()),
        ..Event::default()
    }
}

/// The longest beginning of `text` of at most `limit` bytes that ends at a character.
fn cut(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(message: &str) -> Notice {
        let regarding = ObjectReference {
            kind: Some("Job".into()),
            name: Some("demo".into()),
            uid: Some("1-2-3".into()),
            ..ObjectReference::default()
        };
        Notice::normal(regarding, "SuccessfulCreate", message)
    }

    fn name(notice: &Notice) -> Option<String> {
        event(notice, "default", Timestamp::UNIX_EPOCH)
            .metadata
            .name
    }

    #[test]
    fn the_same_message_about_the_same_object_has_the_same_name() {
        assert_eq!(name(&notice("a")), name(&notice("a")));
        assert_ne!(name(&notice("a")), name(&notice("b")));
        let mut other = notice("a");
        other.regarding.uid = Some("4-5-6".into());
        assert_ne!(name(&notice("a")), name(&other));
    }

    #[test]
    fn a_message_is_cut_at_a_character() {
        let event = event(&notice(&"학".repeat(400)), "default", Timestamp::UNIX_EPOCH);
        assert_eq!(event.message.map(|message| message.len()), Some(1023));
    }
}
