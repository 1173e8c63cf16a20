//! Who of those that wait is started, and where: one pass over the world, without I/O.
//!
//! A [`World`] takes in objects as they change and makes a [`Snapshot`] of them; [`decide`] answers what to do. The scheduler
//! carries that out; the REST API shows it, and asks about a job that has not been made yet ("will it fit?"), so that the two
//! cannot disagree.
//!
//! # What a gang is
//! | pods | gang | it is whole when |
//! |---|---|---|
//! | with `astrago.io/gang` (label or annotation) | all of that name in the namespace | `astrago.io/gang-size` pods exist, or without it the parallelism of their Job |
//! | of a JobSet | those of one restart attempt and one wave | every Job of the wave has all its pods |
//! | of a v1 training job | those of its `training.kubeflow.org/job-name` | `astrago.io/gang-size` pods exist, or without it always |
//! | any other | each alone | always |
//!
//! A *wave* are the replicated jobs of a JobSet that start together: `dependsOn` and `InOrder` startup
//! put a job into a later wave, so initializers do not wait for the trainers that wait for them.
//!
//! # Order
//! By priority (the TrainJob's own word, else `spec.priority` of its pods, else their PriorityClass, else 0), but no higher
//! than the namespace allows; then by age: that of the job, so that it keeps its place when it is started again; jobs of the
//! same second by their uid ([`Rank`]). Who may pass whom is told in [`backfill`].

mod admit;
pub mod backfill;
mod quota;
mod snapshot;
mod world;

use crate::fit::Cause;

use admit::Pass;
pub use quota::{Charge, Quota};
pub use snapshot::{
    Assignment, Decision, Gang, GangKey, Member, PodKey, Rank, Running, Snapshot, Wait,
};
pub use world::{Candidate, World};

/// One pass over the world.
pub fn decide(mut snapshot: Snapshot) -> Decision {
    // 1. Order: who comes first.
    let mut pending = std::mem::take(&mut snapshot.pending);
    pending.sort_by(|one, other| one.rank.cmp(&other.rank));
    let mut pass = Pass::new(snapshot);

    // 2. Nominate: set aside whoever waits for something else than room.
    let mut nominated = Vec::with_capacity(pending.len());
    for gang in pending {
        match obstacle(&gang) {
            Some(cause) => pass.set_aside(&gang, cause),
            None => nominated.push(gang),
        }
    }

    // 3. Complete: gangs that were started in part come before all others.
    let (started, queue): (Vec<_>, Vec<_>) = nominated.into_iter().partition(|gang| gang.bound > 0);
    for gang in started {
        pass.consider(gang);
    }

    // 4. Admit: the rest in order, each on what those before it leave.
    for gang in queue {
        pass.consider(gang);
    }

    // 5. Explain: what to bind, and why the others wait.
    pass.finish()
}

fn obstacle(gang: &Gang) -> Option<Cause> {
    if let Some(cause) = &gang.obstacle {
        return Some(cause.clone());
    }
    // A gang that runs already gets its missing pods one by one, as they are made.
    (gang.missing > 0 && gang.bound == 0).then_some(Cause::Pods {
        missing: gang.missing,
    })
}

#[cfg(test)]
mod tests;
