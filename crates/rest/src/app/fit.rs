//! Will it fit? The scheduler's own arithmetic, asked before submitting.

use astrago_plan::fit::{Cluster, PodNeed, Verdict, Waiting};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::Value;

use super::places::{holds_room, queued};
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
    let ahead = ahead(&tables, request.priority.unwrap_or(0));
    let (verdict, reason, cause) = match cluster.verdict(&wanted) {
        Verdict::Now(_) if ahead > 0 => (
            FitVerdict::WouldWait,
            match ahead {
                1 => "there is room, but 1 job waits before it".to_owned(),
                _ => format!("there is room, but {ahead} jobs wait before it"),
            },
            Cause::new("behind").with("ahead", ahead),
        ),
        Verdict::Now(_) => (
            FitVerdict::FitsNow,
            "there is room for all nodes now".to_owned(),
            Cause::new("fits"),
        ),
        Verdict::Later(cause) => (
            FitVerdict::WouldWait,
            cause.to_string(),
            view::cause_of(&cause),
        ),
        Verdict::Never(cause) => (
            FitVerdict::NeverFits,
            cause.to_string(),
            view::cause_of(&cause),
        ),
    };
    let wait_seconds = (verdict == FitVerdict::WouldWait)
        .then(|| estimate(context, &tables))
        .flatten();
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

/// How many jobs would be started before a new one of this priority. One that can never fit is not
/// among them: the scheduler does not keep room for it.
fn ahead(tables: &Tables, priority: i64) -> usize {
    let waits = |sentence: String| {
        let Ok(waiting) = sentence.parse::<Waiting>();
        !waiting.cause.is_final()
    };
    queued(tables)
        .into_iter()
        .filter(|entry| entry.priority >= priority && waits(entry.job.message()))
        .count()
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
