//! The TrainJob that a v1 job is shown through.

use astrago_api::conditions::train_job;
use astrago_api::legacy::LegacyJobStatus;
use astrago_api::{RuntimeRef, TrainJob, TrainJobSpec, TrainJobStatus, Trainer};
use astrago_plan::legacy::LegacyKind;
use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::Kind;
use crate::names;

pub(super) fn of<K: LegacyKind>(kind: &Kind, job: &K) -> TrainJob {
    let policy = job.run_policy();
    let mut metadata = job.meta().clone();
    let labels = metadata.labels.get_or_insert_default();
    labels
        .entry(names::FRAMEWORK.to_owned())
        .or_insert_with(|| kind.framework.to_owned());
    TrainJob {
        metadata,
        spec: TrainJobSpec {
            runtime_ref: RuntimeRef::default(),
            suspend: policy.suspend,
            max_restarts: policy.backoff_limit,
            active_deadline_seconds: policy.active_deadline_seconds,
            ttl_seconds_after_finished: policy.ttl_seconds_after_finished,
            trainer: trained(job).map(trainer),
            ..TrainJobSpec::default()
        },
        status: job.status().map(|status| TrainJobStatus {
            conditions: conditions(status),
            ..TrainJobStatus::default()
        }),
    }
}

/// The container that trains, of the replica that leads or else of any.
fn trained<K: LegacyKind>(job: &K) -> Option<&Container> {
    let framework = K::framework();
    let specs = job.replica_specs();
    let leads = |name: &str| {
        framework
            .replica_type(name)
            .is_some_and(|kind| framework.leaders.contains(&kind))
    };
    // The launcher of MPI only starts the others, but its command is the one that people look for.
    let spec = specs
        .iter()
        .find(|(name, _)| leads(name))
        .or_else(|| specs.iter().next())?;
    let containers = &spec.1.template.spec.as_ref()?.containers;
    let named = containers
        .iter()
        .find(|container| container.name == framework.container);
    named.or_else(|| containers.first())
}

fn trainer(container: &Container) -> Trainer {
    let words = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    Trainer {
        image: container.image.clone(),
        command: words(&container.command),
        args: words(&container.args),
        resources_per_node: container.resources.clone(),
        ..Trainer::default()
    }
}

/// How it ended, in the words of a TrainJob.
fn conditions(status: &LegacyJobStatus) -> Vec<Condition> {
    let types = [
        ("Succeeded", train_job::COMPLETE),
        ("Failed", train_job::FAILED),
        ("Suspended", train_job::SUSPENDED),
    ];
    let mut conditions = Vec::new();
    for (theirs, ours) in types {
        let found = status.conditions.iter().find(|c| c.type_ == theirs);
        conditions.extend(found.map(|condition| {
            let time = [
                condition.last_transition_time.clone(),
                status.completion_time.clone(),
            ];
            let time = time.into_iter().flatten().next();
            Condition {
                type_: ours.to_owned(),
                status: condition.status.clone(),
                reason: condition.reason.clone().unwrap_or_default(),
                message: condition.message.clone().unwrap_or_default(),
                last_transition_time: time.unwrap_or(Time(jiff::Timestamp::UNIX_EPOCH)),
                observed_generation: None,
            }
        }));
    }
    conditions
}
