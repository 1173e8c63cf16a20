//! Keeping a job's record while it changes.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};

use super::{events, jobs};
use crate::context::Context;
use crate::form::manifest;
use crate::history::{self, Record};
use crate::view::Job;
use crate::world::Key;

/// Writes the record of a job as it is now.
pub(crate) async fn write(context: &Context, key: &Key) {
    let Some(job) = Job::find(&context.world.mirrors, key) else {
        return;
    };
    let uid = job.job.uid().unwrap_or_default();
    let detail = jobs::lasting(context, &job);
    let finished = detail.summary.state.is_finished();
    // Code does not change: it is stored once, and with most jobs there has been time for that.
    let code = if context.history.has_code(&uid).unwrap_or(false) {
        None
    } else {
        code_of(context, key).await
    };
    let manifest = jobs::stored(&context.world.mirrors, key, &job);
    let events = events::so_far(context, key, &job.job);
    let ledger = context.ledger.note(&context.history, &job, context.now());
    let record = Record {
        detail,
        manifest,
        code,
        events,
        ledger,
    };
    report(context.history.put(&record, context.now()), key);
    let costs = job.usage_of_pods(context.now());
    report(context.history.put_costs(&uid, &costs), key);
    super::webhooks::notice(context, &record.detail.summary);
    if finished && context.logbook.all_complete(&uid) {
        context.logbook.forget(&uid);
    }
}

/// Notes that a job is gone.
pub(crate) fn gone(context: &Context, key: &Key) {
    context.ledger.forget(key);
    report(
        context
            .history
            .gone(&key.namespace, &key.name, context.now()),
        key,
    );
}

/// The code of a job, as its ConfigMap has it.
pub(crate) async fn code_of(context: &Context, key: &Key) -> Option<String> {
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), &key.namespace);
    let map = maps
        .get_opt(&manifest::code_config_map_name(&key.name))
        .await
        .ok()
        .flatten()?;
    map.data?.remove("train.py")
}

fn report(result: history::Result<()>, key: &Key) {
    if let Err(error) = result {
        let error = crate::error::chain(&error);
        tracing::error!(
            namespace = key.namespace,
            job = key.name,
            error,
            "failed to keep the job's record"
        );
    }
}
