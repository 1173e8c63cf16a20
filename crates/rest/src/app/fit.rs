//! Will it fit? The scheduler's own rules, asked before submitting.

mod queue;

use astrago_plan::fit::{self, Cluster, PodNeed, Waiting};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::Value;

use self::queue::Candidate;
use super::places::holds_room;
use super::{Error, Result, create, preview};
use crate::context::Context;
use crate::identity::Caller;
use crate::model::{Amounts, Cause, Fit, FitVerdict};
use crate::view;
use crate::world::Tables;

pub(crate) fn fit(context: &Context, caller: &Caller, body: &Value) -> Result<Fit> {
    let (request, _, made) = create::plan(context, caller, body)?;
    let planned = preview::plan(context, &request, &made.train_job)?;
    let pods: Vec<&Pod> = planned.pods.iter().map(|pod| &pod.pod).collect();
    let needs = pods
        .iter()
        .map(|pod| view::of_pod(pod))
        .fold(Amounts::default(), |sum, next| sum.plus(&next));
    let specs = pods
        .iter()
        .filter_map(|pod| pod.spec.as_ref())
        .map(PodNeed::of);
    let wanted: Vec<PodNeed> =
        specs
            .collect::<Result<_, _>>()
            .map_err(|error| Error::Internal {
                operation: "read the pods' needs",
                source: Box::new(error),
            })?;
    let tables = context.world.read();
    let nodes: Vec<Node> = tables
        .nodes
        .iter()
        .map(|(_, node)| (**node).clone())
        .collect();
    let bound: Vec<Pod> = tables.pods.iter().map(|(_, pod)| (**pod).clone()).collect();
    let cluster = Cluster::of(&nodes, &bound).map_err(|error| Error::Internal {
        operation: "read the machines",
        source: Box::new(error),
    })?;
    let (total, used) = sums(&tables);
    let estimate = estimate(context, &tables);
    let snapshot = queue::snapshot(&tables, cluster, context.now());
    drop(tables);
    let candidate = Candidate {
        needs: wanted,
        priority: request.priority.unwrap_or(0),
        deadline: request.deadline_seconds,
    };
    let (verdict, reason, cause) = told(queue::foresee(snapshot, candidate));
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

fn sums(tables: &Tables) -> (Amounts, Amounts) {
    let offers = tables.nodes.iter().filter_map(|(_, node)| {
        let status = node.status.as_ref()?;
        status
            .allocatable
            .as_ref()
            .or(status.capacity.as_ref())
            .map(Amounts::of)
    });
    let total = offers.fold(Amounts::default(), |sum, next| sum.plus(&next));
    let bound = tables.pods.iter().filter(|(_, pod)| {
        holds_room(pod)
            && pod
                .spec
                .as_ref()
                .is_some_and(|spec| spec.node_name.is_some())
    });
    let used = bound.fold(Amounts::default(), |sum, (_, pod)| {
        sum.plus(&view::of_pod(pod))
    });
    (total, used)
}

/// When the next running job will end, by its own progress.
fn estimate(context: &Context, tables: &Tables) -> Option<i64> {
    let running = tables
        .jobs
        .iter()
        .filter(|(_, job)| !job.is_finished() && !job.is_suspended());
    let left = running.filter_map(|(_, job)| {
        let uid = job.metadata.uid.as_deref()?;
        context.logbook.progress(uid)?.remaining_seconds
    });
    left.min()
}
