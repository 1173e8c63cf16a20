//! What happened to a job.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

use crate::legacy::Kind;
use crate::model::JobEvent;
use crate::world::{Key, Tables};

/// The events of a job and of what belongs to it, the oldest first.
pub(crate) fn of_job(tables: &Tables, job: &Key) -> Vec<JobEvent> {
    let mut events: Vec<JobEvent> = tables
        .events
        .in_namespace(&job.namespace)
        .filter(|(_, event)| belongs(event, job, tables))
        .map(|(_, event)| view(event))
        .collect();
    events.sort_by_key(|event| event.time);
    events
}

fn belongs(event: &Event, job: &Key, tables: &Tables) -> bool {
    let object = &event.involved_object;
    let kind = object.kind.as_deref().unwrap_or_default();
    let name = object.name.as_deref().unwrap_or_default();
    if matches!(kind, "TrainJob" | "JobSet") || Kind::of(kind).is_some() {
        return name == job.name;
    }
    // Jobs and pods are called `{job}-{role}-…`; a longer job name may begin the same way.
    let child = |owner: &str| {
        name.strip_prefix(owner)
            .is_some_and(|rest| rest.starts_with('-'))
    };
    child(&job.name)
        && !tables
            .jobs
            .in_namespace(&job.namespace)
            .any(|(other, _)| other.name.len() > job.name.len() && child(&other.name))
}

fn view(event: &Event) -> JobEvent {
    let times = [
        event.last_timestamp.as_ref().map(|time| time.0),
        event.event_time.as_ref().map(|time| time.0),
        event
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0),
    ];
    let object = &event.involved_object;
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let series = event.series.as_ref().and_then(|series| series.count);
    JobEvent {
        time: times
            .into_iter()
            .flatten()
            .next()
            .unwrap_or(Timestamp::UNIX_EPOCH),
        kind: event.type_.clone().unwrap_or_else(|| "Normal".to_owned()),
        reason: part(&event.reason),
        message: part(&event.message),
        object: format!("{}/{}", part(&object.kind), part(&object.name)),
        count: i64::from(series.or(event.count).unwrap_or(1)),
    }
}
