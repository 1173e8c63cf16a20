//! Logs, from the pods while they exist.

use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, ResourceExt};

use super::{Error, Result, jobs};
use crate::context::Context;
use crate::identity::Caller;
use crate::model::WorkerLogs;
use crate::view::{self, Job};
use crate::world::Key;

/// Which part of a log is wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) tail: Option<i64>,
    pub(crate) since_seconds: Option<i64>,
    /// The attempt before the current one.
    pub(crate) previous: bool,
    pub(crate) timestamps: bool,
}

impl Selection {
    fn parameters(&self, container: &str) -> LogParams {
        LogParams {
            container: Some(container.to_owned()),
            previous: self.previous,
            tail_lines: self.tail,
            since_seconds: self.since_seconds,
            timestamps: self.timestamps,
            ..LogParams::default()
        }
    }
}

/// One worker's log as text.
pub(crate) async fn worker(
    context: &Context,
    caller: &Caller,
    key: &Key,
    worker: i64,
    selection: &Selection,
) -> Result<WorkerLogs> {
    let job = jobs::find(context, caller, key).await?;
    let logs = match pod_of(&job, key, worker)? {
        Some(pod) => text(context, caller, pod, selection).await?,
        None => String::new(),
    };
    Ok(WorkerLogs {
        trainjob_name: key.name.clone(),
        worker,
        logs,
    })
}

/// The pod of a worker; `None` while it does not exist yet.
pub(crate) fn pod_of<'job>(job: &'job Job, key: &Key, worker: i64) -> Result<Option<&'job Pod>> {
    if let Some(pod) = view::node_of(&job.pods, worker) {
        return Ok(Some(pod));
    }
    if worker < job.num_nodes {
        return Ok(None);
    }
    let last = job.num_nodes - 1;
    Err(Error::NotFound {
        kind: "worker",
        name: format!("{worker} (the workers of {} are 0 to {last})", key.name),
        namespace: key.namespace.clone(),
    })
}

/// The log of one pod's training container, or of the init container that failed before it.
pub(crate) async fn text(
    context: &Context,
    caller: &Caller,
    pod: &Pod,
    selection: &Selection,
) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(
        context.gate.client(caller),
        &pod.namespace().unwrap_or_default(),
    );
    let container = container_of(pod);
    match pods
        .logs(&pod.name_any(), &selection.parameters(&container))
        .await
    {
        Ok(text) => Ok(text),
        // Not started yet, no previous attempt, or gone since the cache last looked.
        Err(kube::Error::Api(status)) if status.code == 400 || status.code == 404 => {
            Ok(String::new())
        }
        Err(error) => Err(Error::cluster("read the log", error)),
    }
}

/// The container whose log tells most: an init container that failed, else the training one.
pub(crate) fn container_of(pod: &Pod) -> String {
    let init = pod
        .status
        .as_ref()
        .and_then(|status| status.init_container_statuses.as_ref());
    let failed = init.into_iter().flatten().find(|status| {
        let terminated = status
            .state
            .as_ref()
            .and_then(|state| state.terminated.as_ref());
        terminated.is_some_and(|terminated| terminated.exit_code != 0)
    });
    if let Some(failed) = failed {
        return failed.name.clone();
    }
    let names = || {
        pod.spec
            .iter()
            .flat_map(|spec| &spec.containers)
            .map(|container| container.name.as_str())
    };
    names()
        .find(|name| *name == "node")
        .or_else(|| names().next())
        .unwrap_or("node")
        .to_owned()
}
