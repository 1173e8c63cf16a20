//! What a runtime says of the framework that it is for.
//!
//! Frameworks are known by their runtimes, and nowhere else. Upstream's runtimes carry one label,
//! `trainer.kubeflow.org/framework`; ours say more in annotations, and so can anybody's. How a script is started
//! follows from the runtime's policy and its containers.

use std::collections::BTreeMap;

use astrago_api::{ClusterTrainingRuntime, labels};
use k8s_openapi::api::core::v1::PodSpec;

use crate::TRAINER_CONTAINER;
use crate::policy::tensorflow::GENERATOR;

/// The init container of runtimes that fetch their code from git.
pub const GIT_CLONE: &str = "git-clone";

/// A framework, as one runtime runs it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Framework {
    pub runtime: String,
    /// What requests may call it. Jobs are labelled with the first.
    pub names: Vec<String>,
    /// Its name as its makers write it.
    pub title: String,
    /// The Python modules by which its scripts are known.
    pub imports: Vec<String>,
    /// Whether it is the one for requests that name no runtime.
    pub default: bool,
    pub deprecated: bool,
    pub image: Option<String>,
    /// The jobs of the runtime in which the user's code runs.
    pub jobs: Vec<String>,
    /// Whether the nodes get the variables that torchrun reads.
    pub torch: bool,
    /// Whether mpirun starts the nodes.
    pub mpi: bool,
    /// Whether the launcher is none of the nodes and has sizes of its own.
    pub launcher: bool,
    /// Whether an init container fetches the code from git.
    pub fetches_git: bool,
    /// Whether an init container writes `TF_CONFIG` to a file.
    pub writes_tf_config: bool,
}

impl Framework {
    pub fn of(runtime: &ClusterTrainingRuntime) -> Self {
        let metadata = &runtime.metadata;
        let spec = &runtime.spec.0;
        let label = label(metadata.labels.as_ref());
        let annotation = |key| metadata.annotations.as_ref()?.get(key);
        let list = |key| {
            let words = annotation(key)?.split(',').map(str::trim);
            Some(words.map(str::to_owned).collect())
        };
        let names = names(metadata.labels.as_ref(), metadata.annotations.as_ref());
        let policy = spec.ml_policy.as_ref();
        let mpi = policy.and_then(|policy| policy.mpi.as_ref());
        let templates = spec.template.spec.replicated_jobs.iter();
        let pods: Vec<(&String, &PodSpec)> = templates
            .filter_map(|job| {
                Some((
                    &job.name,
                    job.template.spec.as_ref()?.template.spec.as_ref()?,
                ))
            })
            .collect();
        let init = |name: &str| {
            let containers = pods
                .iter()
                .flat_map(|(_, pod)| pod.init_containers.iter().flatten());
            containers
                .into_iter()
                .any(|container| container.name == name)
        };
        let trains = |pod: &PodSpec| {
            let mut containers = pod.containers.iter();
            containers
                .find(|container| container.name == TRAINER_CONTAINER)
                .cloned()
        };
        Self {
            runtime: metadata.name.clone().unwrap_or_default(),
            title: annotation(labels::FRAMEWORK_TITLE)
                .cloned()
                .unwrap_or_else(|| label.to_owned()),
            imports: list(labels::FRAMEWORK_IMPORTS).unwrap_or_else(|| vec![label.to_owned()]),
            names,
            default: annotation(labels::FRAMEWORK_DEFAULT).is_some_and(|value| value == "true"),
            deprecated: crate::Runtime::from(runtime).is_deprecated(),
            image: pods.iter().find_map(|(_, pod)| trains(pod)?.image),
            jobs: pods
                .iter()
                .filter(|(_, pod)| trains(pod).is_some())
                .map(|(name, _)| (*name).clone())
                .collect(),
            torch: policy.is_some_and(|policy| policy.torch.is_some()),
            mpi: mpi.is_some(),
            launcher: mpi.is_some_and(|mpi| !mpi.runs_launcher_as_node()),
            fetches_git: init(GIT_CLONE),
            writes_tf_config: init(GENERATOR),
        }
    }

    /// The name by which jobs are labelled.
    pub fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// What starts a script on a node: torchrun where several processes are asked for. They share one output, so
    /// torchrun writes their lines itself, whole and each with its rank.
    pub fn interpreter(&self, processes: Option<i64>) -> String {
        let prefix = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE='[rank${rank}]: '";
        match processes {
            Some(1) => "torchrun --nproc-per-node=1".to_owned(),
            Some(count) => format!("{prefix} torchrun --nproc-per-node={count} --tee=3"),
            None if self.mpi => "mpirun python3".to_owned(),
            None => "python3".to_owned(),
        }
    }

    /// The runtime for a request that names a framework and no runtime.
    pub fn choose<'a>(all: &'a [Self], name: &str, from_git: bool) -> Option<&'a Self> {
        let candidates = all.iter().filter(|framework| {
            framework.fetches_git == from_git && framework.names.iter().any(|known| known == name)
        });
        candidates
            .min_by_key(|framework| (!framework.default, framework.deprecated, &framework.runtime))
    }
}

/// The name of a runtime's framework, as jobs are labelled with it.
pub fn framework_name(
    labels: Option<&BTreeMap<String, String>>,
    annotations: Option<&BTreeMap<String, String>>,
) -> Option<String> {
    names(labels, annotations).into_iter().next()
}

fn names(
    labels: Option<&BTreeMap<String, String>>,
    annotations: Option<&BTreeMap<String, String>>,
) -> Vec<String> {
    let said = annotations.and_then(|annotations| annotations.get(labels::FRAMEWORK_NAMES));
    if let Some(said) = said {
        return said.split(',').map(|name| name.trim().to_owned()).collect();
    }
    // Upstream's runtimes for PyTorch, which say no more than this.
    let names: &[&str] = match label(labels) {
        "" => &[],
        "torch" => &["pytorch", "torch"],
        "torchtune" => &["pytorch"],
        other => &[other],
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn label(labels: Option<&BTreeMap<String, String>>) -> &str {
    let label = labels.and_then(|labels| labels.get(labels::FRAMEWORK));
    label.map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built_in_runtimes;

    #[test]
    fn a_framework_is_found_by_any_of_its_names_and_by_where_the_code_comes_from() {
        let all: Vec<Framework> = built_in_runtimes().iter().map(Framework::of).collect();
        let chosen = |name, from_git| {
            Framework::choose(&all, name, from_git).map(|framework| framework.runtime.as_str())
        };
        for (name, want, want_from_git) in [
            ("pytorch", Some("pytorch-simple"), Some("pytorch-runtime")),
            ("torch", Some("pytorch-simple"), Some("pytorch-runtime")),
            (
                "tensorflow",
                Some("tensorflow-distributed"),
                Some("tensorflow-runtime"),
            ),
            ("horovod", Some("horovod-distributed"), None),
            ("jax", Some("jax-distributed"), None),
            ("caffe", None, None),
        ] {
            assert_eq!(
                (chosen(name, false), chosen(name, true)),
                (want, want_from_git),
                "{name}"
            );
        }
    }

    #[test]
    fn upstreams_labels_are_enough() {
        let plain = |runtime: &ClusterTrainingRuntime| {
            let mut runtime = runtime.clone();
            runtime.metadata.annotations = None;
            runtime
        };
        let names = [
            "torch-distributed",
            "torchtune-llama3.2-1b",
            "deepspeed-distributed",
        ];
        let upstream = built_in_runtimes()
            .iter()
            .map(plain)
            .map(|runtime| Framework::of(&runtime));
        let upstream: Vec<Framework> = upstream
            .filter(|framework| names.contains(&framework.runtime.as_str()))
            .collect();
        let torch = Framework::choose(&upstream, "pytorch", false).unwrap();
        assert_eq!(
            (torch.runtime.as_str(), torch.name()),
            ("torch-distributed", "pytorch")
        );
        assert!(torch.torch && !torch.mpi && !torch.launcher);
        assert_eq!(torch.jobs, ["node"]);
        let deepspeed = Framework::choose(&upstream, "deepspeed", false).unwrap();
        assert_eq!(deepspeed.interpreter(None), "mpirun python3");
        assert_eq!(deepspeed.jobs, ["node", "launcher"]);
        assert!(!deepspeed.launcher, "it is a node itself");
    }
}
