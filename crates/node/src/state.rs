//! What became of a pod, as its supervisor writes it down.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::phase::Phase;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub phase: Phase,
    /// Why the pod as a whole failed, when that is not a container's doing (`DeadlineExceeded` …).
    pub reason: Option<String>,
    pub message: Option<String>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// Why the node ended the pod, when nobody asked for it: not a failure of what the pod runs.
    #[serde(default)]
    pub disruption: Option<String>,
    /// Things that could not be had on this machine, for events.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The pod has been asked to stop; nothing more is started.
    #[serde(default)]
    pub stopping: bool,
    #[serde(default)]
    pub init_containers: Vec<ContainerState>,
    #[serde(default)]
    pub containers: Vec<ContainerState>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContainerState {
    pub name: String,
    /// 0 for the first start, one more for each start after that; names the log file.
    pub attempt: u32,
    pub status: Status,
    /// How often it ended in a row without having run for long; decides about the back-off.
    #[serde(default)]
    pub crashes: u32,
    /// How the attempt before this one ended.
    pub last: Option<Terminated>,
    /// The startup probe, if any, succeeded.
    #[serde(default)]
    pub started: bool,
    #[serde(default)]
    pub ready: bool,
    /// What the last probe said that failed, until one of its kind succeeds; for events.
    #[serde(default)]
    pub unhealthy: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Status {
    Waiting {
        reason: String,
        message: Option<String>,
    },
    Running {
        started_at: Timestamp,
    },
    Terminated(Terminated),
}

impl Default for Status {
    fn default() -> Self {
        Self::Waiting {
            reason: "PodInitializing".to_owned(),
            message: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terminated {
    /// 128 + signal when a signal ended it.
    pub exit_code: i32,
    pub signal: Option<i32>,
    /// `Completed`, `Error`, `OOMKilled`, `StartError` …
    pub reason: String,
    pub message: Option<String>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Timestamp,
}

impl State {
    /// Reads the state file; `None` when there is none yet.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(Error::Read {
                    path: path.to_owned(),
                    source,
                });
            }
        };
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| Error::Parse {
                path: path.to_owned(),
                source,
            })
    }

    /// Replaces the state file; a reader sees the old or the new one, never a part.
    pub fn write(&self, path: &Path) -> Result<()> {
        let bytes = serde_json::to_vec(self).map_err(|source| Error::Parse {
            path: path.to_owned(),
            source,
        })?;
        put(path, &bytes, self.has_an_end()).map_err(|source| Error::Write {
            path: path.to_owned(),
            source,
        })
    }

    /// Whether it tells how something ended, which must not be forgotten, also when the power fails. That
    /// something runs is no longer true then, and a pod that ran and has no state is known to be lost; so
    /// nobody waits for the disk before a container starts.
    fn has_an_end(&self) -> bool {
        let mut all = self.all();
        self.phase.is_finished()
            || all.any(|container| container.terminated().is_some() || container.last.is_some())
    }

    /// The state of a pod that ran and whose files are lost, as after a power failure. How its
    /// containers ended is not known, only that they did.
    pub(crate) fn lost(init_containers: &[String], containers: &[String], now: Timestamp) -> Self {
        let message = "the node lost what it knew about this pod, perhaps in a power failure";
        let ended = |name: &String| ContainerState {
            name: name.clone(),
            status: Status::Terminated(Terminated {
                exit_code: 137,
                signal: None,
                reason: "ContainerStatusUnknown".to_owned(),
                message: Some(message.to_owned()),
                started_at: None,
                finished_at: now,
            }),
            ..ContainerState::default()
        };
        Self {
            phase: Phase::Failed,
            reason: Some("Lost".to_owned()),
            message: Some(message.to_owned()),
            finished_at: Some(now),
            init_containers: init_containers.iter().map(ended).collect(),
            containers: containers.iter().map(ended).collect(),
            ..Self::default()
        }
    }

    /// Writes down that the node ends the pod of its own accord: whatever its containers then return,
    /// it has not done what it was to do.
    pub(crate) fn disrupt(&mut self, why: String) {
        self.reason = Some("Terminated".to_owned());
        self.message = Some(why.clone());
        self.disruption = Some(why);
    }

    /// All containers, init containers first.
    pub fn all(&self) -> impl Iterator<Item = &ContainerState> {
        self.init_containers.iter().chain(&self.containers)
    }

    pub fn container(&self, name: &str) -> Option<&ContainerState> {
        self.all().find(|container| container.name == name)
    }
}

impl ContainerState {
    /// A process of this container may exist.
    pub fn is_running(&self) -> bool {
        matches!(self.status, Status::Running { .. })
    }

    /// How the current attempt ended, if it has.
    pub fn terminated(&self) -> Option<&Terminated> {
        match &self.status {
            Status::Terminated(terminated) => Some(terminated),
            Status::Waiting { .. } | Status::Running { .. } => None,
        }
    }
}

/// Replaces a file so that a reader sees the old or the new one, never a part, also after the power
/// failed.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    put(path, content, true)
}

/// The same; what is not `kept` may be gone or empty after the power failed, if there was nothing before.
pub(crate) fn put(path: &Path, content: &[u8], kept: bool) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let draft = path.with_file_name(name);
    let mut file = File::create(&draft)?;
    file.write_all(content)?;
    if kept {
        file.sync_all()?;
    }
    std::fs::rename(&draft, path)?;
    match path.parent().filter(|_| kept) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("failed to read {}", path.display())]
    Read {
        path: std::path::PathBuf,
        source: std::io::Error,
    },
    #[error("failed to write {}", path.display())]
    Write {
        path: std::path::PathBuf,
        source: std::io::Error,
    },
    #[error("{} is not a state file", path.display())]
    Parse {
        path: std::path::PathBuf,
        source: serde_json::Error,
    },
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_something_ended_is_kept_and_that_it_runs_is_not_waited_for() {
        let running = ContainerState {
            status: Status::Running {
                started_at: Timestamp::UNIX_EPOCH,
            },
            ..ContainerState::default()
        };
        let mut state = State {
            phase: Phase::Running,
            containers: vec![running.clone(), running],
            ..State::default()
        };
        assert!(!state.has_an_end());
        let lost = State::lost(&[], &["main".to_owned()], Timestamp::UNIX_EPOCH);
        state.containers[0] = lost.containers[0].clone();
        assert!(state.has_an_end() && lost.has_an_end());
        // Started again: the end before it is still told.
        state.containers[0].last = state.containers[0].terminated().cloned();
        state.containers[0].status = Status::default();
        assert!(state.has_an_end());
    }
}
