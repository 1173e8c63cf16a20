//! What happened to a job.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

use crate::context::Context;
use crate::legacy::Kind;
use crate::model::JobEvent;
use crate::world::{Key, Tables};

/// So many of a job's events are kept; the newest.
const MOST: usize = 500;

/// Everything that happened to a job, the oldest first. A cluster forgets its events after an hour or so; the job's
/// record does not.
pub(crate) fn so_far(context: &Context, key: &Key, uid: &str) -> Vec<JobEvent> {
    let live = of_job(&context.world.read(), key);
    let recorded = context.history.find(&key.namespace, &key.name);
    let recorded = recorded.ok().flatten();
    let recorded = recorded.filter(|record| record.detail.summary.uid == uid);
    merged(
        recorded.map(|record| record.events).unwrap_or_default(),
        live,
    )
}

/// What was known and what is there now. The same event, told again later, is the same one.
fn merged(known: Vec<JobEvent>, live: Vec<JobEvent>) -> Vec<JobEvent> {
    let is_same = |one: &JobEvent, other: &JobEvent| {
        (&one.object, &one.reason, &one.message) == (&other.object, &other.reason, &other.message)
    };
    let mut events: Vec<JobEvent> = known
        .into_iter()
        .filter(|one| !live.iter().any(|other| is_same(one, other)))
        .collect();
    events.extend(live);
    events.sort_by_key(|event| event.time);
    events.drain(..events.len().saturating_sub(MOST));
    events
}

/// The events of a job and of what belongs to it that the cluster still knows, the oldest first.
fn of_job(tables: &Tables, job: &Key) -> Vec<JobEvent> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cluster_forgets_stays_and_what_it_repeats_is_told_once() {
        let event = |second, message: &str, count| JobEvent {
            time: Timestamp::from_second(second).unwrap(),
            kind: "Normal".to_owned(),
            reason: "R".to_owned(),
            message: message.to_owned(),
            object: "Pod/p".to_owned(),
            count,
        };
        let known = vec![event(1, "forgotten", 1), event(2, "repeated", 1)];
        let live = vec![event(9, "repeated", 4), event(10, "new", 1)];
        let told = merged(known, live);
        let told: Vec<_> = told
            .iter()
            .map(|event| (event.message.as_str(), event.count))
            .collect();
        assert_eq!(told, [("forgotten", 1), ("repeated", 4), ("new", 1)]);
        let many = (0..700)
            .map(|index| event(index, &index.to_string(), 1))
            .collect();
        let told = merged(many, Vec::new());
        assert_eq!((told.len(), told[0].message.as_str()), (MOST, "200"));
    }
}
