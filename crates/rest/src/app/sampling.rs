//! What jobs and machines use over time: asked of `metrics.k8s.io` now and then, kept in the history.

use std::sync::Arc;
use std::time::Duration;

use astrago_api::quantity::Amount;
use astrago_plan::fit::holds_room;
use jiff::Timestamp;
use kube::ResourceExt;
use serde::Deserialize;
use std::collections::BTreeMap;

use super::{Error, Result, jobs, list};
use crate::context::Context;
use crate::history::{SAMPLE_SECONDS, Sample};
use crate::identity::Caller;
use crate::model::{UsageOverTime, UsagePoint};
use crate::view::{self, Job};
use crate::world::Key;

/// A server without the metrics API is asked again after this long.
const PATIENCE: Duration = Duration::from_mins(1);

/// How many measurements pass between two looks for series that are too long.
const THIN_EVERY: u32 = 60;

/// What a job's nodes have used.
pub(crate) async fn of_job(context: &Context, caller: &Caller, key: &Key) -> Result<UsageOverTime> {
    let (uid, end) = match jobs::find(context, caller, key).await {
        Ok(job) => (job.job.uid().unwrap_or_default(), job.completed_at()),
        Err(Error::NotFound { .. }) => {
            let summary = jobs::find_record(context, caller, key)
                .await?
                .detail
                .summary;
            (summary.uid, summary.completed_at)
        }
        Err(error) => return Err(error),
    };
    let mut usage = series(context, &uid)?;
    if let Some(end) = end {
        cut(&mut usage, end);
    }
    Ok(usage)
}

/// Leaves out what was measured after a job's end: pods that are over are still there to be measured.
fn cut(usage: &mut UsageOverTime, end: Timestamp) {
    for series in &mut usage.series {
        series.points.retain(|point| point.time <= end);
    }
    usage.series.retain(|series| !series.points.is_empty());
}

/// What a machine has used in the last day. Machines are known to everybody who may use the cluster.
pub(crate) async fn of_machine(
    context: &Context,
    caller: &Caller,
    name: &str,
) -> Result<UsageOverTime> {
    list::readable(context, caller, None).await?;
    let nodes = &context.world.mirrors.nodes;
    if nodes.get(&Key::new("", name)).is_none() {
        return Err(Error::NotFound {
            kind: "node",
            name: name.to_owned(),
            namespace: String::new(),
        });
    }
    series(context, &Sample::machine(name))
}

fn series(context: &Context, owner: &str) -> Result<UsageOverTime> {
    Ok(UsageOverTime {
        interval_seconds: SAMPLE_SECONDS,
        series: context.history.samples(owner).map_err(Error::disk)?,
    })
}

pub(crate) async fn run(context: Arc<Context>) {
    let interval = Duration::from_secs(SAMPLE_SECONDS.unsigned_abs());
    let mut turns: u32 = 0;
    loop {
        let pause = match measure(&context).await {
            Ok(samples) => {
                turns = turns.wrapping_add(1);
                keep(&context, &samples, turns.is_multiple_of(THIN_EVERY));
                interval
            }
            // Most clusters have no metrics server, and the product works without it.
            Err(error) => {
                tracing::debug!(error = %crate::error::chain(&error), "there are no measurements");
                PATIENCE
            }
        };
        tokio::select! {
            () = context.stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

fn keep(context: &Context, samples: &[Sample], thin: bool) {
    let mut kept = context.history.put_samples(samples, context.now());
    if thin {
        let mut owners: Vec<&str> = samples.iter().map(|sample| sample.owner.as_str()).collect();
        owners.sort_unstable();
        owners.dedup();
        for owner in owners {
            kept = kept.and_then(|()| context.history.thin_samples(owner));
        }
    }
    if let Err(error) = kept {
        tracing::warn!(error = %crate::error::chain(&error), "failed to keep measurements");
    }
}

/// A list of `PodMetrics` or `NodeMetrics`, as far as it is read.
#[derive(Deserialize)]
struct Measurements {
    items: Vec<Measurement>,
}

#[derive(Deserialize)]
struct Measurement {
    metadata: Metadata,
    #[serde(default)]
    usage: BTreeMap<String, String>,
    #[serde(default)]
    containers: Vec<ContainerMeasurement>,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
}

#[derive(Deserialize)]
struct ContainerMeasurement {
    usage: BTreeMap<String, String>,
}

async fn measure(context: &Context) -> kube::Result<Vec<Sample>> {
    let (pods, nodes) = tokio::try_join!(ask(context, "pods"), ask(context, "nodes"))?;
    let now = context.now();
    let mirrors = &context.world.mirrors;
    let mut samples = Vec::new();
    for pod in pods.items {
        let key = Key {
            namespace: pod.metadata.namespace,
            name: pod.metadata.name,
        };
        let Some(owner) = mirrors.pods.get(&key).filter(|pod| holds_room(pod)) else {
            continue;
        };
        let Some(job) = owner.labels().get(astrago_api::labels::JOBSET_NAME) else {
            continue;
        };
        let Some(job) = Job::find(mirrors, &Key::new(&key.namespace, job)) else {
            continue;
        };
        let rank = job
            .workers()
            .into_iter()
            .find(|(_, pod)| pod.uid() == owner.uid());
        if let (Some((worker, _)), Some(owner)) = (rank, job.job.uid()) {
            let usages = pod.containers.into_iter().map(|container| container.usage);
            let point = point(now, usages);
            samples.push(Sample {
                owner,
                worker,
                point,
            });
        }
    }
    samples.extend(nodes.items.into_iter().map(|node| Sample {
        owner: Sample::machine(&node.metadata.name),
        worker: -1,
        point: point(now, [node.usage]),
    }));
    Ok(samples)
}

async fn ask(context: &Context, what: &str) -> kube::Result<Measurements> {
    let request = http::Request::get(format!("/apis/metrics.k8s.io/v1beta1/{what}"))
        .body(Vec::new())
        .map_err(|error| kube::Error::Service(Box::new(error)))?;
    context.client.request(request).await
}

/// The sum over the containers of a pod.
fn point(
    time: Timestamp,
    usages: impl IntoIterator<Item = BTreeMap<String, String>>,
) -> UsagePoint {
    let mut sums: BTreeMap<String, Amount> = BTreeMap::new();
    for (resource, quantity) in usages.into_iter().flatten() {
        if let Ok(amount) = quantity.parse::<Amount>() {
            let sum = sums.entry(resource).or_default();
            *sum = *sum + amount;
        }
    }
    let named = |name: &str| sums.get(name).copied();
    UsagePoint {
        time,
        cpu: view::cores(named("cpu").unwrap_or_default()),
        memory: named("memory").unwrap_or_default().units_up(),
        gpu: named("nvidia.com/gpu").map(view::cores),
        gpu_memory: named("nvidia.com/gpu-memory").map(Amount::units_up),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::UsageSeries;

    #[test]
    fn what_a_job_used_ends_with_it() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let series = |worker, seconds: &[i64]| UsageSeries {
            worker: Some(worker),
            points: seconds
                .iter()
                .map(|second| point(at(*second), []))
                .collect(),
        };
        let mut usage = UsageOverTime {
            interval_seconds: SAMPLE_SECONDS,
            series: vec![series(0, &[10, 20, 30, 40]), series(1, &[40])],
        };
        cut(&mut usage, at(30));
        assert_eq!(usage.series.len(), 1);
        let times: Vec<i64> = usage.series[0]
            .points
            .iter()
            .map(|point| point.time.as_second())
            .collect();
        assert_eq!(times, [10, 20, 30]);
    }
}
