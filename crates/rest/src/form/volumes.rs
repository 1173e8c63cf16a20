//! The `volumes` of a form: claims, ConfigMaps, memory, and host folders where they are allowed.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fields::Fields;
use super::{Policy, SCRIPTS, name, quantity};
use crate::model::{FieldError, Refusal};

/// One volume and where it appears in the training container.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) source: VolumeSource,
    pub(crate) mount_path: String,
    pub(crate) read_only: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum VolumeSource {
    Claim(String),
    ConfigMap(String),
    HostPath(String),
    /// A memory-backed folder of this size, as `/dev/shm` needs.
    Memory(String),
}

/// Volume names that the mapping itself uses.
const TAKEN: [&str; 3] = ["train-script", "framework-setup", "shared-env"];

pub(super) fn read(
    fields: &mut Fields<'_>,
    policy: &Policy,
    errors: &mut Vec<FieldError>,
) -> Vec<Volume> {
    let mut volumes: Vec<Volume> = Vec::new();
    let mut names = BTreeSet::new();
    for (index, item) in fields.list("volumes", errors).iter().enumerate() {
        let path = format!("volumes[{index}]");
        let Some(volume) = read_one(&path, item, policy, errors) else {
            continue;
        };
        if !names.insert(volume.name.clone()) {
            errors.push(FieldError::new(
                format!("{path}.name"),
                Refusal::Twice {
                    value: volume.name.clone(),
                },
            ));
        }
        for other in &volumes {
            if overlap(&volume.mount_path, &other.mount_path) {
                let message = format!(
                    "{} overlaps with {} of volume {}",
                    volume.mount_path, other.mount_path, other.name
                );
                errors.push(FieldError::new(format!("{path}.mountPath"), message));
            }
        }
        volumes.push(volume);
    }
    if volumes.len() > 64 {
        errors.push(FieldError::new("volumes", Refusal::TooMany { limit: 64 }));
    }
    volumes
}

fn read_one(
    path: &str,
    item: &Value,
    policy: &Policy,
    errors: &mut Vec<FieldError>,
) -> Option<Volume> {
    let mut fields = Fields::new(path, item, errors);
    let volume = fields.required_text("name", errors);
    if let Some(volume) = volume {
        let taken = TAKEN
            .contains(&volume)
            .then(|| format!("{volume:?} is used by the platform itself").into());
        if let Some(message) = taken.or(name::check_label(volume).err()) {
            errors.push(FieldError::new(fields.path("name"), message));
        }
    }
    let source = read_source(&mut fields, policy, errors);
    let mount_path = fields.required_text("mountPath", errors);
    if let Some(mount_path) = mount_path
        && let Err(message) = check_mount_path(mount_path)
    {
        errors.push(FieldError::new(fields.path("mountPath"), message));
    }
    let read_only = fields.boolean("readOnly", errors).unwrap_or(false);
    fields.finish(errors);
    Some(Volume {
        name: volume?.to_owned(),
        source: source?,
        mount_path: mount_path?.trim_end_matches('/').to_owned(),
        read_only,
    })
}

fn read_source(
    fields: &mut Fields<'_>,
    policy: &Policy,
    errors: &mut Vec<FieldError>,
) -> Option<VolumeSource> {
    let claim = fields.text("pvc", errors);
    let config_map = fields.text("configMap", errors);
    let host_path = fields.text("hostPath", errors);
    let memory = fields.quantity_text("memory", errors);
    let given = [
        claim.is_some(),
        config_map.is_some(),
        host_path.is_some(),
        memory.is_some(),
    ];
    match given.iter().filter(|given| **given).count() {
        1 => {}
        0 => {
            let wrong_type = ["pvc", "configMap", "hostPath", "memory"]
                .iter()
                .any(|n| fields.take(n).is_some());
            if !wrong_type {
                errors.push(FieldError::new(
                    fields.path("pvc"),
                    "is required (or configMap, hostPath, memory)",
                ));
            }
            return None;
        }
        _ => {
            let message = "give one of pvc, configMap, hostPath and memory, not several";
            errors.push(FieldError::new(fields.path("pvc"), message));
            return None;
        }
    }
    let (field, source, problem) = if let Some(claim) = claim {
        (
            "pvc",
            VolumeSource::Claim(claim.to_owned()),
            name::check_subdomain(claim).err(),
        )
    } else if let Some(map) = config_map {
        (
            "configMap",
            VolumeSource::ConfigMap(map.to_owned()),
            name::check_subdomain(map).err(),
        )
    } else if let Some(path) = host_path {
        (
            "hostPath",
            VolumeSource::HostPath(path.to_owned()),
            check_host_path(path, policy).err(),
        )
    } else {
        let size = memory?;
        let problem = quantity::read_positive(&size).err();
        ("memory", VolumeSource::Memory(size), problem)
    };
    if let Some(message) = problem {
        errors.push(FieldError::new(fields.path(field), message));
        return None;
    }
    Some(source)
}

fn check_mount_path(path: &str) -> Result<(), Refusal> {
    if !path.starts_with('/') {
        return Err(Refusal::Absolute {
            right: format!("/{path}"),
        });
    }
    if path.len() > 4096 || path.contains(['\0', ':', '\n']) {
        return Err("must be an ordinary path without colons and line breaks".into());
    }
    if path.split('/').any(|part| part == ".." || part == ".") {
        return Err("must not contain . or .. as a part".into());
    }
    let clean = path.trim_end_matches('/');
    if clean.is_empty() {
        return Err("must not be the root of the container".into());
    }
    for reserved in [SCRIPTS, "/shared", "/shared-env", "/proc", "/sys", "/dev"] {
        let shared_memory = clean == "/dev/shm";
        if overlap(clean, reserved) && clean != "/workspace" && !shared_memory {
            return Err(
                format!("{clean} overlaps with {reserved}, which the platform uses").into(),
            );
        }
    }
    // Mounting over the whole workspace would hide the code that is mounted below it.
    if clean == "/workspace" {
        return Err(format!(
            "/workspace holds {SCRIPTS}; mount at a folder beside it, such as /workspace/data"
        )
        .into());
    }
    Ok(())
}

fn check_host_path(path: &str, policy: &Policy) -> Result<(), Refusal> {
    let inside = |allowed: &String| {
        path == allowed || path.starts_with(&format!("{}/", allowed.trim_end_matches('/')))
    };
    if !path.split('/').any(|part| part == "..") && policy.host_paths.iter().any(inside) {
        return Ok(());
    }
    Err("is not a host folder that the administrator allows".into())
}

/// Whether one path is the other or lies inside it.
pub(super) fn overlap(left: &str, right: &str) -> bool {
    let inside = |inner: &str, outer: &str| {
        inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    inside(left, right) || inside(right, left)
}
