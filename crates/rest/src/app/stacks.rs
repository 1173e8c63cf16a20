//! What the processes of a job are doing, asked of the nodes that run them.
//!
//! Reading a process's memory is as much as running a program beside it, so the right to do that is what callers need.
//! The nodes are then asked by the server itself: their endpoints know pods and no callers.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{FutureExt, StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::{Error, Result, jobs, logs};
use crate::context::Context;
use crate::identity::{Access, Caller};
use crate::model::{JobStacks, ProcessStacks, StacksProblem, WorkerStacks};
use crate::view::Job;
use crate::world::Key;

/// How many nodes are asked at a time.
const AT_ONCE: usize = 4;
/// How much all workers may tell together.
const BYTES: usize = 16 << 20;

/// By this a node of ours is known; see `node_proxy` in the API server.
const OURS: &str = "astrago.io/kubelet-certificate-sha256";

/// Stacks for a caller, of one worker or all.
pub(crate) async fn of_job(
    context: &Context,
    caller: &Caller,
    key: &Key,
    worker: Option<i64>,
) -> Result<JobStacks> {
    let access = Access {
        subresource: "exec",
        ..Access::core("create", "pods", &key.namespace)
    };
    context.gate.demand(caller, &access).await?;
    let job = jobs::find(context, caller, key).await?;
    if let Some(worker) = worker {
        // Refuses workers that the job does not have.
        logs::pod_of(&job, key, worker)?;
    }
    let stacks = read(context, &job, worker).await;
    let mut problems = stacks.workers.iter().map(|worker| worker.problem);
    let told = stacks.workers.iter().any(|worker| worker.problem.is_none());
    if !told
        && problems
            .clone()
            .any(|it| it == Some(StacksProblem::Unsupported))
    {
        let text = "the machines of this job are not run by Astrago and cannot tell stacks; \
            where its image has py-spy, `astrago exec` can run `py-spy dump --pid` there";
        return Err(Error::Conflict(text.to_owned()));
    }
    if !told {
        let why = match problems.next_back().flatten() {
            Some(StacksProblem::Unavailable) => "its machines did not tell",
            _ => "it does not run",
        };
        return Err(Error::Conflict(format!("no stacks of {}: {why}", key.name)));
    }
    Ok(stacks)
}

/// Asks the nodes of a job's workers.
pub(crate) async fn read(context: &Context, job: &Job, worker: Option<i64>) -> JobStacks {
    let mut pods: BTreeMap<i64, Arc<Pod>> = BTreeMap::new();
    for (rank, _) in job.workers() {
        if worker.is_none_or(|wanted| wanted == rank)
            && let Some(pod) = job.worker(rank)
        {
            pods.insert(rank, Arc::clone(pod));
        }
    }
    // Each in a box: the compiler does not see through all of it at once.
    let asked = pods
        .into_iter()
        .map(|(worker, pod)| async move { (worker, ask(context, &pod).await) }.boxed());
    let asked: Vec<_> = asked.collect();
    let asked = stream::iter(asked);
    let mut asked = asked.buffered(AT_ONCE);
    let (mut workers, mut left) = (Vec::new(), BYTES);
    while let Some((worker, told)) = asked.next().await {
        let told = told.and_then(|text| {
            left = left.saturating_sub(text.len());
            let told = serde_json::from_str::<WorkerStacks>(&text).ok();
            told.filter(|_| left > 0).ok_or(StacksProblem::Unavailable)
        });
        workers.push(match told {
            Ok(told) => WorkerStacks { worker, ..told },
            Err(problem) => WorkerStacks {
                worker,
                problem: Some(problem),
                ..WorkerStacks::default()
            },
        });
    }
    name_ranks(&mut workers);
    JobStacks { workers }
}

async fn ask(context: &Context, pod: &Pod) -> Result<String, StacksProblem> {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let node = node.ok_or(StacksProblem::NotRunning)?;
    let known = context.world.mirrors.nodes.get(&Key::new("", node));
    if !known.is_some_and(|node| node.annotations().contains_key(OURS)) {
        return Err(StacksProblem::Unsupported);
    }
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let container = logs::container_of(pod);
    let path = format!("/api/v1/nodes/{node}/proxy/stacks/{namespace}/{name}/{container}");
    let request = http::Request::get(path)
        .body(Vec::new())
        .map_err(|_| StacksProblem::Unavailable)?;
    context
        .client
        .request_text(request)
        .await
        .map_err(|error| match error {
            // It does not run, or no longer.
            kube::Error::Api(status) if matches!(status.code, 400 | 404) => {
                StacksProblem::NotRunning
            }
            error => {
                tracing::debug!(pod = name, error = %crate::error::chain(&error), "no stacks");
                StacksProblem::Unavailable
            }
        })
}

/// Leaves each rank to the one process that trains as it: others have inherited its name. Where nobody was told a
/// rank, there is one process for each worker, with the worker's number.
fn name_ranks(workers: &mut [WorkerStacks]) {
    let mut all = workers.iter().flat_map(|worker| &worker.processes);
    let told = all.any(|process| process.rank.is_some());
    for worker in workers {
        let mut first: BTreeMap<u32, (bool, u32)> = BTreeMap::new();
        let own = u32::try_from(worker.worker).unwrap_or_default();
        let rank = |process: &ProcessStacks| if told { process.rank } else { Some(own) };
        for process in &worker.processes {
            if let Some(rank) = rank(process) {
                let place = (process.python.is_none(), process.pid);
                let best = first.entry(rank).or_insert(place);
                *best = place.min(*best);
            }
        }
        for process in &mut worker.processes {
            let place = (process.python.is_none(), process.pid);
            process.rank = rank(process).filter(|rank| first.get(rank) == Some(&place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_is_one_process() {
        // Process, rank that it was told, whether it runs Python; and the rank that it is.
        type Row = (u32, Option<u32>, bool, Option<u32>);
        let cases: [(&str, i64, &[Row]); 5] = [
            ("a script, a worker's rank", 3, &[(2, None, true, Some(3))]),
            (
                "a shell around it, and what it started",
                1,
                &[
                    (2, None, false, None),
                    (3, None, true, Some(1)),
                    (9, None, true, None),
                ],
            ),
            (
                "no Python",
                0,
                &[(2, None, false, Some(0)), (3, None, false, None)],
            ),
            (
                "torchrun, its ranks and their data loaders",
                1,
                &[
                    (2, None, true, None),
                    (8, Some(2), true, Some(2)),
                    (9, Some(3), true, Some(3)),
                    (20, Some(2), true, None),
                    (21, Some(3), true, None),
                ],
            ),
            (
                "a shell for each rank",
                0,
                &[(5, Some(0), false, None), (6, Some(0), true, Some(0))],
            ),
        ];
        for (name, worker, rows) in cases {
            let processes = rows.iter().map(|(pid, rank, python, _)| ProcessStacks {
                pid: *pid,
                rank: *rank,
                python: python.then(|| "3.12.1".to_owned()),
                ..ProcessStacks::default()
            });
            let mut workers = [WorkerStacks {
                worker,
                processes: processes.collect(),
                ..WorkerStacks::default()
            }];
            name_ranks(&mut workers);
            let ranks = workers[0].processes.iter().map(|process| process.rank);
            let want = rows.iter().map(|(_, _, _, want)| *want);
            assert_eq!(
                ranks.collect::<Vec<_>>(),
                want.collect::<Vec<_>>(),
                "{name}"
            );
        }
    }
}
