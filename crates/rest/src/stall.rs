//! Whether a job that says nothing any more is stuck, and which of its ranks is not where the others are. Pure.
//!
//! Two looks at the stacks of all ranks, some seconds apart, are compared. A rank *waits* when the code between its
//! training script and the kernel is a library's that waits for other ranks. The rank that the others wait for is one
//! that does not. What cannot be told is not guessed; and as long as something moves and nobody waits, nothing is
//! wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{JobStacks, ProcessStacks, StackFrame, StacksProblem, StallPlace, StallReason};

/// So many steps must have been seen before a silence means something: the first ones are slow.
const STEPS: u32 = 3;
/// A silence is as long as this, and as so many of the longest steps.
pub(crate) const SHORTEST: Duration = Duration::from_mins(5);
const LONGEST_STEPS: u32 = 8;
/// Where no steps are known.
const WITHOUT_STEPS: Duration = Duration::from_hours(1);
const NEVER: Duration = Duration::from_hours(24);
/// Evaluating and saving take as many times as long as steps.
const PHASE: u32 = 6;

/// A rank that uses less than one part in so many of a core is idle.
const IDLE: u64 = 20;
/// How many frames of libraries may lie between the kernel and the code of the user.
const DEEP: usize = 32;

/// What a job has shown of its progress.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rhythm {
    pub(crate) steps: u32,
    pub(crate) longest: Duration,
}

impl Rhythm {
    fn is_known(self) -> bool {
        self.steps >= STEPS
    }

    /// How long a job may say nothing. `shortest` replaces what is usual.
    pub(crate) fn limit(self, shortest: Option<Duration>) -> Duration {
        if !self.is_known() {
            return WITHOUT_STEPS;
        }
        let learned = self.longest.saturating_mul(LONGEST_STEPS);
        learned.max(shortest.unwrap_or(SHORTEST)).min(NEVER)
    }
}

/// What two looks at a silent job tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It computes, or does what takes long.
    Working,
    Stalled {
        reason: StallReason,
        /// The ranks that the others wait for; none where that cannot be told.
        suspects: Vec<StallPlace>,
        others: Vec<StallPlace>,
    },
}

/// One rank, seen twice.
struct Seen {
    rank: u32,
    worker: i64,
    doing: Doing,
    /// The innermost line of the user's own code, or else the innermost line.
    at: Option<StackFrame>,
    /// Neither its stack nor its CPU time has moved.
    still: bool,
    /// Evaluating, saving, compiling.
    busy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Waits,
    Elsewhere,
    Stopped,
    Gone,
}

/// Judges two looks that are so far apart, after a silence of so many of the job's own limits.
pub(crate) fn judge(
    before: &JobStacks,
    after: &JobStacks,
    apart: Duration,
    limits: u32,
    rhythm: Rhythm,
) -> Verdict {
    let seen = see(before, after, apart);
    if seen.is_empty() {
        return Verdict::Working;
    }
    let of = |wanted: Doing| seen.iter().filter(move |rank| rank.doing == wanted);
    let still = seen.iter().all(|rank| rank.still);
    // Without a rhythm only a job that does nothing at all is suspicious.
    if !rhythm.is_known() && !still {
        return Verdict::Working;
    }
    if of(Doing::Stopped).next().is_some() {
        return stalled(StallReason::Stopped, &seen, |rank| {
            rank.doing == Doing::Stopped
        });
    }
    let waiting = of(Doing::Waits).count();
    if waiting > 0 && of(Doing::Gone).next().is_some() {
        return stalled(StallReason::Ended, &seen, |rank| rank.doing == Doing::Gone);
    }
    let elsewhere = of(Doing::Elsewhere).count();
    if of(Doing::Elsewhere).any(|rank| rank.busy) && limits < PHASE {
        return Verdict::Working;
    }
    if waiting == 0 && !still {
        return Verdict::Working;
    }
    // Most are still on their way to where some have arrived already.
    if elsewhere > 0 && waiting >= elsewhere {
        return stalled(StallReason::Elsewhere, &seen, |rank| {
            rank.doing == Doing::Elsewhere
        });
    }
    match odd_one(&seen) {
        Some(odd) => {
            let reason = match waiting {
                0 => StallReason::Elsewhere,
                _ => StallReason::OtherCollective,
            };
            stalled(reason, &seen, |rank| rank.at == odd.at)
        }
        None => stalled(StallReason::Unknown, &seen, |_| false),
    }
}

/// One of less than half of the ranks at a place of their own, where all others are at one.
fn odd_one(seen: &[Seen]) -> Option<&Seen> {
    let mut places: BTreeMap<_, Vec<&Seen>> = BTreeMap::new();
    for rank in seen {
        places.entry(&rank.at).or_default().push(rank);
    }
    let mut places: Vec<_> = places.into_values().collect();
    places.sort_by_key(Vec::len);
    match &places[..] {
        [few, many] if few.len() < many.len() => few.first().copied(),
        _ => None,
    }
}

fn stalled(reason: StallReason, seen: &[Seen], suspect: impl Fn(&Seen) -> bool) -> Verdict {
    let (suspects, others): (Vec<&Seen>, Vec<&Seen>) = seen.iter().partition(|rank| suspect(rank));
    Verdict::Stalled {
        reason,
        suspects: places(&suspects),
        others: places(&others),
    }
}

/// Ranks at the same line are told together.
fn places(seen: &[&Seen]) -> Vec<StallPlace> {
    let mut places: Vec<StallPlace> = Vec::new();
    for rank in seen {
        let known = places.iter_mut().find(|place| place.at == rank.at);
        if let Some(place) = known {
            place.ranks.push(rank.rank);
        } else {
            places.push(StallPlace {
                ranks: vec![rank.rank],
                worker: rank.worker,
                at: rank.at.clone(),
            });
        }
    }
    places
}

fn see(before: &JobStacks, after: &JobStacks, apart: Duration) -> Vec<Seen> {
    let mut seen = Vec::new();
    for worker in &after.workers {
        let earlier = before.workers.iter().find(|it| it.worker == worker.worker);
        let earlier = earlier.map_or(&[][..], |worker| &worker.processes);
        for process in &worker.processes {
            if let Some(rank) = process.rank {
                let earlier = earlier.iter().find(|it| it.pid == process.pid);
                seen.push(look(rank, worker.worker, earlier, process, apart));
            }
        }
        let gone = worker.problem == Some(StacksProblem::NotRunning);
        if let Some(rank) = u32::try_from(worker.worker).ok().filter(|_| gone) {
            seen.push(Seen {
                rank,
                worker: worker.worker,
                doing: Doing::Gone,
                at: None,
                still: true,
                busy: false,
            });
        }
    }
    seen
}

fn look(
    rank: u32,
    worker: i64,
    earlier: Option<&ProcessStacks>,
    process: &ProcessStacks,
    apart: Duration,
) -> Seen {
    let frames = main_frames(process);
    let used = earlier.map_or(u64::MAX, |earlier| {
        let used = process
            .cpu_milliseconds
            .saturating_sub(earlier.cpu_milliseconds);
        used.saturating_mul(IDLE)
    });
    let idle = u128::from(used) < apart.as_millis();
    let stopped = matches!(process.state.as_str(), "T" | "t");
    let doing = match () {
        () if stopped => Doing::Stopped,
        () if waits(frames, idle) => Doing::Waits,
        () => Doing::Elsewhere,
    };
    let own = frames.iter().find(|frame| !is_library(&frame.file));
    Seen {
        rank,
        worker,
        doing,
        at: own.or(frames.first()).cloned(),
        still: idle && earlier.is_some_and(|earlier| main_frames(earlier) == frames),
        busy: frames.iter().any(is_slow),
    }
}

fn main_frames(process: &ProcessStacks) -> &[StackFrame] {
    process.threads.first().map_or(&[], |thread| &thread.frames)
}

/// Files in which ranks wait for each other, and those in which they do when they are idle, for they compute there
/// too.
const WAITING: [&str; 14] = [
    "torch/distributed/distributed_c10d.py",
    "torch/distributed/_functional_collectives.py",
    "torch/distributed/rendezvous.py",
    "torch/distributed/algorithms/join.py",
    "torch/cuda/__init__.py",
    "torch/cuda/streams.py",
    "horovod/torch/mpi_ops.py",
    "horovod/tensorflow/mpi_ops.py",
    "horovod/common/basics.py",
    "deepspeed/comm/comm.py",
    "deepspeed/comm/torch.py",
    "xgboost/collective.py",
    "jax/_src/distributed.py",
    "jax/experimental/multihost_utils.py",
];
const WAITING_WHEN_IDLE: [&str; 8] = [
    "torch/autograd/__init__.py",
    "torch/autograd/graph.py",
    "torch/_tensor.py",
    "tensorflow/python/eager/execute.py",
    "tensorflow/python/eager/context.py",
    "jax/_src/array.py",
    "jax/_src/interpreters/pxla.py",
    "xgboost/core.py",
];

/// Whether the innermost code, up to the user's own, waits for other ranks.
fn waits(frames: &[StackFrame], idle: bool) -> bool {
    let inner = frames.iter().take(DEEP);
    let mut inner = inner.take_while(|frame| is_library(&frame.file));
    inner.any(|frame| {
        let is = |file: &&str| frame.file.ends_with(*file);
        WAITING.iter().any(is) || idle && WAITING_WHEN_IDLE.iter().any(is)
    })
}

/// Code that the user has not written: of Python itself, or installed.
fn is_library(file: &str) -> bool {
    file.starts_with('<')
        || file.contains("/site-packages/")
        || file.contains("/dist-packages/")
        || file
            .split_once("/lib/python")
            .is_some_and(|(_, rest)| rest.starts_with(['2', '3']))
}

/// Where evaluating, saving and compiling happen.
const SLOW_FILES: [&str; 8] = [
    "torch/serialization.py",
    "torch/distributed/checkpoint/",
    "torch/_dynamo/",
    "torch/_inductor/",
    "safetensors/",
    "orbax/",
    "jax/_src/compiler.py",
    "tensorflow/python/checkpoint/",
];
#[rustfmt::skip]
const SLOW_WORDS: [&str; 17] = [
    "eval", "evals", "evaluate", "evaluation", "evaluating", "val", "valid", "validate",
    "validation", "checkpoint", "checkpoints", "checkpointing", "ckpt", "save", "saving",
    "compile", "export",
];

/// Whether a function is one that takes long by nature, by its name or its file.
fn is_slow(frame: &StackFrame) -> bool {
    // Activations that are computed again, not a file.
    if frame.file.ends_with("torch/utils/checkpoint.py") {
        return false;
    }
    let words = frame
        .function
        .split(|letter: char| !letter.is_alphanumeric());
    SLOW_FILES.iter().any(|file| frame.file.contains(file))
        || words
            .filter(|word| !word.is_empty())
            .any(|word| SLOW_WORDS.contains(&word.to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests;
