//! Telling users what happens to their pods.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource, ResourceExt};

/// The same thing is not said again within this time.
const QUIET: Duration = Duration::from_mins(1);

/// Writes events about pods.
pub(super) struct Events {
    recorder: Recorder,
    said: Mutex<Said>,
}

/// What was said of late, and when.
#[derive(Default)]
struct Said {
    when: BTreeMap<(String, String), Instant>,
    /// What is old is thrown away when there is so much.
    limit: usize,
}

impl Said {
    /// Takes note; whether it is news.
    fn note(&mut self, key: (String, String), now: Instant) -> bool {
        if self.when.len() >= self.limit {
            self.when.retain(|_, at| now.duration_since(*at) < QUIET);
            self.limit = 64.max(2 * self.when.len());
        }
        let before = self.when.insert(key, now);
        before.is_none_or(|at| now.duration_since(at) >= QUIET)
    }
}

impl Events {
    pub(super) fn new(client: Client, node_name: &str) -> Self {
        let reporter = Reporter {
            controller: "astrago-node".to_owned(),
            instance: Some(node_name.to_owned()),
        };
        Self {
            recorder: Recorder::new(client, reporter),
            said: Mutex::default(),
        }
    }

    /// Something went wrong.
    pub(super) async fn warn(&self, pod: &Pod, reason: &str, note: &str) {
        self.publish(pod, EventType::Warning, reason, note).await;
    }

    /// Something happened as it should.
    pub(super) async fn note(&self, pod: &Pod, reason: &str, note: &str) {
        self.publish(pod, EventType::Normal, reason, note).await;
    }

    async fn publish(&self, pod: &Pod, type_: EventType, reason: &str, note: &str) {
        let key = (pod.uid().unwrap_or_default(), format!("{reason} {note}"));
        let now = Instant::now();
        {
            let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
            if !said.note(key, now) {
                return;
            }
        }
        let mut note = note.to_owned();
        while note.len() > 1024 {
            note.pop();
        }
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note),
            action: "Running".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &pod.object_ref(&())).await {
            tracing::debug!(%error, reason, "an event could not be written");
        }
    }
}
