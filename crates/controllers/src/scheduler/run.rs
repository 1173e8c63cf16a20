//! The task of the scheduler.

use std::sync::Arc;
use std::time::{Duration, Instant};

use astrago_api::ObjectKey;
use astrago_mirror::{Kind, Mirror};
use astrago_plan::queue::{World, decide};
use futures::future;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::act::Actor;
use crate::context::Context;

/// While something waits, it is looked at again this often even if nothing happens.
const RESYNC: SignedDuration = SignedDuration::from_secs(5);

/// After a request failed, the next try comes this much later.
const RETRY: Duration = Duration::from_secs(1);

/// The longest pause between two passes in a burst of changes.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// An object has changed; which one, and where its newest state is to be found.
#[derive(Clone, Debug)]
enum Change {
    Pod(ObjectKey),
    Node(ObjectKey),
    Job(ObjectKey),
    JobSet(ObjectKey),
    TrainJob(ObjectKey),
    Class(ObjectKey),
    Quota(ObjectKey),
    Claim(ObjectKey),
    Namespace(ObjectKey),
}

pub async fn run(context: Arc<Context>, stop: CancellationToken) {
    let (sender, changes) = unbounded_channel();
    let mirrors = &context.mirrors;
    forward(&mirrors.pods, &sender, Change::Pod);
    forward(&mirrors.nodes, &sender, Change::Node);
    forward(&mirrors.jobs, &sender, Change::Job);
    forward(&mirrors.job_sets, &sender, Change::JobSet);
    forward(&mirrors.train_jobs, &sender, Change::TrainJob);
    forward(&mirrors.priority_classes, &sender, Change::Class);
    forward(&mirrors.quotas, &sender, Change::Quota);
    forward(&mirrors.claims, &sender, Change::Claim);
    forward(&mirrors.namespaces, &sender, Change::Namespace);
    stop.run_until_cancelled(work(&context, &sender, changes))
        .await;
}

/// Tells of changes by their key only: whoever reads the key finds the newest state, so that
/// nothing old can overtake something new.
fn forward<K: Kind>(
    mirror: &Mirror<K>,
    sender: &UnboundedSender<Change>,
    wrap: fn(ObjectKey) -> Change,
) {
    let sender = sender.clone();
    mirror.subscribe(move |change| {
        if let Some(object) = change.latest() {
            // The receiver is gone only when the scheduler has ended.
            let _ = sender.send(wrap(ObjectKey::of(&**object)));
        }
    });
}

async fn work(
    context: &Arc<Context>,
    sender: &UnboundedSender<Change>,
    mut changes: UnboundedReceiver<Change>,
) {
    let mirrors = &context.mirrors;
    // Nothing is decided before all is known: an unseen pod would be room given away twice.
    future::join3(
        mirrors.pods.ready(),
        mirrors.nodes.ready(),
        mirrors.jobs.ready(),
    )
    .await;
    future::join(mirrors.job_sets.ready(), mirrors.train_jobs.ready()).await;
    future::join4(
        mirrors.priority_classes.ready(),
        mirrors.quotas.ready(),
        mirrors.claims.ready(),
        mirrors.namespaces.ready(),
    )
    .await;
    for change in everything(context) {
        // The receiver is our own.
        let _ = sender.send(change);
    }
    let mut world = World::default();
    let mut actor = Actor::new(Arc::clone(context));
    let mut dirty = false;
    let mut rest_until = tokio::time::Instant::now();
    let mut retry = None;
    let mut resync = context.clock.now();
    loop {
        let retry_at = retry.unwrap_or_else(tokio::time::Instant::now);
        tokio::select! {
            change = changes.recv() => {
                let Some(change) = change else { return };
                dirty |= take_in(context, &mut world, &mut actor, &change);
            }
            () = context.clock.sleep_until(resync), if world.has_pending() => dirty = true,
            () = tokio::time::sleep_until(retry_at), if retry.is_some() => dirty = true,
        }
        if dirty {
            // In a burst the scheduler works at most half of the time and takes in more at once. After a quiet moment it
            // works at once.
            tokio::time::sleep_until(rest_until).await;
        }
        while let Ok(change) = changes.try_recv() {
            dirty |= take_in(context, &mut world, &mut actor, &change);
        }
        if std::mem::take(&mut dirty) {
            let start = Instant::now();
            let sure = actor.make_sure(&mut world).await;
            let decision = decide(world.snapshot(context.clock.now()));
            actor.forget_all_but(&decision.wait);
            let done = actor.carry_out(&mut world, decision).await && sure;
            retry = (!done).then(|| tokio::time::Instant::now() + RETRY);
            resync = context
                .clock
                .now()
                .saturating_add(RESYNC)
                .unwrap_or(Timestamp::MAX);
            rest_until = tokio::time::Instant::now() + start.elapsed().min(LONGEST_PAUSE);
        }
    }
}

fn everything(context: &Context) -> Vec<Change> {
    fn keys<K: Kind>(
        mirror: &Mirror<K>,
        wrap: fn(ObjectKey) -> Change,
    ) -> impl Iterator<Item = Change> {
        mirror
            .all()
            .into_iter()
            .map(move |object| wrap(ObjectKey::of(&*object)))
    }
    let mirrors = &context.mirrors;
    keys(&mirrors.nodes, Change::Node)
        .chain(keys(&mirrors.jobs, Change::Job))
        .chain(keys(&mirrors.job_sets, Change::JobSet))
        .chain(keys(&mirrors.train_jobs, Change::TrainJob))
        .chain(keys(&mirrors.priority_classes, Change::Class))
        .chain(keys(&mirrors.quotas, Change::Quota))
        .chain(keys(&mirrors.claims, Change::Claim))
        .chain(keys(&mirrors.namespaces, Change::Namespace))
        .chain(keys(&mirrors.pods, Change::Pod))
        .collect()
}

/// Answers whether a pass is due.
fn take_in(context: &Context, world: &mut World, actor: &mut Actor, change: &Change) -> bool {
    let mirrors = &context.mirrors;
    match change {
        Change::Pod(key) => world.set_pod(key, mirrors.pods.get(key).as_deref()),
        Change::Node(key) => world.set_node(&key.name, mirrors.nodes.get(key).as_deref()),
        Change::Job(key) => world.set_job(key, mirrors.jobs.get(key).as_deref()),
        Change::JobSet(key) => world.set_job_set(key, mirrors.job_sets.get(key).as_deref()),
        Change::TrainJob(key) => world.set_train_job(key, mirrors.train_jobs.get(key).as_deref()),
        Change::Class(key) => {
            world.set_priority_class(&key.name, mirrors.priority_classes.get(key).as_deref())
        }
        Change::Quota(key) => {
            let quota = mirrors.quotas.get(key);
            let status = quota.as_ref().and_then(|quota| quota.status.as_ref());
            actor.forget_quota(key, status.and_then(|status| status.used.as_ref()));
            world.set_quota(key, quota.as_deref())
        }
        Change::Claim(key) => {
            let claim = mirrors.claims.get(key);
            let usable = claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_none());
            world.set_claim(key, usable)
        }
        Change::Namespace(key) => {
            world.set_namespace(&key.name, mirrors.namespaces.get(key).as_deref())
        }
    }
}
