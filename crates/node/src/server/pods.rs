//! Pods of this node, as the data directory knows them.

use std::io;
use std::path::{Path, PathBuf};

use axum::Json;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Error, Options, Result, State};
use crate::layout::{self, PodDir};
use crate::state::{ContainerState, State as PodState};

/// The pods bound to this node, from the API server.
pub(super) async fn serve(axum::extract::State(options): State) -> Result<Json<Value>> {
    let client = options.collector.api().ok_or(Error::Starting)?;
    let selector = format!("spec.nodeName={}", options.node_name);
    let pods: Api<Pod> = Api::all(client);
    let list = pods.list(&ListParams::default().fields(&selector)).await?;
    Ok(Json(
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list.items}),
    ))
}

/// A pod that is, or was, on this node.
pub(super) struct Found {
    pub(super) name: String,
    /// Its folder, as long as the pod is here.
    pub(super) folder: Option<(PodDir, Identity)>,
    /// Its logs, which outlive the folder.
    pub(super) logs: PathBuf,
}

impl Found {
    pub(super) fn find(options: &Options, namespace: &str, pod: &str) -> Result<Self> {
        let missing = || Error::NoSuchPod {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
        };
        let here = specs(&options.data_dir)
            .map_err(Error::Pods)?
            .into_iter()
            .filter(|(_, spec)| spec.namespace == namespace && spec.name == pod)
            // Of a pod that is ending and its successor of the same name, the successor.
            .max_by_key(|(folder, _)| created(folder.path()));
        if let Some((folder, spec)) = here {
            let logs = layout::pod_logs(&options.data_dir, namespace, pod, &spec.uid);
            return Ok(Self {
                name: pod.to_owned(),
                folder: Some((folder, spec)),
                logs,
            });
        }
        let logs = crate::logs::find_pod(&options.data_dir, namespace, pod)
            .map_err(Error::Log)?
            .ok_or_else(missing)?;
        Ok(Self {
            name: pod.to_owned(),
            folder: None,
            logs,
        })
    }

    /// Fails for a container that the pod does not have. Where only logs are left, they tell.
    pub(super) fn check_container(&self, container: &str) -> Result<()> {
        let is_known = match &self.folder {
            Some((_, spec)) => spec
                .init_containers
                .iter()
                .chain(&spec.containers)
                .any(|known| known.name == container),
            // The name is part of a path.
            None => !container.contains(['/', '.']) && self.logs.join(container).is_dir(),
        };
        if is_known {
            return Ok(());
        }
        Err(Error::NoSuchContainer {
            pod: self.name.clone(),
            container: container.to_owned(),
        })
    }

    pub(super) fn container_state(&self, container: &str) -> Option<ContainerState> {
        let (folder, _) = self.folder.as_ref()?;
        PodState::read(&folder.state())
            .ok()??
            .container(container)
            .cloned()
    }
}

/// The part of `pod.json` that the endpoints need. The rest may change between versions without
/// making a running pod's logs unreachable.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Identity {
    pub(super) uid: String,
    pub(super) namespace: String,
    pub(super) name: String,
    #[serde(default)]
    init_containers: Vec<Named>,
    containers: Vec<Named>,
}

#[derive(Clone, Debug, Deserialize)]
struct Named {
    name: String,
}

/// What the supervisors were told, for every pod folder that is complete.
pub(super) fn specs(data_dir: &Path) -> io::Result<Vec<(PodDir, Identity)>> {
    let entries = match std::fs::read_dir(layout::pods(data_dir)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut specs = Vec::new();
    for entry in entries {
        let folder = PodDir::at(entry?.path());
        let spec = std::fs::read(folder.spec())
            .ok()
            .and_then(|content| serde_json::from_slice(&content).ok());
        specs.extend(spec.map(|spec| (folder, spec)));
    }
    Ok(specs)
}

fn created(path: &Path) -> Option<std::time::SystemTime> {
    let metadata = std::fs::metadata(path).ok()?;
    metadata.created().or_else(|_| metadata.modified()).ok()
}
