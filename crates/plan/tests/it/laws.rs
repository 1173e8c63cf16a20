//! Laws that hold for every plan.

use astrago_api::{PodSpecPatch, PodTemplateOverride, TargetJob, TrainJob, names};
use astrago_plan::{Options, Preview, Runtime, built_in_runtimes, plan_train_job};
use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, EnvVar, Toleration, Volume, VolumeMount};
use proptest::prelude::*;
use serde_json::Value;

use crate::objects::{plan_with_built_in, training_pods};

fn job() -> impl Strategy<Value = TrainJob> {
    let runtimes = [
        "torch-distributed",
        "tensorflow-distributed",
        "jax-distributed",
        "pytorch-runtime",
    ];
    (
        "[a-z]([-a-z0-9]{0,20}[a-z0-9])?",
        proptest::sample::select(runtimes.to_vec()),
        1..12_i32,
        proptest::collection::vec(entry(), 0..4),
        proptest::option::of(0..9_i32),
    )
        .prop_map(|(name, runtime, nodes, overrides, max_restarts)| {
            let mut job = TrainJob::default();
            job.metadata.name = Some(name);
            job.metadata.namespace = Some("team".into());
            job.spec.runtime_ref.name = runtime.into();
            job.spec.trainer.get_or_insert_default().num_nodes = Some(nodes);
            job.spec.pod_template_overrides = overrides;
            job.spec.max_restarts = max_restarts;
            job
        })
}

/// An override of the training pods.
fn entry() -> impl Strategy<Value = PodTemplateOverride> {
    let env = proptest::collection::btree_map("[A-D]", "[a-z]{0,3}", 0..4);
    let volumes = proptest::collection::btree_map("v[0-3]", "/m[0-3]", 0..3);
    let selector = proptest::collection::btree_map("[a-c]", "[a-c]", 0..3);
    (env, volumes, selector, any::<bool>()).prop_map(|(env, volumes, node_selector, tolerates)| {
        let mut spec = PodSpecPatch {
            node_selector,
            ..PodSpecPatch::default()
        };
        let mut container = astrago_api::ContainerPatch {
            name: "node".into(),
            ..Default::default()
        };
        container.env = env
            .into_iter()
            .map(|(name, value)| EnvVar {
                name,
                value: Some(value),
                value_from: None,
            })
            .collect();
        for (name, path) in volumes {
            spec.volumes.push(Volume {
                name: name.clone(),
                empty_dir: Some(EmptyDirVolumeSource::default()),
                ..Volume::default()
            });
            let mount = VolumeMount {
                name,
                mount_path: path,
                ..VolumeMount::default()
            };
            if !container
                .volume_mounts
                .iter()
                .any(|old| old.mount_path == mount.mount_path)
            {
                container.volume_mounts.push(mount);
            }
        }
        if tolerates {
            spec.tolerations.push(Toleration {
                key: Some("gpu".into()),
                ..Default::default()
            });
        }
        spec.containers.push(container);
        PodTemplateOverride {
            target_jobs: vec![TargetJob {
                name: "node".into(),
            }],
            metadata: None,
            spec: Some(spec),
        }
    })
}

fn planned(job: &TrainJob) -> Preview {
    plan_with_built_in(job).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The pods as values, in which the order of lists that Kubernetes merges by key does not count.
fn pods(preview: &Preview) -> Vec<Value> {
    preview
        .pods
        .iter()
        .map(|pod| sorted(serde_json::to_value(&pod.pod).unwrap()))
        .collect()
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, value)| (name, sorted(value)))
                .collect(),
        ),
        Value::Array(items) => {
            let mut items: Vec<Value> = items.into_iter().map(sorted).collect();
            if items.iter().all(Value::is_object) {
                items.sort_by_key(ToString::to_string);
            }
            Value::Array(items)
        }
        other => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_empty_override_changes_nothing(job in job()) {
        let want = serde_json::to_value(&planned(&job).plan.job_set).unwrap();
        let mut more = job.clone();
        more.spec.pod_template_overrides.push(PodTemplateOverride {
            target_jobs: vec![TargetJob { name: "node".into() }],
            spec: Some(PodSpecPatch::default()),
            metadata: None,
        });
        let got = serde_json::to_value(&planned(&more).plan.job_set).unwrap();
        prop_assert_eq!(got, want);
    }

    #[test]
    fn merging_twice_is_merging_once(job in job(), entry in entry()) {
        let mut once = job.clone();
        once.spec.pod_template_overrides.push(entry.clone());
        let mut twice = once.clone();
        twice.spec.pod_template_overrides.push(entry);
        prop_assert_eq!(pods(&planned(&twice)), pods(&planned(&once)));
    }

    #[test]
    fn every_pod_name_and_host_name_is_a_dns_label(job in job()) {
        for planned in planned(&job).pods {
            let name = planned.pod.metadata.name.unwrap();
            prop_assert!(names::is_rfc1123_label(&name), "{}", name);
            let hostname = planned.pod.spec.unwrap().hostname.unwrap();
            prop_assert!(names::is_rfc1123_label(&hostname), "{}", hostname);
        }
    }

    #[test]
    fn ranks_are_exactly_those_from_zero_to_the_last_node(job in job()) {
        let preview = planned(&job);
        let mut ranks: Vec<i32> = training_pods(&preview)
            .iter()
            .map(|planned| {
                let annotations = planned.pod.metadata.annotations.as_ref().unwrap();
                annotations["batch.kubernetes.io/job-completion-index"].parse().unwrap()
            })
            .collect();
        ranks.sort_unstable();
        let want: Vec<i32> = (0..job.num_nodes().unwrap()).collect();
        prop_assert_eq!(ranks, want);
    }

    #[test]
    fn no_field_lacks_an_origin(job in job()) {
        for planned in planned(&job).pods {
            for (path, value, origin) in astrago_plan::pod_fields(&planned) {
                prop_assert!(origin.is_some(), "{} = {}", path, value);
            }
        }
    }

    #[test]
    fn the_same_input_gives_the_same_bytes(job in job()) {
        let bytes = |preview: &Preview| serde_json::to_string(&preview.plan.job_set).unwrap();
        prop_assert_eq!(bytes(&planned(&job)), bytes(&planned(&job.clone())));
    }

    #[test]
    fn explaining_a_plan_does_not_change_it(job in job()) {
        let name = &job.spec.runtime_ref.name;
        let runtime = built_in_runtimes().iter().find(|r| r.metadata.name.as_ref() == Some(name));
        let plan = plan_train_job(&job, Runtime::from(runtime.unwrap()), &Options::default());
        prop_assert_eq!(plan.unwrap(), planned(&job).plan);
    }
}
