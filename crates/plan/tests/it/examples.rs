//! The examples, planned to the pods that they describe.

use astrago_api::TrainJob;
use astrago_plan::{Preview, built_in_runtimes, validate_runtime};
use k8s_openapi::api::core::v1::{Pod, Volume};
use rstest::rstest;
use serde_json::{Value, json};

use crate::objects::{
    container, parse, plan_with_built_in, read, repository, training_pods, value,
};

fn planned(example: &str) -> Preview {
    let path = repository()
        .join("examples")
        .join(example)
        .join("trainjob.yaml");
    let job: TrainJob = parse(&read(&path));
    plan_with_built_in(&job).unwrap_or_else(|errors| panic!("{example}: {errors}"))
}

fn pods(preview: &Preview) -> Vec<&Pod> {
    training_pods(preview)
        .into_iter()
        .map(|planned| &planned.pod)
        .collect()
}

fn volume<'a>(pod: &'a Pod, name: &str) -> &'a Volume {
    let volumes = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.volumes.as_deref())
        .unwrap_or_default();
    volumes
        .iter()
        .find(|volume| volume.name == name)
        .unwrap_or_else(|| panic!("no volume {name}"))
}

#[rstest]
#[case("pytorch-git")]
#[case("tensorflow-git")]
#[case("fsdp-t5-large")]
#[case("pytorch-volumes")]
#[case("tensorflow-volumes")]
#[case("fsdp-t5-small")]
fn every_example_plans_to_the_same_objects_as_before(#[case] example: &str) {
    let preview = planned(example);
    let objects = json!({
        "jobSet": preview.plan.job_set,
        "service": preview.service,
        "pods": preview.pods.iter().map(|planned| &planned.pod).collect::<Vec<_>>(),
    });
    insta::with_settings!({snapshot_path => "../snapshots", prepend_module_to_snapshot => false}, {
        insta::assert_yaml_snapshot!(example, objects);
    });
}

#[test]
fn every_built_in_runtime_is_valid() {
    for runtime in built_in_runtimes() {
        let name = runtime.metadata.name.as_deref().unwrap_or_default();
        validate_runtime(&runtime.spec.0).unwrap_or_else(|errors| panic!("{name}: {errors}"));
    }
}

#[test]
fn every_train_job_beside_a_built_in_runtime_can_be_planned() {
    for entry in std::fs::read_dir(repository().join("runtimes")).unwrap() {
        let path = entry.unwrap().path().join("trainjob.yaml");
        if path.exists() {
            let job: TrainJob = parse(&read(&path));
            plan_with_built_in(&job).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
    }
}

/// Clusters with Kubeflow Trainer up to v2.1 know `podTemplateOverrides`, later ones `runtimePatches`.
#[test]
fn every_train_job_beside_a_built_in_runtime_means_the_same_in_the_older_dialect() {
    for entry in std::fs::read_dir(repository().join("runtimes")).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.is_dir() {
            continue;
        }
        let named = |file: &str| folder.join(file).exists();
        assert!(
            named("runtime.yaml") && named("trainjob.yaml"),
            "{folder:?}"
        );
        let recipe = folder
            .file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("torchtune-");
        assert!(
            named("train.py") != recipe,
            "{folder:?}: torchtune brings its own recipes"
        );

        let newer: TrainJob = parse(&read(&folder.join("trainjob.yaml")));
        let mut older = serde_json::to_value(&newer).unwrap();
        let Some(patches) = older["spec"]
            .as_object_mut()
            .unwrap()
            .remove("runtimePatches")
        else {
            continue;
        };
        let jobs = "/trainingRuntimeSpec/template/spec/replicatedJobs";
        let overrides = patches.as_array().unwrap().iter().flat_map(|patch| {
            patch.pointer(jobs).unwrap().as_array().unwrap().iter().map(|job| {
                json!({ "targetJobs": [{ "name": job["name"] }], "spec": job["template"]["spec"]["template"]["spec"] })
            })
        });
        older["spec"]["podTemplateOverrides"] = overrides.collect();
        let older: TrainJob = serde_json::from_value(older).unwrap();
        let pods = |job: &TrainJob| -> Vec<Value> {
            let preview = plan_with_built_in(job).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
            let pods = preview.pods.iter().map(|planned| &planned.pod.spec);
            pods.map(|spec| serde_json::to_value(spec).unwrap())
                .collect()
        };
        assert_eq!(pods(&older), pods(&newer), "{folder:?}");
    }
}

#[test]
fn the_pytorch_job_with_git_fetches_its_code_on_both_nodes() {
    let preview = planned("pytorch-git");
    let pods = pods(&preview);
    assert_eq!(pods.len(), 2);
    for (rank, pod) in pods.into_iter().enumerate() {
        let git = container(pod, "git-clone");
        assert_eq!(
            value(git, "GIT_SYNC_REPO"),
            "https://github.com/xiilab/astrago-trainer.git"
        );
        assert_eq!(value(git, "GIT_SYNC_BRANCH"), "main");
        assert_eq!(value(git, "GIT_SYNC_ROOT"), "/workspace/code");
        let node = container(pod, "node");
        assert_eq!(value(node, "PET_NNODES"), "2");
        assert_eq!(value(node, "PET_NPROC_PER_NODE"), "auto");
        assert_eq!(
            value(node, "PET_MASTER_ADDR"),
            "pytorch-git-node-0-0.pytorch-git"
        );
        assert_eq!(value(node, "PET_MASTER_PORT"), "29500");
        let annotations = pod.metadata.annotations.as_ref().unwrap();
        assert_eq!(
            annotations["batch.kubernetes.io/job-completion-index"],
            rank.to_string()
        );
    }
    assert_eq!(
        preview.plan.job_set.spec.ttl_seconds_after_finished,
        Some(86400)
    );
}

#[test]
fn t5_large_gets_its_shared_memory_and_its_machines() {
    let preview = planned("fsdp-t5-large");
    for pod in pods(&preview) {
        let shared = volume(pod, "dshm").empty_dir.as_ref().unwrap();
        assert_eq!(shared.medium.as_deref(), Some("Memory"));
        assert_eq!(shared.size_limit.as_ref().unwrap().0, "64Gi");
        let node = container(pod, "node");
        let mounts = node.volume_mounts.as_deref().unwrap();
        assert!(
            mounts
                .iter()
                .any(|mount| mount.name == "dshm" && mount.mount_path == "/dev/shm")
        );
        let selector = pod.spec.as_ref().unwrap().node_selector.as_ref().unwrap();
        assert_eq!(selector["node.kubernetes.io/instance-type"], "g6e.48xlarge");
        assert_eq!(selector["topology.kubernetes.io/zone"], "ap-northeast-2a");
        let limits = node.resources.as_ref().unwrap().limits.as_ref().unwrap();
        assert_eq!(limits["nvidia.com/gpu"].0, "8");
        assert_eq!(value(node, "PET_NPROC_PER_NODE"), "auto");
    }
}

#[rstest]
#[case("pytorch-volumes")]
#[case("tensorflow-volumes")]
fn the_form_s_volumes_and_variables_reach_the_pods(#[case] example: &str) {
    let preview = planned(example);
    let pods = pods(&preview);
    assert_eq!(pods.len(), 2);
    for pod in pods {
        let script = volume(pod, "train-script").config_map.as_ref().unwrap();
        assert_eq!(
            (script.name.as_str(), script.default_mode),
            ("user-train-script", Some(0o755))
        );
        for (name, claim) in [
            ("dataset", "user-dataset-pvc"),
            ("models", "user-models-pvc"),
        ] {
            let source = volume(pod, name).persistent_volume_claim.as_ref().unwrap();
            assert_eq!(source.claim_name, claim);
        }
        let node = container(pod, "node");
        for (name, want) in [
            ("EPOCHS", "10"),
            ("BATCH_SIZE", "64"),
            ("LEARNING_RATE", "0.001"),
        ] {
            assert_eq!(value(node, name), want);
        }
        let mounts = node.volume_mounts.as_deref().unwrap();
        let mount = |path: &str| {
            mounts
                .iter()
                .find(|mount| mount.mount_path == path)
                .unwrap()
        };
        assert_eq!(mount("/workspace/scripts").read_only, Some(true));
        assert_eq!(mount("/data").read_only, Some(true));
        assert_ne!(mount("/models").read_only, Some(true));
    }
}

#[rstest]
#[case("tensorflow-git", "tensorflow-git", "kubeflow-system")]
#[case("tensorflow-volumes", "user-job-12345", "user-namespace")]
fn tf_config_is_right_on_every_node(
    #[case] example: &str,
    #[case] job: &str,
    #[case] namespace: &str,
) {
    let preview = planned(example);
    for (rank, pod) in pods(&preview).into_iter().enumerate() {
        for name in ["tf-config-generator", "node"] {
            let container = container(pod, name);
            assert_eq!(value(container, "PET_NNODES"), "2", "{name}");
            assert_eq!(value(container, "NUM_WORKERS"), "2", "{name}");
        }
        // What Kubernetes does with a reference to an earlier variable.
        let config = value(container(pod, "node"), "TF_CONFIG");
        let config = config.replace("$(PET_NODE_RANK)", &rank.to_string());
        let want = json!({
            "cluster": {"worker": (0..2).map(|index| {
                format!("{job}-node-0-{index}.{job}.{namespace}.svc.cluster.local:2222")
            }).collect::<Vec<_>>()},
            "task": {"type": "worker", "index": rank},
        });
        assert_eq!(serde_json::from_str::<Value>(&config).unwrap(), want);
    }
}

#[test]
fn a_node_count_that_the_user_wrote_wrongly_does_not_count() {
    let path = repository().join("examples/tensorflow-volumes/trainjob.yaml");
    let mut job: TrainJob = parse(&read(&path).replace("value: \"2\"", "value: \"7\""));
    job.spec.trainer.as_mut().unwrap().num_nodes = Some(3);
    let preview = plan_with_built_in(&job).unwrap();
    assert_eq!(pods(&preview).len(), 3);
    for pod in pods(&preview) {
        for name in ["tf-config-generator", "node"] {
            assert_eq!(value(container(pod, name), "PET_NNODES"), "3", "{name}");
        }
    }
}
