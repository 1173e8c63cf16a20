//! Where the training code of a form comes from: its own text, a snapshot, git, or the image.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::{JobRequest, Mistakes};
use crate::model::{CreateRequest, FieldError, Refusal};
use crate::names;
use crate::snapshot::{Digest, Listing};

/// The code travels in a ConfigMap, which Kubernetes limits to 1 MiB with its metadata.
pub(crate) const MAX_CODE_BYTES: usize = 1_000_000;

/// The most files that travel in a ConfigMap: each is named in every pod.
const MAX_CONFIG_MAP_FILES: usize = 500;

/// The driver of the volumes by which the embedded engine's node mounts a snapshot.
pub(crate) const SNAPSHOT_DRIVER: &str = "snapshots.astrago.io";

/// Scripts that are started when nobody says which, the first that is there.
const ENTRIES: [&str; 2] = ["train.py", "main.py"];

#[derive(Clone, Debug)]
pub(crate) enum Code {
    /// The request has the text of `train.py`.
    Inline,
    /// A folder that was uploaded before.
    Snapshot(Digest),
    /// A repository that is cloned before the training starts.
    Git,
    /// The image brings it.
    Image,
}

/// How a snapshot reaches the nodes.
#[derive(Clone, Debug)]
pub(crate) enum Delivery {
    /// In a ConfigMap, which any cluster has: one key per file.
    ConfigMap(Files),
    /// From the data folder of the embedded engine.
    Engine,
}

/// Files by path: whether each can be executed, and its content.
pub(crate) type Files = BTreeMap<String, (bool, Vec<u8>)>;

impl Delivery {
    /// Whether this many files and bytes can travel in a ConfigMap.
    pub(crate) fn fits_config_map(listing: &Listing) -> bool {
        let names: usize = listing.files.keys().map(String::len).sum();
        listing.files.len() <= MAX_CONFIG_MAP_FILES
            && listing.bytes + names as u64 <= MAX_CODE_BYTES as u64
    }

    /// What to say to somebody whose code a cluster cannot take.
    pub(crate) fn refusal(listing: &Listing) -> String {
        format!(
            "has {} files of {} bytes, and a cluster takes code from a ConfigMap, which holds {MAX_CONFIG_MAP_FILES} \
             files of {MAX_CODE_BYTES} bytes; leave data out with .gitignore, or put larger projects into a git \
             repository, a volume or an image",
            listing.files.len(),
            listing.bytes
        )
    }
}

/// The script of a snapshot to start: as asked for, or the usual one.
pub(crate) fn entry(listing: &Listing, asked: Option<&str>) -> Result<String, FieldError> {
    if let Some(asked) = asked {
        if listing.files.contains_key(asked) {
            return Ok(asked.to_owned());
        }
        let message = format!("there is no file {asked:?} in the snapshot");
        return Err(FieldError::new("entry", message));
    }
    let usual = ENTRIES
        .into_iter()
        .find(|entry| listing.files.contains_key(*entry));
    usual.map(str::to_owned).ok_or_else(|| {
        let message = format!(
            "is required: there is no {} in the snapshot",
            ENTRIES.join(" or ")
        );
        FieldError::new("entry", message)
    })
}

pub(super) fn check(asked: &CreateRequest, mistakes: &mut Mistakes) -> Option<Code> {
    check_git(asked, mistakes);
    check_arguments(asked, mistakes);
    let given = [
        ("git_repository", &asked.git_repository),
        ("snapshot", &asked.snapshot),
        ("training_code", &asked.training_code),
    ];
    let mut given = given.iter().filter(|(_, given)| given.is_some());
    if let (Some((first, _)), Some((second, _))) = (given.next(), given.next()) {
        mistakes.push(
            *second,
            format!("give either {second} or {first}, not both"),
        );
    }
    if asked.entry.is_some() && asked.snapshot.is_none() {
        mistakes.push("entry", "needs snapshot");
    }
    if asked.git_repository.is_some() {
        return Some(Code::Git);
    }
    if let Some(snapshot) = &asked.snapshot {
        return mistakes
            .check("snapshot", snapshot.parse())
            .map(Code::Snapshot);
    }
    if mistakes.has("snapshot") || mistakes.has("git_repository") {
        // It was given and has the wrong type; that is one mistake, not two.
        return None;
    }
    check_text(asked, mistakes)
}

fn check_text(asked: &CreateRequest, mistakes: &mut Mistakes) -> Option<Code> {
    let Some(code) = &asked.training_code else {
        mistakes.push("training_code", Refusal::Required);
        return None;
    };
    // An image may bring its code, but then the request says so by an explicit empty string.
    if code.is_empty() && asked.command.is_some() {
        return Some(Code::Image);
    }
    if code.trim().is_empty() {
        mistakes.push("training_code", Refusal::Empty);
    }
    if code.len() > MAX_CODE_BYTES {
        let message = format!(
            "has {} bytes and may have {MAX_CODE_BYTES}; put larger projects into a git repository, \
             a volume or an image",
            code.len()
        );
        mistakes.push("training_code", message);
    }
    if code.contains('\0') {
        mistakes.push(
            "training_code",
            "must be text, and contains a NUL character",
        );
    }
    Some(Code::Inline)
}

/// The most that all arguments of a script may have together: the kernel takes 128 KiB for one, and the whole command
/// is one.
const MAX_ARGUMENT_BYTES: usize = 64 * 1024;

fn check_arguments(asked: &CreateRequest, mistakes: &mut Mistakes) {
    for (index, argument) in asked.arguments.iter().enumerate() {
        if argument.contains('\0') {
            mistakes.push(
                format!("arguments[{index}]"),
                "must not contain a NUL character",
            );
        }
    }
    if asked.arguments.iter().map(String::len).sum::<usize>() > MAX_ARGUMENT_BYTES {
        mistakes.push(
            "arguments",
            format!("may have at most {MAX_ARGUMENT_BYTES} bytes in all"),
        );
    }
}

fn check_git(asked: &CreateRequest, mistakes: &mut Mistakes) {
    if let Some(secret) = &asked.git_secret {
        mistakes.check("git_secret", super::name::check_subdomain(secret));
    }
    let Some(repository) = &asked.git_repository else {
        let given = [
            ("git_branch", asked.git_branch.is_some()),
            ("git_revision", asked.git_revision.is_some()),
            ("git_depth", asked.git_depth.is_some()),
            ("git_secret", asked.git_secret.is_some()),
        ];
        for (name, _) in given.iter().filter(|(_, given)| *given) {
            mistakes.push(*name, "needs git_repository");
        }
        return;
    };
    let schemes = ["https://", "http://", "ssh://", "git@", "file://"];
    if !schemes.iter().any(|scheme| repository.starts_with(scheme)) {
        let right = "https://host/group/project.git";
        mistakes.push("git_repository", Refusal::Url { right });
    }
    if asked.git_branch.is_some() && asked.git_revision.is_some() {
        let message = "give either git_branch or git_revision, not both";
        mistakes.push("git_revision", message);
    }
}

/// The variables of the init container that fetches the code.
pub(super) fn git_environment(asked: &CreateRequest) -> Vec<Value> {
    let depth = asked.git_depth.map(|depth| depth.to_string());
    let plain = [
        ("GIT_SYNC_REPO", asked.git_repository.as_ref()),
        ("GIT_SYNC_BRANCH", asked.git_branch.as_ref()),
        ("GIT_SYNC_REV", asked.git_revision.as_ref()),
        ("GIT_SYNC_DEPTH", depth.as_ref()),
    ];
    let plain = plain
        .into_iter()
        .filter_map(|(name, value)| Some(json!({ "name": name, "value": value? })));
    // The keys that Kubernetes gives to Secrets for basic authentication and for ssh.
    let keys = [
        ("GIT_SYNC_USERNAME", "username"),
        ("GIT_SYNC_PASSWORD", "password"),
        ("GIT_SYNC_SSH_KEY", "ssh-privatekey"),
        ("GIT_SYNC_KNOWN_HOSTS", "known_hosts"),
    ];
    let secret = keys.into_iter().filter_map(|(name, key)| {
        let key = json!({ "name": asked.git_secret.as_ref()?, "key": key, "optional": true });
        Some(json!({ "name": name, "valueFrom": { "secretKeyRef": key } }))
    });
    plain.chain(secret).collect()
}

/// The ConfigMap of a snapshot, which all jobs of the namespace with this code share.
pub(crate) fn snapshot_config_map(namespace: &str, digest: &Digest, files: &Files) -> ConfigMap {
    let labels = [
        (names::MANAGED_BY.to_owned(), names::ASTRAGO.to_owned()),
        (names::SNAPSHOT.to_owned(), short(digest).to_owned()),
    ];
    let content = files.values().enumerate();
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(snapshot_config_map_name(digest)),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels.into()),
            annotations: Some([(names::SNAPSHOT.to_owned(), digest.to_string())].into()),
            ..ObjectMeta::default()
        },
        binary_data: Some(
            content
                .map(|(index, (_, bytes))| (key(index), ByteString(bytes.clone())))
                .collect(),
        ),
        immutable: Some(true),
        ..ConfigMap::default()
    }
}

pub(crate) fn snapshot_config_map_name(digest: &Digest) -> String {
    format!("code-{}", short(digest))
}

/// Enough of a digest to be unique in a namespace, and short enough for a label.
pub(crate) fn short(digest: &Digest) -> &str {
    &digest.digits()[..32]
}

/// The name of a file's key. Keys are flat and paths are not, so the pod maps one to the other.
fn key(index: usize) -> String {
    format!("file-{index}")
}

/// The volume in which a snapshot reaches the pods.
pub(super) fn snapshot_volume(digest: &Digest, delivery: &Delivery) -> Value {
    match delivery {
        Delivery::ConfigMap(files) => {
            let item = |(index, (path, (executable, _))): (usize, (&String, &(bool, Vec<u8>)))| {
                let mode = if *executable { 0o755 } else { 0o644 };
                json!({ "key": key(index), "path": path, "mode": mode })
            };
            let items: Vec<Value> = files.iter().enumerate().map(item).collect();
            let map = snapshot_config_map_name(digest);
            json!({ "name": "train-script", "configMap": { "name": map, "items": items } })
        }
        Delivery::Engine => json!({
            "name": "train-script",
            "csi": {
                "driver": SNAPSHOT_DRIVER,
                "readOnly": true,
                "volumeAttributes": { "digest": digest.to_string() },
            },
        }),
    }
}

impl JobRequest {
    /// The lines for the shell that run the user's code: their own command, or the one that starts their script.
    pub(super) fn command(&self) -> String {
        if let Some(command) = &self.asked.command {
            return command.clone();
        }
        let words = std::iter::once(&self.script).chain(&self.asked.arguments);
        // What has a NUL was refused, and nothing else cannot be quoted.
        let words = shlex::try_join(words.map(String::as_str)).unwrap_or_default();
        let interpreter = self.framework.interpreter(self.asked.nproc_per_node);
        // Lines of the log are to be seen when they are printed.
        format!("export PYTHONUNBUFFERED=1\n{interpreter} {words}")
    }
}
