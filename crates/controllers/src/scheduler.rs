//! The gang scheduler: gives pods their nodes, all pods of a job at once or none, and says why the
//! others wait.
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
//! By priority (`spec.priority`, else the PriorityClass, else 0), then by age: that of the TrainJob (or JobSet), so that a
//! job keeps its place when it is started again; jobs of the same second by their uid ([`snapshot::Rank`]). Who may
//! pass whom is told in [`backfill`].
//!
//! # Tasks
//! One ([`run`]): in: the shared mirrors and those of quotas, priority classes and claims; out: bindings,
//! the condition `PodScheduled`, events and the status of quotas. It keeps a [`world::World`] up to date
//! change by change, so that a pass costs what waits and not what has run. All of it is
//! derived from the API: after a crash the next process finds a gang that was bound in part and
//! makes it whole before anything else.

mod act;
mod admit;
pub mod backfill;
pub mod quota;
mod run;
pub mod snapshot;
pub mod world;

use astrago_plan::fit::Cause;

use admit::Pass;
pub use run::run;
use snapshot::{Decision, Gang, Snapshot};

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
