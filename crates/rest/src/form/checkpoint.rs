//! The `checkpoint` of a form: a volume that outlives restarts and goes with its job.
//!
//! The contract with training code is one variable, `CHECKPOINT_DIR`. Every node sees the same
//! folder there, at every attempt. Behind it stands a claim of the job's own.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::fields::Fields;
use super::{JobRequest, MIN_MEMORY, Volume, read_quantity, volumes};
use crate::model::FieldError;
use crate::names;

/// Where the checkpoints of a job appear in its containers.
pub(crate) const DIRECTORY: &str = "/workspace/checkpoints";

/// The variable that tells the training code.
pub(crate) const VARIABLE: &str = "CHECKPOINT_DIR";

/// The name of the volume within the pods.
const VOLUME: &str = "checkpoints";

const DEFAULT_SIZE: &str = "10Gi";

/// A place for checkpoints.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    pub(crate) size: String,
}

/// Reads `checkpoint` and `checkpoint_size`, and keeps their place free of other volumes.
pub(super) fn read(
    fields: &mut Fields<'_>,
    env: &[(String, String)],
    others: &[Volume],
    errors: &mut Vec<FieldError>,
) -> Option<Checkpoint> {
    let wanted = fields.boolean("checkpoint", errors).unwrap_or(false);
    let size = read_quantity(fields, "checkpoint_size", MIN_MEMORY, errors);
    if !wanted {
        if size.is_some() {
            let message = "needs checkpoint to be true";
            errors.push(FieldError::new("checkpoint_size", message));
        }
        return None;
    }
    for (index, volume) in others.iter().enumerate() {
        if volume.name == VOLUME {
            let message = format!("{VOLUME:?} is used by checkpoint");
            errors.push(FieldError::new(format!("volumes[{index}].name"), message));
        }
        if volumes::overlap(&volume.mount_path, DIRECTORY) {
            let path = &volume.mount_path;
            let message = format!("{path} overlaps with {DIRECTORY}, which checkpoint uses");
            let field = format!("volumes[{index}].mountPath");
            errors.push(FieldError::new(field, message));
        }
    }
    if let Some(index) = env.iter().position(|(name, _)| name == VARIABLE) {
        let message = format!("{VARIABLE} is set by checkpoint");
        errors.push(FieldError::new(format!("env_vars[{index}].name"), message));
    }
    Some(Checkpoint {
        size: size.map_or_else(|| DEFAULT_SIZE.to_owned(), |(text, _)| text),
    })
}

/// The claim of the job called `name`.
pub(super) fn claim(request: &JobRequest, name: &str) -> Option<PersistentVolumeClaim> {
    let checkpoint = request.checkpoint.as_ref()?;
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
    let size = ("storage".to_owned(), Quantity(checkpoint.size.clone()));
    Some(PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(claim_name(name)),
            namespace: Some(request.namespace.clone()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec![mode.to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([size])),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    })
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
