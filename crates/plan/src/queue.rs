//! Who of those that wait is started, and where: one pass over the world, without I/O.
//!
//! The scheduler carries out what [`decide`] answers; the REST API asks it about a job that has not been made yet ("will
//! it fit?"), so that the two cannot disagree.
//!
//! # Order
//! By priority, then by age: that of the job, so that it keeps its place when it is started again; jobs of the same second by
//! their uid ([`Rank`]). Who may pass whom is told in [`backfill`].

mod admit;
pub mod backfill;
mod quota;
mod snapshot;

use crate::fit::Cause;

use admit::Pass;
pub use quota::{Charge, Quota};
pub use snapshot::{
    Assignment, Decision, Gang, GangKey, Member, PodKey, Rank, Running, Snapshot, Wait,
};

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
