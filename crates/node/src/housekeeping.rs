//! Deleting what is no longer needed: logs of pods that are gone, images and unpacked code that no pod
//! uses, and the files of volume claims that were deleted a while ago.
//!
//! What is in use is read from the pods' folders each time, so it is right whoever made them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::agent::claims;
use crate::image::Images;
use crate::layout::{self, PodDir};
use crate::logs::{self, Retention};
use crate::spec::{Mount, PodSpec, Root};
use crate::state::State;
use crate::tree;

const INTERVAL: Duration = Duration::from_mins(5);

/// Code that was asked for within this time may be for a pod whose files are not written yet.
const SNAPSHOT_GRACE: Duration = Duration::from_mins(10);

/// Cleans up now and then, for as long as it is polled.
pub(crate) async fn run(data_dir: PathBuf, images: Option<Images>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        clean(&data_dir, images.as_ref()).await;
    }
}

async fn clean(data_dir: &Path, images: Option<&Images>) {
    let folder = data_dir.to_owned();
    let cleaned = tokio::task::spawn_blocking(move || {
        let in_use = InUse::read(&folder);
        clean_snapshots(&folder, &in_use.folders, SNAPSHOT_GRACE);
        claims::remove_deleted(&folder, claims::GRACE);
        logs::collect(&folder, &in_use.pods, Retention::default()).map(|deleted| (in_use, deleted))
    });
    let in_use = match cleaned.await {
        Ok(Ok((in_use, deleted))) => {
            if deleted > 0 {
                tracing::info!(deleted, "deleted logs of pods that are gone");
            }
            in_use
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "failed to clean up logs");
            return;
        }
        // The runtime stops.
        Err(_) => return,
    };
    if let Some(images) = images {
        match images.clean(in_use.layers).await {
            Ok(0) => {}
            Ok(freed) => tracing::info!(freed, "deleted images that no pod uses"),
            Err(error) => tracing::warn!(%error, "failed to clean up images"),
        }
    }
}

/// Deletes unpacked snapshots that no pod mounts.
fn clean_snapshots(data_dir: &Path, in_use: &BTreeSet<PathBuf>, grace: Duration) {
    let old = |folder: &Path| {
        let modified = std::fs::metadata(folder).and_then(|metadata| metadata.modified());
        modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age >= grace))
    };
    for folder in entries(&layout::snapshots(data_dir)).flat_map(|namespace| entries(&namespace)) {
        if in_use.contains(&folder) || !old(&folder) {
            continue;
        }
        match tree::remove(&folder) {
            Ok(()) => {
                tracing::info!(folder = %folder.display(), "deleted code that no pod uses");
            }
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "failed to delete unused code");
            }
        }
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// What the pods on this node hold. Those that have ended hold their logs only.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct InUse {
    /// UIDs.
    pods: BTreeSet<String>,
    /// Directories of image layers.
    layers: BTreeSet<PathBuf>,
    /// What they mount of this machine.
    folders: BTreeSet<PathBuf>,
}

impl InUse {
    /// Whether a pod mounts this folder.
    pub(crate) fn has(&self, folder: &Path) -> bool {
        self.folders.contains(folder)
    }

    pub(crate) fn read(data_dir: &Path) -> Self {
        let mut in_use = Self::default();
        for entry in std::fs::read_dir(layout::pods(data_dir))
            .into_iter()
            .flatten()
            .flatten()
        {
            in_use.pods.extend(entry.file_name().into_string());
            let dir = PodDir::at(entry.path());
            let state = State::read(&dir.state()).ok().flatten();
            if state.is_some_and(|state| state.phase.is_finished()) {
                continue;
            }
            let spec = std::fs::read(dir.spec()).ok();
            let spec = spec.and_then(|bytes| serde_json::from_slice::<PodSpec>(&bytes).ok());
            for container in spec
                .iter()
                .flat_map(|spec| spec.init_containers.iter().chain(&spec.containers))
            {
                if let Root::Layers { lower } = &container.root {
                    in_use.layers.extend(lower.iter().cloned());
                }
                for mount in &container.mounts {
                    if let Mount::Bind { source, .. } = mount {
                        in_use.folders.insert(source.clone());
                    }
                }
            }
        }
        in_use
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::{Limits, Stream, Writer};

    #[test]
    fn code_goes_when_no_pod_mounts_it() {
        let directory = tempfile::tempdir().unwrap();
        let team = layout::snapshots(directory.path()).join("team");
        for name in ["used", "unused"] {
            std::fs::create_dir_all(team.join(name)).unwrap();
        }
        let in_use = BTreeSet::from([team.join("used")]);
        clean_snapshots(directory.path(), &in_use, SNAPSHOT_GRACE);
        assert!(team.join("unused").exists(), "it is young");
        clean_snapshots(directory.path(), &in_use, Duration::ZERO);
        assert_eq!(entries(&team).collect::<Vec<_>>(), [team.join("used")]);
    }

    #[tokio::test]
    async fn logs_of_pods_that_are_here_stay() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(layout::pods(directory.path()).join("uid-0")).unwrap();
        assert_eq!(
            InUse::read(directory.path()).pods,
            BTreeSet::from(["uid-0".to_owned()])
        );
        let logs = layout::pod_logs(directory.path(), "team", "job", "uid-0");
        let mut writer = Writer::open(&logs, "main", 0, Limits::default()).unwrap();
        writer.write_stream(Stream::Stdout, b"text\n").unwrap();
        drop(writer);
        clean(directory.path(), None).await;
        assert!(logs.join("main/0.log").exists());
    }
}
