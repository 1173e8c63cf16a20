//! The `volumes` of a form: claims, ConfigMaps, memory, and host folders where they are allowed.

use serde_json::{Value, json};

use super::{Mistakes, Policy, SCRIPTS, name, quantity};
use crate::model::{Refusal, VolumeRequest};

/// Volume names that the mapping itself uses.
const TAKEN: [&str; 3] = ["train-script", "framework-setup", "shared-env"];

pub(super) fn check(volumes: &mut [VolumeRequest], policy: &Policy, mistakes: &mut Mistakes) {
    for volume in &mut *volumes {
        let clean = volume.mount_path.trim_end_matches('/').len().max(1);
        volume.mount_path.truncate(clean);
    }
    for (index, volume) in volumes.iter().enumerate() {
        let at = |field: &str| format!("volumes[{index}].{field}");
        if TAKEN.contains(&volume.name.as_str()) {
            let message = format!("{:?} is used by the platform itself", volume.name);
            mistakes.push(at("name"), message);
        }
        mistakes.check(at("name"), name::check_label(&volume.name));
        check_source(volume, policy, &at, mistakes);
        mistakes.check(at("mountPath"), check_mount_path(&volume.mount_path));
        for other in &volumes[..index] {
            if volume.name == other.name {
                let value = volume.name.clone();
                mistakes.push(at("name"), Refusal::Twice { value });
            }
            if overlap(&volume.mount_path, &other.mount_path) {
                let message = format!(
                    "{} overlaps with {} of volume {}",
                    volume.mount_path, other.mount_path, other.name
                );
                mistakes.push(at("mountPath"), message);
            }
        }
    }
    if volumes.len() > 64 {
        mistakes.push("volumes", Refusal::TooMany { limit: 64 });
    }
}

fn check_source(
    volume: &VolumeRequest,
    policy: &Policy,
    at: &dyn Fn(&str) -> String,
    mistakes: &mut Mistakes,
) {
    let sources = [
        ("pvc", volume.pvc.as_deref().map(name::check_subdomain)),
        (
            "configMap",
            volume.config_map.as_deref().map(name::check_subdomain),
        ),
        (
            "hostPath",
            volume
                .host_path
                .as_deref()
                .map(|path| check_host_path(path, policy)),
        ),
        (
            "memory",
            volume
                .memory
                .as_deref()
                .map(|size| quantity::read_positive(size).map(|_| ())),
        ),
    ];
    // One that has the wrong type was given, too.
    let wrong = sources.iter().any(|(field, _)| mistakes.has(&at(field)));
    let mut given = sources
        .into_iter()
        .filter_map(|(field, checked)| Some((field, checked?)));
    match (given.next(), given.next()) {
        (None, _) if wrong => {}
        (None, _) => mistakes.push(at("pvc"), "is required (or configMap, hostPath, memory)"),
        (Some((field, checked)), None) => _ = mistakes.check(at(field), checked),
        _ => {
            let message = "give one of pvc, configMap, hostPath and memory, not several";
            mistakes.push(at("pvc"), message);
        }
    }
}

/// The volume as a pod has it.
pub(super) fn source(volume: &VolumeRequest) -> Value {
    let mut value = if let Some(claim) = &volume.pvc {
        json!({ "persistentVolumeClaim": { "claimName": claim } })
    } else if let Some(map) = &volume.config_map {
        json!({ "configMap": { "name": map, "defaultMode": 0o755 } })
    } else if let Some(path) = &volume.host_path {
        json!({ "hostPath": { "path": path, "type": "Directory" } })
    } else {
        json!({ "emptyDir": { "medium": "Memory", "sizeLimit": volume.memory } })
    };
    value["name"] = json!(volume.name);
    value
}

pub(super) fn mount(volume: &VolumeRequest) -> Value {
    json!({ "name": volume.name, "mountPath": volume.mount_path, "readOnly": volume.read_only })
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
