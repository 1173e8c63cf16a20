//! Where the training code of a form comes from: its own text, a snapshot, git, or the image.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::fields::Fields;
use super::{SCRIPTS, checked};
use crate::model::{FieldError, Refusal};
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

/// Where the training code comes from.
#[derive(Clone, Debug)]
pub(crate) enum Code {
    /// The text of `train.py`.
    Inline(String),
    /// A folder that was uploaded before.
    Snapshot {
        digest: Digest,
        entry: Option<String>,
    },
    /// A repository that is cloned before the training starts.
    Git(Git),
    /// The image brings it.
    Image,
}

/// What is fetched from where.
#[derive(Clone, Debug)]
pub(crate) struct Git {
    repository: String,
    branch: Option<String>,
    /// A branch, tag or full commit.
    revision: Option<String>,
    depth: Option<i64>,
    /// The Secret with `username` and `password`, or with `ssh-privatekey`.
    secret: Option<String>,
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
    /// Whether so many files and bytes can travel in a ConfigMap.
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

pub(super) fn read(
    fields: &mut Fields<'_>,
    has_command: bool,
    errors: &mut Vec<FieldError>,
) -> Option<Code> {
    let git = read_git(fields, errors);
    let snapshot = fields
        .text("snapshot", errors)
        .and_then(|text| checked(fields, "snapshot", text.parse::<Digest>(), errors));
    let entry = fields.text("entry", errors).map(str::to_owned);
    let given = [
        ("git_repository", git.is_some()),
        ("snapshot", snapshot.is_some()),
        ("training_code", fields.take("training_code").is_some()),
    ];
    let mut given = given
        .iter()
        .filter(|(_, given)| *given)
        .map(|(name, _)| *name);
    if let (Some(first), Some(second)) = (given.next(), given.next()) {
        let message = format!("give either {second} or {first}, not both");
        errors.push(FieldError::new(second, message));
    }
    if entry.is_some() && snapshot.is_none() {
        errors.push(FieldError::new("entry", "needs snapshot"));
    }
    if let Some(git) = git {
        return Some(Code::Git(git));
    }
    if let Some(digest) = snapshot {
        return Some(Code::Snapshot { digest, entry });
    }
    if fields.take("snapshot").is_some() {
        // It was given and is wrong; that is one mistake, not two.
        return None;
    }
    read_text(fields, has_command, errors)
}

fn read_text(
    fields: &mut Fields<'_>,
    has_command: bool,
    errors: &mut Vec<FieldError>,
) -> Option<Code> {
    // An image may bring its code, but then the request says so by an explicit empty string.
    if has_command && fields.take("training_code").and_then(Value::as_str) == Some("") {
        return Some(Code::Image);
    }
    let code = fields.required_text("training_code", errors)?;
    if code.len() > MAX_CODE_BYTES {
        errors.push(FieldError::new(
            "training_code",
            format!(
                "has {} bytes and may have {MAX_CODE_BYTES}; put larger projects into a git repository, \
                 a volume or an image",
                code.len()
            ),
        ));
    }
    if code.contains('\0') {
        errors.push(FieldError::new(
            "training_code",
            "must be text, and contains a NUL character",
        ));
    }
    Some(Code::Inline(code.to_owned()))
}

fn read_git(fields: &mut Fields<'_>, errors: &mut Vec<FieldError>) -> Option<Git> {
    let repository = fields.text("git_repository", errors);
    let git = Git {
        repository: repository.unwrap_or_default().to_owned(),
        branch: fields.text("git_branch", errors).map(str::to_owned),
        revision: fields.text("git_revision", errors).map(str::to_owned),
        depth: fields.integer("git_depth", 0..=1_000_000, errors),
        secret: fields
            .text("git_secret", errors)
            .filter(|secret| {
                let name = super::name::check_subdomain(secret);
                checked(fields, "git_secret", name, errors).is_some()
            })
            .map(str::to_owned),
    };
    let Some(repository) = repository else {
        let given = [
            ("git_branch", git.branch.is_some()),
            ("git_revision", git.revision.is_some()),
            ("git_depth", git.depth.is_some()),
            ("git_secret", git.secret.is_some()),
        ];
        for (name, _) in given.iter().filter(|(_, given)| *given) {
            errors.push(FieldError::new(*name, "needs git_repository"));
        }
        return None;
    };
    if !["https://", "http://", "ssh://", "git@", "file://"]
        .iter()
        .any(|scheme| repository.starts_with(scheme))
    {
        errors.push(FieldError::new(
            "git_repository",
            Refusal::Url {
                right: "https://host/group/project.git",
            },
        ));
    }
    if git.branch.is_some() && git.revision.is_some() {
        let message = "give either git_branch or git_revision, not both";
        errors.push(FieldError::new("git_revision", message));
    }
    Some(git)
}

impl Git {
    /// The variables of the init container that fetches the code.
    pub(super) fn environment(&self) -> Vec<Value> {
        let depth = self.depth.map(|depth| depth.to_string());
        let plain = [
            ("GIT_SYNC_REPO", Some(&self.repository)),
            ("GIT_SYNC_BRANCH", self.branch.as_ref()),
            ("GIT_SYNC_REV", self.revision.as_ref()),
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
            let key = json!({ "name": self.secret.as_ref()?, "key": key, "optional": true });
            Some(json!({ "name": name, "valueFrom": { "secretKeyRef": key } }))
        });
        plain.chain(secret).collect()
    }
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

/// The command that starts a script of the user's: by its framework's interpreter, or by torchrun.
pub(crate) fn start(interpreter: &str, processes: Option<i64>, script: &str) -> String {
    let script = quote(&format!("{SCRIPTS}/{script}"));
    match processes {
        Some(processes) => format!("{} {script}", torchrun(processes)),
        None => format!("{interpreter} {script}"),
    }
}

/// The launcher of several processes on a node. They share one output, so that torchrun itself writes their
/// lines, whole and each with its rank.
pub fn torchrun(processes: i64) -> String {
    let start = format!("torchrun --nproc-per-node={processes}");
    if processes == 1 {
        return format!("PYTHONUNBUFFERED=1 {start}");
    }
    let prefix = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE='[rank${rank}]: '";
    format!("PYTHONUNBUFFERED=1 {prefix} {start} --tee=3")
}

/// A word as a shell reads it back.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
