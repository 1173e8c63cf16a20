//! What Kubeflow Trainer and JobSet make of a TrainJob, and what our plan makes of it, side by side.
//!
//! Every runtime of the catalogue with its job, and the examples, are held (`suspend`), so that the JobSet
//! and its Jobs are made and no pod runs. They must be equal but for [`EXPECTED`], each line of which
//! stands in docs/compatibility.md.

use std::collections::BTreeMap;

use astrago_api::{ClusterTrainingRuntime, TrainJob};
use serde_json::{Map, Value, json};

use crate::harness::cluster::REPOSITORY;
use crate::harness::target::Target;
use crate::harness::{Up, has_kubectl};

/// Differences on purpose: the beginning of the job, a part of the field's path, and why.
const EXPECTED: &[(&str, &str, &str)] = &[
    ("", "/env/RANK", ONE_PROCESS),
    ("", "/env/LOCAL_RANK", ONE_PROCESS),
    ("", "/env/WORLD_SIZE", ONE_PROCESS),
    ("", "/env/MASTER_ADDR", ONE_PROCESS),
    ("", "/env/MASTER_PORT", ONE_PROCESS),
    ("", "/env/NODE_RANK", ONE_PROCESS),
    ("", "/env/LOCAL_WORLD_SIZE", ONE_PROCESS),
    ("tensorflow-", "/env", NO_TENSORFLOW),
    ("tensorflow-", "/ports", NO_TENSORFLOW),
    (
        "horovod-",
        "/resources",
        "resourcesPerNode goes to those who train, not to the launcher",
    ),
];

/// The same of v2.1 alone.
const EXPECTED_OF_2_1: &[(&str, &str, &str)] = &[(
    "",
    "/mpi-ssh-auth/secret/",
    "v2.1 leaves the modes of the keys' files to Kubernetes, which gives them 0644; ours are those of v2.3",
)];

const ONE_PROCESS: &str = "code that torchrun does not start finds what it reads";

const NO_TENSORFLOW: &str = "Kubeflow has no policy for TensorFlow";

/// Jobs that Kubeflow does not take, and why.
const REFUSED: &[(&str, &str)] = &[
    ("fsdp-t5-large/", "numProcPerNode: auto is of v2.1"),
    (
        "pytorch-volumes/",
        "the environment of node may not be patched",
    ),
    (
        "tensorflow-volumes/",
        "the environment of node may not be patched",
    ),
    ("jax-", "v2.1 has no policy for JAX"),
    ("xgboost-", "v2.1 has no policy for XGBoost"),
    ("torchtune-", "JobSet of v2.1 has no volume claims"),
];

#[test]
fn the_plan_is_what_kubeflow_makes_but_for_the_listed_differences() {
    let target = Target::chosen();
    if !target.kubernetes || target.kubeflow.is_none() || !has_kubectl() {
        println!("does not apply to this target: Kubeflow Trainer on Kubernetes is compared");
        return;
    }
    let old = target.is_kubeflow_2_1();
    let up = Up::start(&["--no-node", "--no-auth"]);
    up.kubectl(&["create", "namespace", "team"]);
    let mut unexpected = Vec::new();
    let mut compared = 0;
    for (name, job) in jobs(old) {
        let Some((ours, theirs)) = both(&up, &name, &job) else {
            let known = REFUSED.iter().find(|(begin, _)| name.starts_with(begin));
            let (_, why) = known.unwrap_or_else(|| panic!("Kubeflow refuses {name}"));
            println!("{name}: {why}");
            continue;
        };
        compared += 1;
        let mut differences = Vec::new();
        compare("", &ours, &theirs, &mut differences);
        for (path, ours, theirs) in differences {
            let of_2_1 = if old { EXPECTED_OF_2_1 } else { &[] };
            let known = EXPECTED
                .iter()
                .chain(of_2_1)
                .find(|(begin, part, _)| name.starts_with(begin) && path.contains(part));
            match known {
                Some((_, _, why)) => println!("{name}: {path}: {why}"),
                None => unexpected.push(format!(
                    "{name}: {path}\n    ours   {ours}\n    theirs {theirs}"
                )),
            }
        }
    }
    assert!(compared >= 10, "only {compared} jobs were compared");
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
}

/// The jobs of the catalogue and of the examples, in the words of the Trainer's version.
fn jobs(old: bool) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for folder in ["runtimes", "examples"] {
        for entry in std::fs::read_dir(format!("{REPOSITORY}/{folder}")).unwrap() {
            let path = entry.unwrap().path();
            let Ok(text) = std::fs::read_to_string(path.join("trainjob.yaml")) else {
                continue;
            };
            let documents = text
                .split("\n---")
                .filter(|text| text.contains("kind: TrainJob"));
            for document in documents {
                let mut job: Value = serde_saphyr::from_str(document).unwrap();
                let name = job["metadata"]["name"].as_str().unwrap().to_owned();
                job["metadata"]["namespace"] = json!("team");
                job["spec"]["suspend"] = json!(true);
                if old {
                    to_overrides(&mut job);
                } else {
                    to_patches(&mut job);
                }
                let key = format!("{}/{name}", path.file_name().unwrap().display());
                found.insert(key, job);
            }
        }
    }
    found
}

/// `podTemplateOverrides` as `runtimePatches`.
pub(crate) fn to_patches(job: &mut Value) {
    let Some(overrides) = take(job, "podTemplateOverrides") else {
        return;
    };
    let mut jobs = Vec::new();
    for entry in overrides.as_array().unwrap() {
        for target in entry["targetJobs"].as_array().unwrap() {
            jobs.push(json!({
                "name": target["name"],
                "template": { "spec": { "template": { "metadata": entry["metadata"], "spec": entry["spec"] } } },
            }));
        }
    }
    let patch = json!([{
        "manager": "test.astrago.io/overrides",
        "trainingRuntimeSpec": { "template": { "spec": { "replicatedJobs": jobs } } },
    }]);
    job["spec"]["runtimePatches"] = tidy(patch).unwrap();
}

/// `runtimePatches` as `podTemplateOverrides`.
fn to_overrides(job: &mut Value) {
    let Some(patches) = take(job, "runtimePatches") else {
        return;
    };
    let mut overrides = Vec::new();
    for patch in patches.as_array().unwrap() {
        let jobs = &patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"];
        for entry in jobs.as_array().unwrap() {
            let pod = &entry["template"]["spec"]["template"];
            overrides.push(json!({
                "targetJobs": [{ "name": entry["name"] }], "metadata": pod["metadata"], "spec": pod["spec"],
            }));
        }
    }
    job["spec"]["podTemplateOverrides"] = tidy(json!(overrides)).unwrap();
}

fn take(job: &mut Value, field: &str) -> Option<Value> {
    job["spec"].as_object_mut().unwrap().remove(field)
}

/// What we and they make of a job: the JobSet, and the Jobs of it.
fn both(up: &Up, name: &str, job: &Value) -> Option<(Value, Value)> {
    let own_name = job["metadata"]["name"].as_str().unwrap();
    let file = up.folder.path().join("job.json");
    std::fs::write(&file, job.to_string()).unwrap();
    let mut create = up.kubectl_command();
    create.args(["create", "-f", file.to_str().unwrap()]);
    let output = create.output().unwrap();
    if !output.status.success() {
        println!("{name}: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    let get = |kind: &str, name: &str| -> Value {
        let text = up.kubectl(&["-n", "team", "get", kind, name, "-o", "json"]);
        serde_json::from_str(&text).unwrap()
    };
    let runtime = job["spec"]["runtimeRef"]["name"].as_str().unwrap();
    let runtime: ClusterTrainingRuntime =
        serde_json::from_value(get("clustertrainingruntime", runtime)).unwrap();
    let known: TrainJob = serde_json::from_value(get("trainjob", own_name)).unwrap();
    let plan =
        astrago_plan::plan_train_job(&known, (&runtime).into(), &astrago_plan::Options::default())
            .unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
    let planned = astrago_plan::jobs_of(&plan.job_set, 0);

    let set = up.eventually("Kubeflow's JobSet", |up| {
        let sets = up.kubectl(&["-n", "team", "get", "jobsets", "-o", "json"]);
        let sets: Value = serde_json::from_str(&sets).unwrap();
        let found = sets["items"].as_array().unwrap().iter();
        let mut found = found.filter(|set| set["metadata"]["name"] == own_name);
        found.next().cloned().ok_or_else(|| {
            let events = up.kubectl(&["-n", "team", "get", "events"]);
            json!({ "job": name, "events": events })
        })
    });
    let selector = format!("jobset.sigs.k8s.io/jobset-name={own_name}");
    // A JobSet with dependencies makes its first jobs only.
    let depends = plan
        .job_set
        .spec
        .replicated_jobs
        .iter()
        .any(|job| !job.depends_on.is_empty());
    let jobs = up.eventually("the Jobs of the JobSet", |up| {
        let jobs = up.kubectl(&["-n", "team", "get", "jobs", "-l", &selector, "-o", "json"]);
        let jobs: Value = serde_json::from_str(&jobs).unwrap();
        let count = jobs["items"].as_array().unwrap().len();
        if count >= if depends { 1 } else { planned.len() } {
            Ok(jobs)
        } else {
            Err(json!({ "job": name, "jobs": count }))
        }
    });
    let mut theirs_of_jobs = Map::new();
    for job in jobs["items"].as_array().unwrap() {
        let name = job["metadata"]["name"].as_str().unwrap();
        theirs_of_jobs.insert(name.to_owned(), essence(job));
    }
    let mut ours_of_jobs = Map::new();
    for mut job in planned {
        let name = job.metadata.name.clone().unwrap();
        if theirs_of_jobs.contains_key(&name) {
            astrago_plan::default_job(&mut job);
            ours_of_jobs.insert(name, essence(&serde_json::to_value(&job).unwrap()));
        }
    }
    let set_of_ours = essence(&serde_json::to_value(&plan.job_set).unwrap());
    let ours = json!({ "jobset": set_of_ours, "jobs": ours_of_jobs });
    let theirs = json!({ "jobset": essence(&set), "jobs": theirs_of_jobs });
    up.kubectl(&["-n", "team", "delete", "trainjob", own_name]);
    Some((by_name(tidy(ours).unwrap()), by_name(tidy(theirs).unwrap())))
}

/// What counts of an object: not what the API server writes into it.
fn essence(object: &Value) -> Value {
    let meta = &object["metadata"];
    let mut kept = json!({
        "labels": meta["labels"], "annotations": meta["annotations"], "spec": object["spec"],
    });
    // Made of the JobSet's uid, which ours does not have.
    for place in ["/labels", "/spec/template/metadata/labels"] {
        if let Some(Value::Object(labels)) = kept.pointer_mut(place) {
            for made in [
                "controller-uid",
                "job-name",
                "batch.kubernetes.io/controller-uid",
                "batch.kubernetes.io/job-name",
                "jobset.sigs.k8s.io/jobset-uid",
            ] {
                labels.remove(made);
            }
        }
    }
    for place in ["/annotations", "/spec/template/metadata/annotations"] {
        if let Some(Value::Object(annotations)) = kept.pointer_mut(place) {
            annotations.remove("jobset.sigs.k8s.io/jobset-uid");
        }
    }
    if let Some(Value::Object(spec)) = kept.get_mut("spec") {
        spec.remove("selector");
    }
    kept
}

/// Without nulls and empty objects and lists, which all mean the same.
fn tidy(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(map) => {
            let is_claim = map.get("kind") == Some(&json!("PersistentVolumeClaim"));
            let kept: Map<String, Value> = map
                .into_iter()
                .filter(|(key, value)| !is_default(key, value))
                // The kind of a template is known from its place.
                .filter(|(key, _)| !(is_claim && (key == "kind" || key == "apiVersion")))
                .filter_map(|(key, value)| Some((key, tidy(value)?)))
                .collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        Value::Array(list) => {
            let kept: Vec<Value> = list.into_iter().filter_map(tidy).collect();
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        other => Some(other),
    }
}

/// Whether the API server writes this where nothing was written. Our plan leaves some of it to the
/// API server.
fn is_default(key: &str, value: &Value) -> bool {
    match key {
        "manualSelector" => value == false,
        "apiVersion" => value == "v1",
        "defaultMode" => value == 420,
        "failureThreshold" => value == 3,
        "successThreshold" | "timeoutSeconds" => value == 1,
        "periodSeconds" => value == 10,
        "protocol" => value == "TCP",
        _ => false,
    }
}

/// Lists of things with names as objects, so that they are compared whatever their order.
fn by_name(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .map(|(key, value)| (key, by_name(value)))
            .collect(),
        Value::Array(list) => {
            let named = list.iter().all(|item| item["name"].is_string());
            let list = list.into_iter().map(by_name);
            if !named {
                return list.collect();
            }
            list.map(|item| {
                let key = item["mountPath"].as_str().or(item["name"].as_str());
                (key.unwrap().to_owned(), item)
            })
            .collect()
        }
        other => other,
    }
}

fn compare(path: &str, ours: &Value, theirs: &Value, out: &mut Vec<(String, Value, Value)>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                compare(&format!("{path}/{key}"), &ours[key], &theirs[key], out);
            }
        }
        (ours, theirs) if ours != theirs => {
            out.push((path.to_owned(), ours.clone(), theirs.clone()));
        }
        _ => {}
    }
}
