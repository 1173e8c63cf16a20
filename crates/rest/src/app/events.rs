//! What happened to a job.

use astrago_api::TrainJob;
use astrago_mirror::{Mirrors, event_entry, possible_owners};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;

use crate::context::Context;
use crate::legacy::Kind;
use crate::model::JobEvent;
use crate::world::Key;

/// How many of a job's events are kept, the newest.
const MOST: usize = 500;

/// Everything that happened to a job, the oldest first. A cluster forgets its events after an hour or so; the job's
/// record does not.
pub(crate) fn so_far(context: &Context, key: &Key, job: &TrainJob) -> Vec<JobEvent> {
    let live = of_job(&context.world.mirrors, key, job);
    let recorded = context.history.find(&key.namespace, &key.name);
    let recorded = recorded.ok().flatten();
    let recorded = recorded.filter(|record| Some(&record.detail.summary.uid) == job.uid().as_ref());
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
fn of_job(mirrors: &Mirrors, key: &Key, job: &TrainJob) -> Vec<JobEvent> {
    let events = mirrors.events.find(&event_entry(key));
    let own = events
        .iter()
        .filter(|event| belongs(event, key, job, mirrors));
    // Another job may have had the name before.
    let created = job.creation_timestamp().map(|time| time.0);
    let mut events: Vec<JobEvent> = own
        .map(|event| view(event))
        .filter(|event| created.is_none_or(|created| event.time >= created))
        .collect();
    events.sort_by_key(|event| event.time);
    events
}

fn belongs(event: &Event, key: &Key, job: &TrainJob, mirrors: &Mirrors) -> bool {
    let object = &event.involved_object;
    let kind = object.kind.as_deref().unwrap_or_default();
    let name = object.name.as_deref().unwrap_or_default();
    if kind == "TrainJob" || Kind::of(kind).is_some() {
        return name == key.name && (object.uid.is_none() || object.uid == job.uid());
    }
    if kind == "JobSet" {
        return name == key.name;
    }
    // Jobs and pods are called `{job}-{role}-…`; a longer job name may begin the same way.
    let mut longer = possible_owners(name).take_while(|owner| owner.len() > key.name.len());
    let is_job = |owner: &str| {
        let owner = Key::new(key.namespace.as_str(), owner);
        mirrors.train_jobs.get(&owner).is_some()
    };
    name != key.name && !longer.any(is_job)
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

    #[test]
    fn a_job_has_its_own_events_and_those_of_its_pods() {
        let job: TrainJob = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "a", "namespace": "team", "uid": "new", "resourceVersion": "9",
                          "creationTimestamp": "1970-01-01T00:01:40Z" },
            "spec": { "runtimeRef": { "name": "r" } } }))
        .unwrap();
        let mirrors = Mirrors::default();
        let mut other = job.clone();
        other.metadata.name = Some("a-b".to_owned());
        mirrors.train_jobs.observe(job.clone());
        mirrors.train_jobs.observe(other);
        let told = [
            ("TrainJob", "a", "new", 100, true),
            ("TrainJob", "a", "old", 100, false),
            ("JobSet", "a", "set", 101, true),
            ("JobSet", "a", "set", 99, false),
            ("Pod", "a-node-0-0-xyz", "pod", 101, true),
            ("Pod", "a-node-0-0-xyz", "pod", 99, false),
            ("Pod", "a-b-node-0-0-xyz", "pod", 101, false),
            ("Pod", "a-dataset-initializer-0-0-xyz", "pod", 102, true),
            ("Pod", "ab-node-0-0-xyz", "pod", 101, false),
        ];
        for (index, (kind, name, uid, second, _)) in told.iter().enumerate() {
            let time = Timestamp::from_second(*second).unwrap().to_string();
            let event = serde_json::json!({
                "metadata": { "name": format!("e{index}"), "namespace": "team", "resourceVersion": (index + 1).to_string() },
                "involvedObject": { "kind": kind, "name": name, "uid": uid, "namespace": "team" },
                "message": index.to_string(), "lastTimestamp": time });
            mirrors
                .events
                .observe(serde_json::from_value(event).unwrap());
        }
        let events = of_job(&mirrors, &Key::of(&job), &job);
        let mut got: Vec<usize> = events
            .iter()
            .map(|event| event.message.parse().unwrap())
            .collect();
        got.sort_unstable();
        let want: Vec<usize> = (0..told.len()).filter(|index| told[*index].4).collect();
        assert_eq!(got, want);
    }
}
