//! Will it fit? The scheduler's own rules, asked before submitting.

use astrago_mirror::Mirrors;
use astrago_plan::fit::{self, Waiting, holds_room};
use astrago_plan::queue::Candidate;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::{Result, create, preview};
use crate::context::Context;
use crate::identity::Caller;
use crate::model::{Amounts, Cause, Fit, FitVerdict};
use crate::view;

pub(crate) fn fit(context: &Context, caller: &Caller, body: &Value) -> Result<Fit> {
    let (request, _, made) = create::plan(context, caller, body)?;
    let planned = preview::plan(context, &request, &made.train_job)?;
    let pods: Vec<&Pod> = planned.pods.iter().map(|pod| &pod.pod).collect();
    let needs = pods
        .iter()
        .map(|pod| view::of_pod(pod))
        .fold(Amounts::default(), |sum, next| sum.plus(&next));
    let mirrors = &context.world.mirrors;
    let (total, used) = sums(mirrors);
    let estimate = estimate(context, mirrors);
    let asked = &request.asked;
    let candidate = Candidate {
        namespace: &asked.namespace,
        pods: &pods,
        priority: asked.priority.map(clamped),
        deadline: asked.deadline_seconds,
    };
    let waiting = context.world.line.foresee(&candidate, context.now());
    let (verdict, reason, cause) = told(waiting);
    let wait_seconds = estimate.filter(|_| verdict == FitVerdict::WouldWait);
    Ok(Fit {
        verdict,
        reason,
        cause,
        needs,
        free: total.minus(&used),
        total,
        wait_seconds,
    })
}

/// The scheduler's answer, for people and for programs.
fn told(waiting: Option<Waiting>) -> (FitVerdict, String, Cause) {
    let Some(Waiting { cause, ahead }) = waiting else {
        let reason = "there is room for all nodes now".to_owned();
        return (FitVerdict::FitsNow, reason, Cause::new("fits"));
    };
    match cause {
        fit::Cause::Kept => {
            let ahead = ahead.at_least();
            let reason = match ahead {
                1 => "there is room, but 1 job waits before it".to_owned(),
                _ => format!("there is room, but {ahead} jobs wait before it"),
            };
            let cause = Cause::new("behind").with("ahead", ahead);
            (FitVerdict::WouldWait, reason, cause)
        }
        cause => {
            let verdict = if cause.is_final() {
                FitVerdict::NeverFits
            } else {
                FitVerdict::WouldWait
            };
            (verdict, cause.to_string(), Cause::of(&cause))
        }
    }
}

fn clamped(priority: i64) -> i32 {
    i32::try_from(priority).unwrap_or(if priority < 0 { i32::MIN } else { i32::MAX })
}

/// What all machines offer, and what of it is in use.
fn sums(mirrors: &Mirrors) -> (Amounts, Amounts) {
    let sum = |amounts: &mut dyn Iterator<Item = Amounts>| {
        amounts.fold(Amounts::default(), |sum, next| sum.plus(&next))
    };
    let nodes = mirrors.nodes.all();
    let offers = nodes.iter().filter_map(|node| {
        let status = node.status.as_ref()?;
        let offer = status.allocatable.as_ref().or(status.capacity.as_ref());
        offer.map(Amounts::of)
    });
    let pods = mirrors.pods.all();
    let bound = pods.iter().filter(|pod| {
        let spec = pod.spec.as_ref();
        holds_room(pod) && spec.is_some_and(|spec| spec.node_name.is_some())
    });
    (
        sum(&mut { offers }),
        sum(&mut bound.map(|pod| view::of_pod(pod))),
    )
}

/// When the next running job will end, by its own progress.
fn estimate(context: &Context, mirrors: &Mirrors) -> Option<i64> {
    let jobs = mirrors.train_jobs.all().into_iter();
    let running = jobs.filter(|job| !job.is_finished() && !job.is_suspended());
    let left = running.filter_map(|job| {
        let uid = job.metadata.uid.as_deref()?;
        context.logbook.progress(uid)?.remaining_seconds
    });
    left.min()
}
