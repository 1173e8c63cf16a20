//! The runtimes that come with Astrago: every folder of `/runtimes` in the repository, embedded.
//!
//! To add one, add its folder and a line below; a test keeps the two lists equal.

use std::sync::LazyLock;

use astrago_api::ClusterTrainingRuntime;
use serde_json::Value;

/// A runtime that comes with Astrago.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BuiltInRuntime {
    pub name: &'static str,
    /// The runtime as YAML, with its comments.
    pub yaml: &'static str,
}

macro_rules! catalogue {
    ($($name:literal),* $(,)?) => {
        &[$(BuiltInRuntime {
            name: $name,
            yaml: include_str!(concat!("../../../runtimes/", $name, "/runtime.yaml")),
        }),*]
    };
}

/// All of them, by name.
const YAML: &[BuiltInRuntime] = catalogue![
    "deepspeed-distributed",
    "horovod-distributed",
    "jax-distributed",
    "mlx-distributed",
    "pytorch-runtime",
    "pytorch-simple",
    "tensorflow-distributed",
    "tensorflow-runtime",
    "torch-distributed",
    "torchtune-llama3.2-1b",
    "torchtune-llama3.2-3b",
    "torchtune-qwen2.5-1.5b",
    "xgboost-distributed",
];

static RUNTIMES: LazyLock<Vec<ClusterTrainingRuntime>> = LazyLock::new(|| {
    let read = |runtime: &BuiltInRuntime| -> ClusterTrainingRuntime {
        // By way of a value: a second set of deserializers for all of Kubernetes' types would be 4 MB of code.
        let value: Value = crate::yaml::from_str(runtime.yaml).expect("a test reads every one");
        serde_json::from_value(value).expect("a test reads every one")
    };
    YAML.iter().map(read).collect()
});

/// The runtimes that `astrago up` installs and `astrago preview` knows, by name.
pub fn built_in_runtimes() -> &'static [ClusterTrainingRuntime] {
    &RUNTIMES
}

/// The built-in runtime of this name.
pub fn built_in_runtime(name: &str) -> Option<&'static ClusterTrainingRuntime> {
    RUNTIMES
        .iter()
        .find(|runtime| runtime.metadata.name.as_deref() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_of_runtimes_is_in_the_catalogue_and_can_be_read() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../runtimes");
        let mut want: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.path().join("runtime.yaml").exists())
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        want.sort();
        let got: Vec<&str> = built_in_runtimes()
            .iter()
            .filter_map(|r| r.metadata.name.as_deref())
            .collect();
        assert_eq!(got, want);
    }
}
