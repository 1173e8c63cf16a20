//! What Kubeflow Trainer lacks: finished TrainJobs that go when their time is over.
//!
//! JobSet deletes a finished JobSet after `ttlSecondsAfterFinished`, and the TrainJob stays. Worse: up
//! to v2.1, and for failed jobs still in v2.3, the Trainer then makes the JobSet again, and the job runs a
//! second time. So the TrainJob is deleted from here, a little before JobSet's own time is up.

use std::sync::Arc;
use std::time::Duration;

use astrago_api::{TrainJob, conditions};
use astrago_mirror::Mirrors;
use jiff::Timestamp;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, ResourceExt};

use crate::context::Context;
use crate::world::Key;

const INTERVAL: Duration = Duration::from_secs(1);

/// So long before JobSet the TrainJob goes; half of its time for one that is kept shorter than twice this.
const HEAD_START_SECONDS: i64 = 10;

pub(crate) async fn run(context: Arc<Context>) {
    let mut turn = tokio::time::interval(INTERVAL);
    turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = context.stop.cancelled() => return,
            _ = turn.tick() => {}
        }
        // Looked at again in each turn: the cluster may get another Trainer while we run.
        if context.cluster().extended {
            continue;
        }
        let now = context.now();
        let expired = expired(&context.world.mirrors, now);
        for (key, uid) in expired {
            delete(&context, &key, &uid).await;
        }
    }
}

async fn delete(context: &Context, key: &Key, uid: &str) {
    let jobs: Api<TrainJob> = Api::namespaced(context.client.clone(), &key.namespace);
    let parameters = DeleteParams::background().preconditions(Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    });
    match jobs.delete(&key.name, &parameters).await {
        Ok(_) => {
            tracing::info!(
                namespace = key.namespace,
                job = key.name,
                "removed a finished job whose time is over"
            );
        }
        // Somebody was faster.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
        Err(error) => {
            let error = crate::error::chain(&error);
            tracing::warn!(
                namespace = key.namespace,
                job = key.name,
                error,
                "failed to remove a finished job"
            );
        }
    }
}

fn expired(mirrors: &Mirrors, now: Timestamp) -> Vec<(Key, String)> {
    let jobs = mirrors.train_jobs.all().into_iter();
    let due = jobs.filter(|job| {
        job.metadata.deletion_timestamp.is_none()
            && is_due(ttl(mirrors, job), finished_at(job), now)
    });
    due.filter_map(|job| Some((Key::of(&*job), job.uid()?)))
        .collect()
}

/// How long the job stays after its end, by its own word or its runtime's.
fn ttl(mirrors: &Mirrors, job: &TrainJob) -> Option<i32> {
    let reference = &job.spec.runtime_ref;
    if reference.kind() == "TrainingRuntime" {
        let namespace = job.namespace().unwrap_or_default();
        let key = Key::new(namespace, reference.name.as_str());
        let runtime = mirrors.runtimes.get(&key)?;
        return astrago_plan::effective_ttl(job, &runtime.spec);
    }
    let key = Key::new("", reference.name.as_str());
    let runtime = mirrors.cluster_runtimes.get(&key)?;
    astrago_plan::effective_ttl(job, &runtime.spec.0)
}

/// When the job ended, as its conditions have it.
fn finished_at(job: &TrainJob) -> Option<Timestamp> {
    let ends = [
        conditions::train_job::COMPLETE,
        conditions::train_job::FAILED,
    ];
    let ended = job
        .conditions()
        .iter()
        .find(|condition| ends.contains(&condition.type_.as_str()) && condition.status == "True")?;
    Some(ended.last_transition_time.0)
}

fn is_due(ttl: Option<i32>, finished: Option<Timestamp>, now: Timestamp) -> bool {
    let (Some(ttl), Some(finished)) = (ttl, finished) else {
        return false;
    };
    let ttl = i64::from(ttl.max(0));
    let kept = ttl - HEAD_START_SECONDS.min(ttl / 2);
    now.as_second() >= finished.as_second().saturating_add(kept)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::no_ttl(None, Some(100), 10_000, false)]
    #[case::not_finished(Some(60), None, 10_000, false)]
    #[case::too_early(Some(60), Some(100), 149, false)]
    #[case::a_little_before_job_set(Some(60), Some(100), 150, true)]
    #[case::a_short_time_is_halved(Some(6), Some(100), 103, true)]
    #[case::not_more_than_halved(Some(6), Some(100), 102, false)]
    #[case::at_once(Some(0), Some(100), 100, true)]
    fn finished_jobs_go_before_their_job_sets(
        #[case] ttl: Option<i32>,
        #[case] finished: Option<i64>,
        #[case] now: i64,
        #[case] want: bool,
    ) {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(is_due(ttl, finished.map(at), at(now)), want);
    }
}
