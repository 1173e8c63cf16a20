//! Finding GPUs: through NVML where the driver brings it, else from `/proc`, else none.

use std::fs;
use std::path::{Path, PathBuf};

use nvml_wrapper::Nvml;

use super::{Gpu, Load};

/// The GPUs of this machine. No driver is no GPU, never an error.
pub fn inventory() -> Vec<Gpu> {
    match Nvml::init() {
        Ok(nvml) => from_nvml(&nvml),
        Err(error) => {
            tracing::debug!(%error, "NVML is not there");
            from_proc(Path::new("/proc/driver/nvidia/gpus"))
        }
    }
}

/// GPUs for `--capacity nvidia.com/gpu=N` on a machine that has none: numbers without devices.
pub fn simulated(count: u32) -> Vec<Gpu> {
    (0..count)
        .map(|index| Gpu {
            index,
            uuid: index.to_string(),
            name: "simulated".into(),
            memory_bytes: None,
            devices: Vec::new(),
        })
        .collect()
}

/// What the GPUs do, by index.
pub fn load() -> Vec<(u32, Load)> {
    let Ok(nvml) = Nvml::init() else {
        return Vec::new();
    };
    let count = nvml.device_count().unwrap_or(0);
    (0..count)
        .filter_map(|index| Some((index, nvml.device_by_index(index).ok()?)))
        .map(|(index, device)| {
            let load = Load {
                busy_percent: device.utilization_rates().ok().map(|rates| rates.gpu),
                memory_used_bytes: device.memory_info().ok().map(|memory| memory.used),
            };
            (index, load)
        })
        .collect()
}

fn from_nvml(nvml: &Nvml) -> Vec<Gpu> {
    let count = nvml.device_count().unwrap_or(0);
    (0..count)
        .filter_map(|index| Some((index, nvml.device_by_index(index).ok()?)))
        .map(|(index, device)| {
            let minor = device.minor_number().unwrap_or(index);
            Gpu {
                index,
                uuid: device.uuid().unwrap_or_else(|_| index.to_string()),
                name: device.name().unwrap_or_else(|_| "NVIDIA GPU".into()),
                memory_bytes: device.memory_info().ok().map(|memory| memory.total),
                devices: vec![PathBuf::from(format!("/dev/nvidia{minor}"))],
            }
        })
        .collect()
}

/// The driver lists each GPU as a directory named by its PCI address, with an `information` file.
fn from_proc(root: &Path) -> Vec<Gpu> {
    let Ok(entries) = fs::read_dir(root) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    // The PCI address orders them as CUDA does.
    paths.sort();
    (0..)
        .zip(
            paths
                .iter()
                .filter_map(|path| fs::read_to_string(path.join("information")).ok()),
        )
        .map(|(index, information)| {
            let field = |name: &str| {
                let line = information.lines().find(|line| line.starts_with(name))?;
                Some(line.split_once(':')?.1.trim().to_owned())
            };
            let minor = field("Device Minor").unwrap_or_else(|| index.to_string());
            Gpu {
                index,
                uuid: field("GPU UUID")
                    .filter(|uuid| !uuid.contains('?'))
                    .unwrap_or_else(|| index.to_string()),
                name: field("Model").unwrap_or_else(|| "NVIDIA GPU".into()),
                memory_bytes: None,
                devices: vec![PathBuf::from(format!("/dev/nvidia{minor}"))],
            }
        })
        .collect()
}

/// Device files that every container with a GPU needs, as far as this machine has them.
pub(super) fn shared_devices() -> impl Iterator<Item = PathBuf> {
    [
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
        "/dev/nvidia-modeset",
    ]
    .into_iter()
    .map(PathBuf::from)
    .filter(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_own_list_is_enough() {
        let root = tempfile::tempdir().unwrap();
        for (address, minor) in [("0000:41:00.0", 1), ("0000:01:00.0", 0)] {
            fs::create_dir(root.path().join(address)).unwrap();
            let text = format!(
                "Model: \t\t NVIDIA A100\nGPU UUID: \t GPU-{minor}\nDevice Minor: \t {minor}\n"
            );
            fs::write(root.path().join(address).join("information"), text).unwrap();
        }
        let gpus = from_proc(root.path());
        assert_eq!(gpus.len(), 2);
        assert_eq!((gpus[0].index, gpus[0].uuid.as_str()), (0, "GPU-0"));
        assert_eq!(gpus[1].devices, [PathBuf::from("/dev/nvidia1")]);
        assert_eq!(gpus[1].name, "NVIDIA A100");
    }

    #[test]
    fn no_driver_is_no_gpu() {
        assert!(from_proc(Path::new("/nonexistent")).is_empty());
    }
}
