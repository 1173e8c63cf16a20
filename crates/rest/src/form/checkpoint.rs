//! The `checkpoint` of a form: a volume that outlives restarts and goes with its job.
//!
//! The contract with training code is one variable, `CHECKPOINT_DIR`. Every node sees the same
//! folder there, at every attempt. Behind it stands a claim of the job's own.

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::{JobRequest, Mistakes, sizes, volumes};
use crate::model::CreateRequest;
use crate::names;

/// Where the checkpoints of a job appear in its containers.
pub(crate) const DIRECTORY: &str = "/workspace/checkpoints";

/// The variable that tells the training code.
pub(crate) const VARIABLE: &str = "CHECKPOINT_DIR";

/// The name of the volume within the pods.
const VOLUME: &str = "checkpoints";

const DEFAULT_SIZE: &str = "10Gi";

/// Keeps the place of the checkpoints free of other volumes.
pub(super) fn check(asked: &CreateRequest, mistakes: &mut Mistakes) {
    let size = asked.checkpoint_size.as_deref();
    sizes::check_amount("checkpoint_size", size, sizes::MIN_MEMORY, mistakes);
    if asked.checkpoint != Some(true) {
        if size.is_some() {
            mistakes.push("checkpoint_size", "needs checkpoint to be true");
        }
        return;
    }
    for (index, volume) in asked.volumes.iter().enumerate() {
        if volume.name == VOLUME {
            let message = format!("{VOLUME:?} is used by checkpoint");
            mistakes.push(format!("volumes[{index}].name"), message);
        }
        if volumes::overlap(&volume.mount_path, DIRECTORY) {
            let path = &volume.mount_path;
            let message = format!("{path} overlaps with {DIRECTORY}, which checkpoint uses");
            mistakes.push(format!("volumes[{index}].mountPath"), message);
        }
    }
    if let Some(index) = asked.env_vars.iter().position(|one| one.name == VARIABLE) {
        let message = format!("{VARIABLE} is set by checkpoint");
        mistakes.push(format!("env_vars[{index}].name"), message);
    }
}

/// The claim of the job called `name`.
pub(super) fn claim(request: &JobRequest, name: &str) -> Option<PersistentVolumeClaim> {
    request.asked.checkpoint.filter(|wanted| *wanted)?;
    let size = request
        .asked
        .checkpoint_size
        .as_deref()
        .unwrap_or(DEFAULT_SIZE);
    let labels = [
        (names::MANAGED_BY.to_owned(), names::ASTRAGO.to_owned()),
        (names::JOB.to_owned(), name.to_owned()),
        (names::USER.to_owned(), request.user.clone()),
    ];
    // Pods of one job may stand on several machines, and then all of them must reach the volume.
    let mode = match request.nodes {
        1 => "ReadWriteOnce",
        _ => "ReadWriteMany",
    };
    let metadata = ObjectMeta {
        name: Some(claim_name(name)),
        namespace: Some(request.asked.namespace.clone()),
        labels: Some(labels.into()),
        ..ObjectMeta::default()
    };
    Some(volume_claim(metadata, mode, size))
}

pub(crate) fn volume_claim(metadata: ObjectMeta, mode: &str, size: &str) -> PersistentVolumeClaim {
    let size = ("storage".to_owned(), Quantity(size.to_owned()));
    PersistentVolumeClaim {
        metadata,
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec![mode.to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some([size].into()),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}

/// The volume and its mount, as the pods of the job called `name` have them.
pub(super) fn volume_and_mount(name: &str) -> (Value, Value) {
    (
        json!({ "name": VOLUME, "persistentVolumeClaim": { "claimName": claim_name(name) } }),
        json!({ "name": VOLUME, "mountPath": DIRECTORY }),
    )
}

fn claim_name(job: &str) -> String {
    format!("{job}-checkpoints")
}
