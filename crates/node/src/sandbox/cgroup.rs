//! Limits and usage by cgroups, version 2 or 1, whichever the machine has.
//!
//! ```text
//! <hierarchy>/astrago/<pod uid>/supervisor     the supervisor, out of the agent's cgroup
//!                              /c-<container>  one container
//! ```
//! In version 1 the supervisor is in the pod's own.
//! An ordinary user gets `astrago` beside the agent's own cgroup, where that has been delegated. Where
//! nothing can be had, pods run without limits and say so.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::control::Usage;
use crate::spec::Limits;

mod hierarchy;

use hierarchy::Hierarchy;
pub(crate) use hierarchy::pods_share;

/// The cgroups of one pod, in every hierarchy that is of use.
#[derive(Clone, Debug)]
pub(crate) struct PodGroup {
    parts: Vec<(Hierarchy, PathBuf)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    parts: Vec<(Hierarchy, PathBuf)>,
}

impl PodGroup {
    /// Makes the pod's cgroups; says what is missing.
    pub(crate) fn create(uid: &str) -> (Option<Self>, Vec<String>) {
        let mut parts = Vec::new();
        // Processes and memory are also limited without cgroups, the latter less sharply.
        let mut missing: Vec<&str> = vec!["cpu"];
        for hierarchy in hierarchy::found() {
            let path = hierarchy.base().join(uid);
            if hierarchy.prepare(&path).is_ok() {
                missing.retain(|controller| !hierarchy.has(controller));
                parts.push((hierarchy, path));
            }
        }
        let mut warnings = Vec::new();
        if !missing.is_empty() {
            warnings.push(format!(
                "limits of {} are not enforced: this user may not create cgroups with these controllers on this machine",
                missing.join(", ")
            ));
        }
        ((!parts.is_empty()).then_some(Self { parts }), warnings)
    }

    /// Moves this process out of whatever cgroup it was started in.
    pub(crate) fn adopt_supervisor(&self) -> io::Result<()> {
        for (hierarchy, path) in &self.parts {
            // The first version has processes also where there are cgroups below.
            let own = if hierarchy.is_unified() {
                path.join("supervisor")
            } else {
                path.clone()
            };
            make(&own)?;
            fs::write(own.join("cgroup.procs"), "0")?;
        }
        Ok(())
    }

    /// The cgroups of a container, with its limits set. A limit that the kernel does not take is
    /// returned as a warning.
    pub(crate) fn container(&self, name: &str, limits: &Limits) -> (Group, Vec<String>) {
        let mut warnings = Vec::new();
        let mut parts = Vec::new();
        for (hierarchy, path) in &self.parts {
            let own = path.join(format!("c-{name}"));
            if let Err(error) = make(&own) {
                warnings.push(format!(
                    "limits of container {name} are not enforced: {error}"
                ));
                continue;
            }
            for (file, value) in hierarchy.settings(limits) {
                let target = own.join(&file);
                if !target.exists() && (file.contains("swap") || file.contains("memsw")) {
                    continue;
                }
                if let Err(error) = fs::write(target, &value) {
                    warnings.push(format!(
                        "{file}={value} of container {name} could not be set: {error}"
                    ));
                }
            }
            parts.push((hierarchy.clone(), own));
        }
        (Group { parts }, warnings)
    }

    /// The pod's usage as a whole.
    pub(crate) fn usage(&self) -> Usage {
        usage(&self.parts)
    }
}

impl Group {
    /// Moves this process into it.
    pub(crate) fn join(&self) -> io::Result<()> {
        self.parts
            .iter()
            .try_for_each(|(_, path)| fs::write(path.join("cgroup.procs"), "0"))
    }

    /// Whether memory is limited here.
    pub(crate) fn limits_memory(&self) -> bool {
        self.parts
            .iter()
            .any(|(hierarchy, _)| hierarchy.has("memory"))
    }

    /// How many processes were killed because memory ran out.
    pub(crate) fn out_of_memory_kills(&self) -> u64 {
        self.parts
            .iter()
            .filter_map(|(hierarchy, path)| hierarchy.out_of_memory_kills(path))
            .sum()
    }

    pub(crate) fn usage(&self) -> Usage {
        usage(&self.parts)
    }
}

/// Kills what is left in a pod's cgroups and removes them; for a pod without a supervisor.
pub(crate) fn remove(uid: &str) -> io::Result<()> {
    let mut result = Ok(());
    for hierarchy in hierarchy::found() {
        let path = hierarchy.base().join(uid);
        if path.is_dir() {
            result = result.and(remove_tree(&path));
        }
    }
    result
}

/// Moves this process, which is about to outlive its parent, out of the cgroup that it was started in.
pub(crate) fn leave() {
    for hierarchy in hierarchy::found() {
        // Where it may not, it stays, and ends when a service manager ends that cgroup.
        let _ = fs::write(hierarchy.mount().join("cgroup.procs"), "0");
    }
}

/// Removes the folder above all pods, if no pod is left in it.
pub(crate) fn remove_base() {
    for hierarchy in hierarchy::found() {
        let _ = fs::remove_dir(hierarchy.base());
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the kernel does not tell when the last process of a cgroup is reaped"
)]
fn remove_tree(path: &Path) -> io::Result<()> {
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let entries = match fs::read_dir(path) {
        // A supervisor that ends at this moment takes its own away.
        Err(error) if gone(&error) => return Ok(()),
        entries => entries?,
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path())?;
        }
    }
    if let Ok(processes) = fs::read_to_string(path.join("cgroup.procs")) {
        for process in processes.lines().filter_map(|line| line.parse().ok()) {
            let pid = nix::unistd::Pid::from_raw(process);
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
    }
    // Processes that were killed a moment ago still count until they are reaped.
    let mut result = Ok(());
    for _ in 0..50 {
        result = fs::remove_dir(path);
        match &result {
            Err(error) if error.raw_os_error() == Some(nix::libc::EBUSY) => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            Err(error) if gone(error) => return Ok(()),
            _ => break,
        }
    }
    result
}

fn usage(parts: &[(Hierarchy, PathBuf)]) -> Usage {
    let mut total = Usage::default();
    for (hierarchy, path) in parts {
        hierarchy.read_usage(path, &mut total);
    }
    total
}

/// Whether it was not there.
fn make(path: &Path) -> io::Result<bool> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        made => made.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_may_remove_the_same() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..200 {
            let path = folder.path().join(round.to_string());
            fs::create_dir_all(path.join("a/b")).unwrap();
            let other = path.clone();
            let removing = std::thread::spawn(move || remove_tree(&other));
            remove_tree(&path).unwrap();
            removing.join().unwrap().unwrap();
        }
    }
}
