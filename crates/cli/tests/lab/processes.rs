//! What the kernel and the disk still have of a server and its pods.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::server::send;

/// The pods that the node has a folder of: their uids, and their names.
pub(crate) fn pods(data: &Path) -> BTreeMap<String, String> {
    let folders = std::fs::read_dir(data.join("node/pods"));
    let mut pods = BTreeMap::new();
    for folder in folders.into_iter().flatten().flatten() {
        let spec = std::fs::read(folder.path().join("pod.json")).unwrap_or_default();
        let spec: Value = serde_json::from_slice(&spec).unwrap_or_default();
        let name = spec["name"].as_str().unwrap_or_default().to_owned();
        pods.insert(folder.file_name().to_string_lossy().into_owned(), name);
    }
    pods
}

pub(crate) struct Process {
    pub(crate) id: u32,
    pub(crate) command: String,
    cgroup: String,
    mounts: String,
}

impl Process {
    fn all() -> impl Iterator<Item = Self> {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
            let text = |name: &str| String::from_utf8_lossy(&read(name)).replace('\0', " ");
            Some(Self {
                id,
                command: text("cmdline"),
                cgroup: text("cgroup"),
                mounts: text("mounts"),
            })
        })
    }

    pub(crate) fn supervises(&self, pod: &str) -> bool {
        self.command.contains(" supervise ") && self.command.contains(pod)
    }

    fn trains(&self, pod: &str) -> bool {
        self.cgroup.contains(pod) && self.command.contains("train.py")
    }
}

pub(crate) fn supervisors(pod: &str) -> Vec<u32> {
    let found = Process::all().filter(|process| process.supervises(pod));
    found.map(|process| process.id).collect()
}

pub(crate) fn ranks(pod: &str) -> Vec<u32> {
    let found = Process::all().filter(|process| process.trains(pod));
    found.map(|process| process.id).collect()
}

/// Ends all pods of a data folder.
pub(crate) fn kill(data: &Path) {
    let mark = data.join("node/pods").display().to_string();
    for process in Process::all().filter(|process| process.supervises(&mark)) {
        send(process.id, Signal::KILL);
    }
}

/// Everything that should not be there when no job is: processes, mounts, cgroups, files.
pub(crate) fn left(
    data: &Path,
    server: Option<u32>,
    pods: &BTreeSet<String>,
    folders: &[&str],
) -> BTreeSet<String> {
    let mut left = BTreeSet::new();
    let node = data.join("node");
    let mark = node.join("pods").display().to_string();
    for process in Process::all().filter(|process| Some(process.id) != server) {
        let Process { id, command, .. } = &process;
        if command.contains(&mark) || pods.iter().any(|pod| process.cgroup.contains(pod)) {
            left.insert(format!("process {id}: {command}"));
        }
        if process.mounts.contains(&mark) {
            left.insert(format!("a mount in process {id}: {command}"));
        }
    }
    for pod in pods {
        left.extend(cgroups(pod).iter().map(|path| path.display().to_string()));
    }
    for folder in folders {
        let entries = std::fs::read_dir(node.join(folder));
        let entries = entries.into_iter().flatten().flatten();
        left.extend(entries.map(|entry| entry.path().display().to_string()));
    }
    left
}

/// The host's end of the pods' way out, as the node names it.
pub(crate) fn link(data: &Path) -> PathBuf {
    use sha2::Digest as _;
    use std::os::unix::fs::MetadataExt as _;
    let folder = data.join("node/egress");
    let place = std::fs::metadata(&folder).map_or(0, |metadata| metadata.ino());
    let digest = sha2::Sha256::digest(format!("{} {place}", folder.display()).as_bytes());
    let name = format!("astrago{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2]);
    Path::new("/sys/class/net").join(name)
}

fn cgroups(pod: &str) -> Vec<PathBuf> {
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten();
    hierarchies
        .flatten()
        .map(|entry| entry.path().join("astrago").join(pod))
        .chain([PathBuf::from("/sys/fs/cgroup/astrago").join(pod)])
        .filter(|path| path.exists())
        .collect()
}

/// Open descriptors, and kilobytes of memory, of a process.
pub(crate) fn footprint(id: u32) -> (usize, u64) {
    let descriptors = std::fs::read_dir(format!("/proc/{id}/fd")).map_or(0, Iterator::count);
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let memory = memory.and_then(|text| text.split_whitespace().next()?.parse().ok());
    (descriptors, memory.unwrap_or(0))
}
