//! GPUs: which there are, and which a container gets.
//!
//! GPUs are handed out whole. Who has which is not stored: it is derived from the pods that run
//! ([`allocate`] takes the numbers in use), so it is right again after any restart.

mod inventory;

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use inventory::{inventory, load, simulated};

/// The resource by which pods ask for GPUs.
pub const RESOURCE: &str = "nvidia.com/gpu";

/// One GPU of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gpu {
    pub index: u32,
    /// As NVML tells it (`GPU-…`); where only the number is known, the number.
    pub uuid: String,
    pub name: String,
    pub memory_bytes: Option<u64>,
    /// The device files of this GPU alone. Empty for a simulated one.
    pub devices: Vec<PathBuf>,
}

/// What the GPUs of this machine do right now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    pub busy_percent: Option<u32>,
    pub memory_used_bytes: Option<u64>,
}

/// The GPUs of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Allocation {
    pub indices: Vec<u32>,
    /// `CUDA_VISIBLE_DEVICES` and `NVIDIA_VISIBLE_DEVICES`.
    pub env: Vec<(String, String)>,
    /// Device files to put into the container, those that all GPUs share included.
    pub devices: Vec<PathBuf>,
}

/// Chooses `count` GPUs that are not in use, lowest numbers first, so that neighbours (which are
/// often linked) go to the same container. With 0 the container sees none, not all.
pub fn allocate(inventory: &[Gpu], in_use: &BTreeSet<u32>, count: usize) -> Result<Allocation> {
    let free: Vec<&Gpu> = inventory
        .iter()
        .filter(|gpu| !in_use.contains(&gpu.index))
        .collect();
    if free.len() < count {
        return Err(Error::NotEnough {
            wanted: count,
            free: free.len(),
            total: inventory.len(),
        });
    }
    let chosen = &free[..count];
    let mut devices: Vec<PathBuf> = chosen
        .iter()
        .flat_map(|gpu| gpu.devices.iter().cloned())
        .collect();
    if !devices.is_empty() {
        devices.extend(inventory::shared_devices());
    }
    Ok(Allocation {
        indices: chosen.iter().map(|gpu| gpu.index).collect(),
        env: visible(inventory, chosen),
        devices,
    })
}

fn visible(inventory: &[Gpu], chosen: &[&Gpu]) -> Vec<(String, String)> {
    if chosen.is_empty() {
        // A machine without GPUs needs no variables; CUDA programs would see none anyway.
        if inventory.is_empty() {
            return Vec::new();
        }
        return vec![
            ("CUDA_VISIBLE_DEVICES".into(), String::new()),
            ("NVIDIA_VISIBLE_DEVICES".into(), "void".into()),
        ];
    }
    // The device files decide what CUDA can open; it numbers what it finds from 0, so only names
    // that do not depend on the numbering are safe.
    let names: Vec<&str> = chosen.iter().map(|gpu| gpu.uuid.as_str()).collect();
    let names = names.join(",");
    vec![
        ("CUDA_VISIBLE_DEVICES".into(), names.clone()),
        ("NVIDIA_VISIBLE_DEVICES".into(), names),
    ]
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{wanted} GPUs are asked for, and {free} of {total} are free")]
    NotEnough {
        wanted: usize,
        free: usize,
        total: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_gpus_are_given_out_whole_and_in_order() {
        let inventory = simulated(4);
        let in_use = BTreeSet::from([0, 2]);
        let allocation = allocate(&inventory, &in_use, 2).unwrap();
        assert_eq!(allocation.indices, [1, 3]);
        assert_eq!(
            allocation.env[0],
            ("CUDA_VISIBLE_DEVICES".into(), "1,3".into())
        );
        assert!(allocation.devices.is_empty());
    }

    #[test]
    fn a_container_that_asks_for_none_sees_none() {
        let env = allocate(&simulated(2), &BTreeSet::new(), 0).unwrap().env;
        assert_eq!(env[0], ("CUDA_VISIBLE_DEVICES".into(), String::new()));
        assert!(allocate(&[], &BTreeSet::new(), 0).unwrap().env.is_empty());
    }

    #[test]
    fn too_many_is_an_error_that_counts() {
        let error = allocate(&simulated(2), &BTreeSet::from([1]), 2).unwrap_err();
        assert_eq!(
            error.to_string(),
            "2 GPUs are asked for, and 1 of 2 are free"
        );
    }
}
