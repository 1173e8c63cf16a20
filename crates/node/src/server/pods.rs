//! Pods of this node, as the data directory knows them.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Json;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Error, Result, Server, State};
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
    pub(super) folder: Option<(PodDir, Arc<Identity>)>,
    /// Its logs, which outlive the folder.
    pub(super) logs: PathBuf,
}

impl Found {
    pub(super) fn find(server: &Server, namespace: &str, pod: &str) -> Result<Self> {
        let missing = || Error::NoSuchPod {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
        };
        let is_it = |spec: &Identity| spec.namespace == namespace && spec.name == pod;
        let here = server
            .identities
            .find(&server.data_dir, is_it)
            .map_err(Error::Pods)?
            .into_iter()
            // Of a pod that is ending and its successor of the same name, the successor.
            .max_by_key(|(folder, _)| created(folder.path()));
        if let Some((folder, spec)) = here {
            let logs = layout::pod_logs(&server.data_dir, namespace, pod, &spec.uid);
            return Ok(Self {
                name: pod.to_owned(),
                folder: Some((folder, spec)),
                logs,
            });
        }
        let logs = crate::logs::find_pod(&server.data_dir, namespace, pod)
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

/// Whose the folders of pods are, which does not change as long as there is a folder. To read all of them for every
/// request would make the logs of many pods cost the square of their number.
#[derive(Default)]
pub(super) struct Identities(Mutex<HashMap<OsString, Arc<Identity>>>);

impl Identities {
    /// The folders of those pods that `is_it` picks, if they are complete.
    pub(super) fn find(
        &self,
        data_dir: &Path,
        is_it: impl Fn(&Identity) -> bool,
    ) -> io::Result<Vec<(PodDir, Arc<Identity>)>> {
        let pods = layout::pods(data_dir);
        let names: HashSet<OsString> = match std::fs::read_dir(&pods) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => HashSet::new(),
            entries => entries?
                .map(|entry| entry.map(|entry| entry.file_name()))
                .collect::<io::Result<_>>()?,
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|name, _| names.contains(name));
        for name in names {
            if !known.contains_key(&name)
                && let Ok(content) = std::fs::read(PodDir::at(pods.join(&name)).spec())
                && let Ok(identity) = serde_json::from_slice(&content)
            {
                known.insert(name, Arc::new(identity));
            }
        }
        let found = known.iter().filter(|(_, identity)| is_it(identity));
        let found =
            found.map(|(name, identity)| (PodDir::at(pods.join(name)), Arc::clone(identity)));
        Ok(found.collect())
    }
}

fn created(path: &Path) -> Option<std::time::SystemTime> {
    let metadata = std::fs::metadata(path).ok()?;
    metadata.created().or_else(|_| metadata.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_pod_is_read_once_for_as_long_as_it_is_there() {
        let data = tempfile::tempdir().unwrap();
        let identities = Identities::default();
        let find = |name: &str| -> Vec<String> {
            let found = identities
                .find(data.path(), |pod| pod.name == name)
                .unwrap();
            found.into_iter().map(|(_, pod)| pod.uid.clone()).collect()
        };
        assert!(find("a").is_empty());
        let folder = layout::pods(data.path()).join("1");
        std::fs::create_dir_all(&folder).unwrap();
        assert!(find("a").is_empty(), "it is not complete yet");
        let write = |name: &str| {
            let spec = json!({ "uid": "1", "namespace": "n", "name": name, "containers": [] });
            std::fs::write(folder.join("pod.json"), spec.to_string()).unwrap();
        };
        write("a");
        assert_eq!(find("a"), ["1"]);
        write("b");
        assert_eq!(
            (find("a").len(), find("b").len()),
            (1, 0),
            "it is not read again"
        );
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(find("a").is_empty());
        std::fs::create_dir_all(&folder).unwrap();
        write("b");
        assert_eq!(
            find("b"),
            ["1"],
            "another folder of that name is another pod's"
        );
    }
}
