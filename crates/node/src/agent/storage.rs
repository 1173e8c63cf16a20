//! Which disk space a pod may use, in the words of Kubernetes.

use std::path::Path;

use astrago_api::quantity::Amount;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::layout::PodDir;
use crate::spec::StorageLimit;

/// The limits of containers (their writable layer and logs), of the pod (all of those and its volumes
/// on disk) and of each `emptyDir` on disk. Volumes in memory are limited by the kernel. A pod that sets
/// itself no limit as a whole has `usual`.
pub(super) fn limits(
    pod: &Pod,
    dir: &PodDir,
    log_dir: &Path,
    usual: Option<u64>,
) -> Vec<StorageLimit> {
    let Some(spec) = &pod.spec else {
        return Vec::new();
    };
    let mut all = Vec::new();
    let (mut total, mut paths) = (Some(0_u64), Vec::new());
    let containers = spec
        .init_containers
        .iter()
        .flatten()
        .chain(&spec.containers);
    for container in containers {
        let limits = container
            .resources
            .as_ref()
            .and_then(|it| it.limits.as_ref());
        let limit = limits.and_then(|limits| limits.get("ephemeral-storage"));
        let own = vec![
            dir.container(&container.name),
            log_dir.join(&container.name),
        ];
        paths.extend(own.iter().cloned());
        match limit.and_then(|limit| Some((bytes(limit)?, &limit.0))) {
            Some((bytes, text)) => {
                total = total.map(|sum| sum.saturating_add(bytes));
                let message = format!(
                    "Container {} exceeded its local ephemeral storage limit \"{text}\". ",
                    container.name
                );
                all.push(StorageLimit {
                    paths: own,
                    bytes,
                    message,
                });
            }
            None => total = None,
        }
    }
    for volume in spec.volumes.iter().flatten() {
        let Some(empty) = &volume.empty_dir else {
            continue;
        };
        if empty.medium.as_deref() == Some("Memory") {
            continue;
        }
        let path = dir.volume(&volume.name);
        paths.push(path.clone());
        if let Some((bytes, text)) = empty
            .size_limit
            .as_ref()
            .and_then(|limit| Some((bytes(limit)?, &limit.0)))
        {
            let message = format!(
                "Usage of EmptyDir volume \"{}\" exceeds the limit \"{text}\". ",
                volume.name
            );
            all.push(StorageLimit {
                paths: vec![path],
                bytes,
                message,
            });
        }
    }
    // Only a pod whose containers all have a limit has one as a whole.
    if let Some(bytes) = total.filter(|total| *total > 0) {
        all.push(StorageLimit {
            paths,
            bytes,
            message: format!(
                "Pod ephemeral local storage usage exceeds the total limit of containers {bytes}. "
            ),
        });
    } else if let Some(bytes) = usual {
        all.push(StorageLimit {
            paths,
            bytes,
            message: format!(
                "Pod took more local disk than the {} MiB that this node gives to pods which set no limit; set limits.ephemeral-storage on its containers. ",
                bytes >> 20
            ),
        });
    }
    all
}

fn bytes(quantity: &Quantity) -> Option<u64> {
    let amount = Amount::try_from(quantity).ok()?;
    u64::try_from(amount.units_up())
        .ok()
        .filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn containers_volumes_and_the_pod_have_their_limits() {
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "containers": [
                {"name": "a", "resources": {"limits": {"ephemeral-storage": "1Mi"}}},
                {"name": "b", "resources": {"limits": {"ephemeral-storage": "2Mi"}}},
            ],
            "volumes": [
                {"name": "disk", "emptyDir": {"sizeLimit": "4Mi"}},
                {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}},
            ],
        }}))
        .unwrap();
        let dir = PodDir::at("/pod");
        let all = limits(&pod, &dir, Path::new("/logs"), Some(1));
        let sizes: Vec<_> = all.iter().map(|limit| limit.bytes >> 20).collect();
        assert_eq!(sizes, [1, 2, 4, 3]);
        assert_eq!(all[0].paths, [dir.container("a"), "/logs/a".into()]);
        assert_eq!(all[3].paths.len(), 5);
        assert!(
            all[2]
                .message
                .contains("\"disk\" exceeds the limit \"4Mi\"")
        );
    }

    #[test]
    fn one_container_without_a_limit_leaves_the_pod_with_the_usual_one() {
        let pod: Pod = serde_json::from_value(json!({"spec": {"containers": [
            {"name": "a", "resources": {"limits": {"ephemeral-storage": "1Mi"}}}, {"name": "b"},
        ]}}))
        .unwrap();
        let dir = PodDir::at("/pod");
        let limits = |usual| limits(&pod, &dir, Path::new("/logs"), usual);
        assert_eq!(limits(None).len(), 1);
        let all = limits(Some(8 << 20));
        assert_eq!(
            (all.len(), all[1].bytes, all[1].paths.len()),
            (2, 8 << 20, 4)
        );
        assert!(all[1].message.contains("8 MiB"), "{}", all[1].message);
    }
}
