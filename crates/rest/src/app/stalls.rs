//! Jobs that run and make no progress: found, explained, told.
//!
//! The recorder knows when each job last said anything. Only a job that has been silent for longer than its own rhythm
//! explains is looked at: the stacks of all its ranks are taken twice, and [`stall::judge`] compares them. What it
//! finds stands in the job until the job says something again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt, stream};
use jiff::{SignedDuration, Span};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};

use super::stacks;
use crate::context::Context;
use crate::logbook::pulse::Silence;
use crate::model::{Cause, JobState, Stall, StallPlace, StallReason};
use crate::names;
use crate::stall::{self, Verdict};
use crate::view::Job;
use crate::world::Key;

const LOOK: Duration = Duration::from_secs(2);
/// How far the two looks at a job's stacks are apart.
const APART: Duration = Duration::from_secs(3);
/// No limit that somebody asks for is shorter.
const LEAST: Duration = Duration::from_secs(1);
/// How many jobs are looked at at once.
const AT_ONCE: usize = 2;
/// What is told of one job.
const PLACES: usize = 16;
const RANKS: usize = 64;

/// What was found, by the uid of the job.
#[derive(Default)]
pub(crate) struct Stalls(Mutex<HashMap<String, Known>>);

struct Known {
    /// The last sign of the job; a later one ends all of this.
    heard: Instant,
    /// How many of its limits the silence had when it was last looked at.
    limits: u32,
    stall: Option<Stall>,
}

impl Stalls {
    pub(crate) fn of(&self, uid: &str) -> Option<Stall> {
        self.lock().get(uid)?.stall.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what a later sign has ended; tells which jobs are no longer stalled.
    fn clear(&self, silences: &[Silence]) -> Vec<String> {
        let heard: HashMap<&str, Instant> = silences
            .iter()
            .map(|silence| (silence.uid.as_str(), silence.heard))
            .collect();
        let mut over = Vec::new();
        self.lock().retain(|uid, known| {
            let same = heard.get(uid.as_str()) == Some(&known.heard);
            if !same && known.stall.is_some() {
                over.push(uid.clone());
            }
            same
        });
        over
    }

    /// Whether a silence of so many limits has been looked at. The longer it is, the rarer: each look reads the memory
    /// of all ranks, and the limit is the user's to choose.
    fn has_seen(&self, uid: &str, limits: u32) -> bool {
        self.lock()
            .get(uid)
            .is_some_and(|known| limits < known.limits.saturating_mul(2))
    }

    /// Keeps what was found; whether that is news.
    fn keep(&self, silence: &Silence, limits: u32, stall: Option<Stall>) -> bool {
        let found = Known {
            heard: silence.heard,
            limits,
            stall,
        };
        let mut all = self.lock();
        let place = |stall: &Stall| (stall.reason, stall.suspects.clone());
        let before = all.get(&silence.uid).and_then(|known| known.stall.as_ref());
        let news = before.map(place) != found.stall.as_ref().map(place);
        all.insert(silence.uid.clone(), found);
        news
    }
}

pub(crate) async fn run(context: Arc<Context>) {
    let mut turn = tokio::time::interval(LOOK);
    turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = context.stop.cancelled() => return,
            _ = turn.tick() => {}
        }
        let silences = context.logbook.silences();
        for uid in context.stalls.clear(&silences) {
            if let Some(silence) = silences.iter().find(|silence| silence.uid == uid) {
                context.world.tell(silence.key.clone());
            }
        }
        let looks = silences.into_iter().map(|silence| {
            let context = Arc::clone(&context);
            async move { examine(&context, &silence).await }.boxed()
        });
        let examined = stream::iter(looks).buffer_unordered(AT_ONCE);
        let examined = examined.for_each(|()| async {});
        tokio::select! {
            () = context.stop.cancelled() => return,
            () = examined => {}
        }
    }
}

async fn examine(context: &Context, silence: &Silence) {
    let silent = silence.heard.elapsed();
    // Most jobs say something all the time; nothing is looked up for them.
    if silent < LOOK / 2 {
        return;
    }
    let Some(job) = Job::find(&context.world.mirrors, &silence.key) else {
        return;
    };
    let annotations = job.job.annotations();
    if annotations
        .get(names::ON_STALL)
        .is_some_and(|it| it == "ignore")
    {
        return;
    }
    let shortest = annotations
        .get(names::STALL_AFTER)
        .and_then(|text| duration(text));
    let limit = silence.rhythm.limit(shortest);
    let limits = silent.as_millis() / limit.as_millis().max(1);
    let limits = u32::try_from(limits).unwrap_or(u32::MAX);
    let due = limits > 0 && !context.stalls.has_seen(&silence.uid, limits);
    let same = job.job.uid().as_deref() == Some(silence.uid.as_str());
    if !due || !same || job.state() != JobState::Running {
        return;
    }
    let before = stacks::read(context, &job, None).await;
    let begun = Instant::now();
    tokio::time::sleep(APART).await;
    let after = stacks::read(context, &job, None).await;
    if context.logbook.heard(&silence.uid) != Some(silence.heard) {
        // It has said something meanwhile: what was seen is over.
        return;
    }
    let verdict = stall::judge(&before, &after, begun.elapsed(), limits, silence.rhythm);
    let since =
        context.now() - SignedDuration::try_from(silence.heard.elapsed()).unwrap_or_default();
    let stall = match verdict {
        Verdict::Working => None,
        Verdict::Stalled {
            reason,
            suspects,
            others,
        } => Some(Stall {
            since,
            reason,
            suspects: bounded(suspects),
            others: bounded(others),
        }),
    };
    if !context.stalls.keep(silence, limits, stall.clone()) {
        return;
    }
    context.world.tell(silence.key.clone());
    if let Some(stall) = stall {
        announce(context, &job, &stall).await;
    }
}

fn bounded(mut places: Vec<StallPlace>) -> Vec<StallPlace> {
    places.truncate(PLACES);
    for place in &mut places {
        place.ranks.truncate(RANKS);
    }
    places
}

/// What an annotation says, such as `90s`, `10m` or `1h 30m`.
fn duration(text: &str) -> Option<Duration> {
    let span: Span = text.parse().ok()?;
    let exact = span
        .to_duration(jiff::SpanRelativeTo::days_are_24_hours())
        .ok()?;
    let duration = Duration::try_from(exact).ok()?;
    (!duration.is_zero()).then(|| duration.max(LEAST))
}

/// Tells those who look with kubectl.
async fn announce(context: &Context, job: &Job, stall: &Stall) {
    let key = Key::of(&*job.job);
    let api_version = match &job.legacy {
        None => astrago_api::TrainJob::api_version(&()).into_owned(),
        Some(_) => "kubeflow.org/v1".to_owned(),
    };
    let now = Time(context.now());
    let event = Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{}", key.name, crate::random_text(16))),
            namespace: Some(key.namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(api_version),
            kind: Some(job.kind().to_owned()),
            namespace: Some(key.namespace.clone()),
            name: Some(key.name.clone()),
            uid: job.job.uid(),
            ..ObjectReference::default()
        },
        type_: Some("Warning".to_owned()),
        reason: Some("TrainingStalled".to_owned()),
        message: Some(sentence(stall)),
        source: Some(EventSource {
            component: Some("astrago".to_owned()),
            host: None,
        }),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Event::default()
    };
    let events: Api<Event> = Api::namespaced(context.client.clone(), &key.namespace);
    if let Err(error) = events.create(&PostParams::default(), &event).await {
        let error = crate::error::chain(&error);
        tracing::warn!(
            namespace = key.namespace,
            job = key.name,
            error,
            "failed to tell of a stall"
        );
    }
}

/// The finding for programs.
pub(crate) fn cause(stall: &Stall) -> Cause {
    let code = match stall.reason {
        StallReason::Stopped => "stalled_stopped",
        StallReason::Ended => "stalled_ended",
        StallReason::Elsewhere => "stalled_elsewhere",
        StallReason::OtherCollective => "stalled_other_collective",
        StallReason::Unknown => "stalled",
    };
    let cause = Cause::new(code).with("since", stall.since.to_string());
    let Some(place) = stall.suspects.first() else {
        return cause;
    };
    let frame = place.at.clone().unwrap_or_default();
    let line = frame.line.map(|line| format!(":{line}"));
    cause
        .with("ranks", listed(&place.ranks))
        .with("at", format!("{}{}", frame.file, line.unwrap_or_default()))
        .with("function", frame.function)
}

/// The finding in words, for those who read no data.
pub(crate) fn sentence(stall: &Stall) -> String {
    let since = stall.since.round(jiff::Unit::Second).unwrap_or(stall.since);
    let suspect = stall.suspects.first();
    let why = match (stall.reason, suspect) {
        (StallReason::Unknown, _) | (_, None) => {
            "it cannot be told which rank is the reason".to_owned()
        }
        (StallReason::Stopped, Some(place)) => format!("{} is held by a signal", who(place)),
        (StallReason::Ended, Some(place)) => format!("{} has ended", who(place)),
        (StallReason::Elsewhere, Some(place)) => format!("{} is{}", who(place), at(place)),
        (StallReason::OtherCollective, Some(place)) => {
            format!("{} waits{}", who(place), at(place))
        }
    };
    let others = stall.others.first().filter(|_| suspect.is_some());
    let others = others.map(|others| {
        let verb = if others.ranks.len() == 1 {
            "waits"
        } else {
            "wait"
        };
        format!(", {} {verb}{}", who(others), at(others))
    });
    format!(
        "no progress since {since}: {why}{}",
        others.unwrap_or_default()
    )
}

fn who(place: &StallPlace) -> String {
    let noun = if place.ranks.len() == 1 {
        "rank"
    } else {
        "ranks"
    };
    format!("{noun} {}", listed(&place.ranks))
}

fn listed(ranks: &[u32]) -> String {
    let mut listed: Vec<String> = ranks.iter().take(4).map(u32::to_string).collect();
    if ranks.len() > listed.len() {
        listed.push("…".to_owned());
    }
    listed.join(", ")
}

fn at(place: &StallPlace) -> String {
    let Some(frame) = &place.at else {
        return " elsewhere".to_owned();
    };
    let line = frame.line.map(|line| format!(":{line}"));
    format!(
        " at {}{} in {}",
        frame.file,
        line.unwrap_or_default(),
        frame.function
    )
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::model::StackFrame;

    #[test]
    fn a_finding_reads_as_a_sentence() {
        let place = |ranks: &[u32], line| StallPlace {
            ranks: ranks.to_vec(),
            worker: 0,
            at: Some(StackFrame {
                file: "train.py".to_owned(),
                line: Some(line),
                function: "main".to_owned(),
            }),
        };
        let stall = |reason| Stall {
            since: Timestamp::UNIX_EPOCH,
            reason,
            suspects: vec![place(&[1], 7)],
            others: vec![place(&[0, 2, 3, 4, 5], 9)],
        };
        assert_eq!(
            sentence(&stall(StallReason::Elsewhere)),
            "no progress since 1970-01-01T00:00:00Z: rank 1 is at train.py:7 in main, \
             ranks 0, 2, 3, 4, … wait at train.py:9 in main"
        );
        assert!(sentence(&stall(StallReason::Stopped)).contains("rank 1 is held by a signal"));
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        let seconds = |text| duration(text).map(|it| it.as_secs());
        let cases = [
            ("90s", Some(90)),
            ("10m", Some(600)),
            ("1h 30m", Some(5400)),
            ("soon", None),
            ("-5s", None),
            ("0s", None),
            ("1ms", Some(1)),
        ];
        for (text, want) in cases {
            assert_eq!(seconds(text), want, "{text}");
        }
    }
}
