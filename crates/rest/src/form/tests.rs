//! Both forms of the request, their mapping, and the table of wrong inputs.

use std::collections::BTreeMap;

use rstest::rstest;
use serde_json::{Value, json};

use super::manifest::{Dialect, build};
use super::*;

/// With the runtimes that come with us.
fn parse(body: &Value, policy: &Policy) -> Result<JobRequest, Vec<FieldError>> {
    let runtimes = astrago_plan::built_in_runtimes().iter();
    let frameworks: Vec<Framework> = runtimes.map(Framework::of).collect();
    super::parse(body, policy, &frameworks)
}

fn form_a() -> Value {
    json!({
        "user_id": "user123",
        "namespace": "user-123",
        "framework": "pytorch",
        "training_code": "import torch\n",
        "config": { "num_nodes": 2, "gpu_per_node": 1, "cpu_per_node": 4, "memory_per_node": "16Gi" }
    })
}

fn form_b() -> Value {
    json!({
        "user_id": "user123",
        "namespace": "user-123",
        "framework": "pytorch",
        "training_code": "import torch\nimport torch.nn as nn\nprint(\"Training...\")",
        "image": "pytorch/pytorch:2.2.2-cuda11.8-cudnn8-runtime",
        "num_nodes": 2,
        "cpu_request": "2",
        "cpu_limit": "4",
        "memory_request": "8Gi",
        "memory_limit": "16Gi",
        "gpu_count": 1,
        "command": "python /workspace/scripts/train.py",
        "env_vars": [
            { "name": "EPOCHS", "value": "10" },
            { "name": "BATCH_SIZE", "value": "64" }
        ],
        "volumes": [
            { "name": "dataset", "pvc": "user123-dataset-pvc", "mountPath": "/data", "readOnly": true },
            { "name": "models", "pvc": "user123-models-pvc", "mountPath": "/models", "readOnly": false }
        ]
    })
}

fn with(mut body: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match body.pointer_mut(parent).unwrap() {
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        parent => parent[key] = value,
    }
    body
}

fn without(mut body: Value, key: &str) -> Value {
    body.as_object_mut().unwrap().remove(key);
    body
}

fn wrong_fields(body: &Value) -> Vec<String> {
    let errors = parse(body, &Policy::default()).expect_err("the form must be refused");
    errors.into_iter().map(|error| error.field).collect()
}

fn manifests(body: &Value, dialect: Dialect) -> manifest::Manifests {
    let request = parse(body, &Policy::default()).unwrap();
    build(
        &request,
        "user123-job-20251105130000",
        dialect,
        &BTreeMap::new(),
        &BTreeMap::new(),
    )
}

#[test]
fn form_a_gets_the_defaults_it_is_silent_about() {
    let made = manifests(&form_a(), Dialect::PodTemplateOverrides);
    let trainer = &made.train_job["spec"]["trainer"];
    assert_eq!(trainer["numNodes"], 2);
    assert_eq!(
        trainer["image"],
        "pytorch/pytorch:2.2.2-cuda11.8-cudnn8-runtime"
    );
    let want = json!({ "cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1" });
    assert_eq!(
        trainer["resourcesPerNode"],
        json!({ "requests": want, "limits": want })
    );
    let command = trainer["command"][2].as_str().unwrap();
    assert!(command.starts_with("export RANK=${PET_NODE_RANK:-0}\n"));
    assert!(command.ends_with("\npython3 /workspace/scripts/train.py\n"));
    assert_eq!(
        made.train_job["spec"]["runtimeRef"]["name"],
        "pytorch-simple"
    );
}

#[test]
fn form_b_maps_every_field_of_the_table() {
    let made = manifests(&form_b(), Dialect::PodTemplateOverrides);
    let spec = &made.train_job["spec"];
    assert_eq!(
        spec["trainer"]["resourcesPerNode"],
        json!({
            "requests": { "cpu": "2", "memory": "8Gi", "nvidia.com/gpu": "1" },
            "limits": { "cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1" },
        })
    );
    assert_eq!(
        spec["trainer"]["env"][1],
        json!({ "name": "BATCH_SIZE", "value": "64" })
    );
    let pod = &spec["podTemplateOverrides"][0]["spec"];
    assert_eq!(
        spec["podTemplateOverrides"][0]["targetJobs"],
        json!([{ "name": "node" }])
    );
    assert_eq!(
        pod["volumes"][0],
        json!({ "name": "train-script", "configMap": {
            "name": "user123-job-20251105130000-train-script", "defaultMode": 0o755 } })
    );
    assert_eq!(
        pod["volumes"][2],
        json!({ "name": "dataset", "persistentVolumeClaim": { "claimName": "user123-dataset-pvc" } })
    );
    assert_eq!(
        pod["containers"][0]["volumeMounts"],
        json!([
            { "name": "train-script", "mountPath": "/workspace/scripts", "readOnly": true },
            { "name": "framework-setup", "mountPath": "/shared", "readOnly": true },
            { "name": "dataset", "mountPath": "/data", "readOnly": true },
            { "name": "models", "mountPath": "/models", "readOnly": false },
        ])
    );
}

#[test]
fn checkpoints_get_a_claim_of_the_job_and_a_variable() {
    let form = with(form_b(), "/checkpoint", json!(true));
    let made = manifests(&form, Dialect::PodTemplateOverrides);
    let claim = serde_json::to_value(made.checkpoints.unwrap()).unwrap();
    let name = "user123-job-20251105130000-checkpoints";
    assert_eq!(claim["metadata"]["name"], name);
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteMany"]));
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "10Gi");
    let spec = &made.train_job["spec"];
    let variable = json!({ "name": "CHECKPOINT_DIR", "value": "/workspace/checkpoints" });
    let env = spec["trainer"]["env"].as_array().unwrap();
    assert!(env.contains(&variable));
    let pod = &spec["podTemplateOverrides"][0]["spec"];
    let volume = json!({ "name": "checkpoints", "persistentVolumeClaim": { "claimName": name } });
    assert!(pod["volumes"].as_array().unwrap().contains(&volume));
    let mount = json!({ "name": "checkpoints", "mountPath": "/workspace/checkpoints" });
    let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
    assert!(mounts.contains(&mount));
    let without = manifests(&form_b(), Dialect::PodTemplateOverrides);
    assert!(without.checkpoints.is_none());
}

#[test]
fn a_repository_chooses_the_runtime_that_fetches_it() {
    let form = with(
        without(without(form_b(), "training_code"), "command"),
        "/git_repository",
        json!("https://git.example.com/team/digits.git"),
    );
    let made = manifests(&form, Dialect::PodTemplateOverrides);
    let spec = &made.train_job["spec"];
    assert_eq!(spec["runtimeRef"]["name"], "pytorch-runtime");
    let command = spec["trainer"]["command"][2].as_str().unwrap();
    assert!(command.ends_with("\npython3 /workspace/code/train.py\n"));
    let init = &spec["podTemplateOverrides"][0]["spec"]["initContainers"][0];
    assert_eq!(init["name"], "git-clone");
    assert_eq!(init["volumeMounts"][0]["name"], "dataset");
}

#[rstest]
#[case::plain(&["--lr=0.1", "50%"])]
#[case::spaces_and_quotes(&["two words", "it's", "\"both\" 'kinds'", ""])]
#[case::what_a_shell_would_run(&["$(touch /tmp/pwned)", "`id`", "; rm -rf /", "${HOME}", "a\nb", "!x", "-e"])]
fn arguments_reach_the_script_as_they_were_given(#[case] arguments: &[&str]) {
    let form = with(without(form_b(), "command"), "/arguments", json!(arguments));
    let made = manifests(&form, Dialect::RuntimePatches);
    let script = made.train_job["spec"]["trainer"]["command"][2]
        .as_str()
        .unwrap();
    // Bash itself says what it makes of them.
    let script = script.replace("python3 /workspace/scripts/train.py", "printf '%s\\0'");
    let output = std::process::Command::new("bash")
        .args(["-c", &script])
        .output()
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let got: Vec<&str> = output.strip_suffix('\0').unwrap().split('\0').collect();
    assert_eq!(got, arguments, "{script}");
}

#[test]
fn the_command_is_made_of_framework_processes_and_arguments() {
    let plain = without(form_b(), "command");
    let line = |form: &Value| {
        let made = manifests(form, Dialect::RuntimePatches);
        let script = made.train_job["spec"]["trainer"]["command"][2]
            .as_str()
            .unwrap()
            .to_owned();
        script.trim_end().lines().last().unwrap().to_owned()
    };
    let horovod = with(plain.clone(), "/framework", json!("horovod"));
    assert_eq!(line(&horovod), "mpirun python3 /workspace/scripts/train.py");
    let processes = with(plain.clone(), "/nproc_per_node", json!(1));
    let processes = with(processes, "/arguments", json!(["--epochs", "3"]));
    let want = "torchrun --nproc-per-node=1 /workspace/scripts/train.py --epochs 3";
    assert_eq!(line(&processes), want);
    let both = with(form_b(), "/arguments", json!(["--epochs", "3"]));
    assert_eq!(wrong_fields(&both), ["arguments"]);
}

#[test]
fn a_framework_without_a_runtime_is_refused_with_the_runtimes_there_are() {
    let torch = astrago_plan::built_in_runtime("torch-distributed").unwrap();
    let frameworks = [Framework::of(torch)];
    let parse = |name: &str| {
        let form = with(form_a(), "/framework", json!(name));
        super::parse(&form, &Policy::default(), &frameworks)
    };
    let refused = parse("horovod").unwrap_err();
    let want =
        "no runtime here is for the framework \"horovod\"; there are pytorch (torch-distributed)";
    assert_eq!(
        (refused[0].field.as_str(), refused[0].message.as_str()),
        ("framework", want)
    );
    for name in ["pytorch", "torch"] {
        let taken = parse(name).unwrap();
        assert_eq!(
            (
                taken.asked.framework.as_str(),
                taken.framework.runtime.as_str()
            ),
            ("pytorch", "torch-distributed")
        );
    }
}

#[test]
fn the_code_stands_in_an_immutable_config_map_of_the_job() {
    let made = manifests(&form_b(), Dialect::RuntimePatches);
    let code = made.code.unwrap();
    assert_eq!(
        code.metadata.name.as_deref(),
        Some("user123-job-20251105130000-train-script")
    );
    assert_eq!(code.immutable, Some(true));
    assert!(code.data.unwrap()["train.py"].starts_with("import torch"));
    assert_eq!(
        made.system.unwrap().metadata.name.as_deref(),
        Some("pytorch-pet-setup")
    );
}

#[test]
fn both_dialects_say_the_same() {
    let old = manifests(&form_b(), Dialect::PodTemplateOverrides).train_job;
    let new = manifests(&form_b(), Dialect::RuntimePatches).train_job;
    let patch = &new["spec"]["runtimePatches"][0];
    let job = &patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0];
    assert_eq!(job["name"], "node");
    assert_eq!(
        job["template"]["spec"]["template"]["spec"],
        old["spec"]["podTemplateOverrides"][0]["spec"]
    );
    assert!(new["spec"].get("podTemplateOverrides").is_none());
}

#[test]
fn tensorflow_tells_its_init_container_the_node_count() {
    let body = with(form_b(), "/framework", json!("tensorflow"));
    let made = manifests(&body, Dialect::PodTemplateOverrides);
    let pod = &made.train_job["spec"]["podTemplateOverrides"][0]["spec"];
    assert_eq!(
        pod["initContainers"],
        json!([{ "name": "tf-config-generator", "env": [{ "name": "PET_NNODES", "value": "2" }] }])
    );
    let command = made.train_job["spec"]["trainer"]["command"][2]
        .as_str()
        .unwrap();
    assert!(command.starts_with("source /shared-env/tf_config.env\n"));
    assert_eq!(
        made.system.unwrap().metadata.name.as_deref(),
        Some("tensorflow-tf-config-generator")
    );
}

#[test]
fn horovod_sizes_launcher_and_workers_apart() {
    let body = with(form_b(), "/framework", json!("horovod"));
    let body = with(body, "/launcher_cpu", json!("500m"));
    let body = with(body, "/launcher_memory", json!("1Gi"));
    let made = manifests(&body, Dialect::RuntimePatches);
    let annotations = &made.train_job["metadata"]["annotations"];
    assert_eq!(annotations["astrago.io/launcher-cpu"], "500m");
    assert_eq!(annotations["astrago.io/launcher-memory"], "1Gi");
    let spec = &made.train_job["spec"];
    assert_eq!(spec["runtimeRef"]["name"], "horovod-distributed");
    assert_eq!(spec["trainer"]["resourcesPerNode"]["limits"]["cpu"], "4");
    let runtime = astrago_plan::built_in_runtime("horovod-distributed").unwrap();
    let job = serde_json::from_value(made.train_job.clone()).unwrap();
    let preview = astrago_plan::preview(&job, runtime.into(), &astrago_plan::Options::default());
    let preview = preview.unwrap();
    let cpu: Vec<(&str, String)> = preview
        .pods
        .iter()
        .map(|planned| {
            let container = &planned.pod.spec.as_ref().unwrap().containers[0];
            let limits = container.resources.as_ref().unwrap().limits.as_ref();
            (&*planned.replicated_job, limits.unwrap()["cpu"].0.clone())
        })
        .collect();
    assert_eq!(
        cpu,
        [
            ("node", "4".to_owned()),
            ("node", "4".to_owned()),
            ("launcher", "500m".to_owned())
        ]
    );
}

#[test]
fn zero_gpus_leave_no_key_behind() {
    let made = manifests(
        &with(form_b(), "/gpu_count", json!(0)),
        Dialect::RuntimePatches,
    );
    let resources = &made.train_job["spec"]["trainer"]["resourcesPerNode"];
    assert!(resources["limits"].get("nvidia.com/gpu").is_none());
    assert!(resources["requests"].get("nvidia.com/gpu").is_none());
}

#[rstest]
#[case::one_byte("#".to_owned())]
#[case::nine_hundred_kilobytes("#".repeat(900_000))]
fn code_of_any_reasonable_size_is_taken(#[case] code: String) {
    assert!(
        parse(
            &with(form_a(), "/training_code", json!(code)),
            &Policy::default()
        )
        .is_ok()
    );
}

#[rstest]
#[case::user_missing(without(form_a(), "user_id"), "user_id")]
#[case::namespace_missing(without(form_a(), "namespace"), "namespace")]
#[case::framework_missing(without(form_a(), "framework"), "framework")]
#[case::code_missing(without(form_a(), "training_code"), "training_code")]
#[case::code_empty(with(form_a(), "/training_code", json!("")), "training_code")]
#[case::code_huge(with(form_a(), "/training_code", json!("#".repeat(5_000_000))), "training_code")]
#[case::sizes_missing(without(form_a(), "config"), "num_nodes")]
#[case::nodes_missing(with(form_a(), "/config", json!({})), "config.num_nodes")]
#[case::nodes_zero(with(form_a(), "/config/num_nodes", json!(0)), "config.num_nodes")]
#[case::nodes_negative(with(form_b(), "/num_nodes", json!(-1)), "num_nodes")]
#[case::nodes_huge(with(form_b(), "/num_nodes", json!(1_000_000)), "num_nodes")]
#[case::nodes_text(with(form_b(), "/num_nodes", json!("2")), "num_nodes")]
#[case::nodes_fraction(with(form_b(), "/num_nodes", json!(1.5)), "num_nodes")]
#[case::nodes_beyond_integers(with(form_b(), "/num_nodes", json!(1e300)), "num_nodes")]
#[case::framework_unknown(with(form_a(), "/framework", json!("caffe")), "framework")]
#[case::framework_number(with(form_a(), "/framework", json!(1)), "framework")]
#[case::memory_unit(with(form_a(), "/config/memory_per_node", json!("16GB")), "config.memory_per_node")]
#[case::memory_negative(with(form_b(), "/memory_limit", json!("-1")), "memory_limit")]
#[case::memory_of_16_bytes(with(form_a(), "/config/memory_per_node", json!("16")), "config.memory_per_node")]
#[case::cpu_zero(with(form_a(), "/config/cpu_per_node", json!(0)), "config.cpu_per_node")]
#[case::cpu_object(with(form_a(), "/config/cpu_per_node", json!({})), "config.cpu_per_node")]
#[case::gpu_negative(with(form_b(), "/gpu_count", json!(-1)), "gpu_count")]
#[case::request_above_limit(with(form_b(), "/cpu_request", json!("8")), "cpu_request")]
#[case::memory_request_above_limit(with(form_b(), "/memory_request", json!("32Gi")), "memory_request")]
#[case::user_with_slash(with(form_a(), "/user_id", json!("a/b")), "user_id")]
#[case::user_dots(with(form_a(), "/user_id", json!("..")), "user_id")]
#[case::user_hangul(with(form_a(), "/user_id", json!("홍길동")), "user_id")]
#[case::user_long(with(form_a(), "/user_id", json!("a".repeat(300))), "user_id")]
#[case::user_too_long_for_pods(with(form_a(), "/user_id", json!("a".repeat(30))), "user_id")]
#[case::namespace_with_slash(with(form_a(), "/namespace", json!("a/b")), "namespace")]
#[case::namespace_dots(with(form_a(), "/namespace", json!("..")), "namespace")]
#[case::namespace_upper(with(form_a(), "/namespace", json!("User-123")), "namespace")]
#[case::namespace_hangul(with(form_a(), "/namespace", json!("사용자")), "namespace")]
#[case::namespace_long(with(form_a(), "/namespace", json!("a".repeat(300))), "namespace")]
#[case::name_upper(with(form_a(), "/name", json!("Demo")), "name")]
#[case::name_digit_first(with(form_a(), "/name", json!("1st")), "name")]
#[case::name_too_long_for_pods(with(form_a(), "/name", json!("a".repeat(60))), "name")]
#[case::env_twice(
    with(form_b(), "/env_vars/1", json!({ "name": "EPOCHS", "value": "1" })), "env_vars[1].name")]
#[case::env_without_name(with(form_b(), "/env_vars/0", json!({ "value": "1" })), "env_vars[0].name")]
#[case::env_wrong_name(
    with(form_b(), "/env_vars/0", json!({ "name": "A B", "value": "1" })), "env_vars[0].name")]
#[case::env_reserved(
    with(form_b(), "/env_vars/0", json!({ "name": "PET_NNODES", "value": "9" })), "env_vars[0].name")]
#[case::env_no_list(with(form_b(), "/env_vars", json!({ "EPOCHS": "1" })), "env_vars")]
#[case::volume_twice(
    with(form_b(), "/volumes/1/name", json!("dataset")), "volumes[1].name")]
#[case::volume_relative(with(form_b(), "/volumes/0/mountPath", json!("data")), "volumes[0].mountPath")]
#[case::volume_dots(with(form_b(), "/volumes/0/mountPath", json!("/data/../etc")), "volumes[0].mountPath")]
#[case::volume_overlap(with(form_b(), "/volumes/1/mountPath", json!("/data/x")), "volumes[1].mountPath")]
#[case::volume_over_the_code(
    with(form_b(), "/volumes/0/mountPath", json!("/workspace/scripts")), "volumes[0].mountPath")]
#[case::volume_without_source(
    with(form_b(), "/volumes/0", json!({ "name": "d", "mountPath": "/d" })), "volumes[0].pvc")]
#[case::volume_of_the_host(
    with(form_b(), "/volumes/0", json!({ "name": "d", "hostPath": "/etc", "mountPath": "/d" })),
    "volumes[0].hostPath")]
#[case::claim_with_slash(with(form_b(), "/volumes/0/pvc", json!("a/b")), "volumes[0].pvc")]
#[case::unknown_field(with(form_a(), "/config/gpu_per_nodes", json!(1)), "config.gpu_per_nodes")]
#[case::sizes_twice(with(form_a(), "/num_nodes", json!(2)), "num_nodes")]
#[case::checkpoint_type(with(form_a(), "/checkpoint", json!("yes")), "checkpoint")]
#[case::checkpoint_size_alone(with(form_a(), "/checkpoint_size", json!("1Gi")), "checkpoint_size")]
#[case::checkpoint_variable(
    with(
        with(form_b(), "/checkpoint", json!(true)),
        "/env_vars/0/name",
        json!("CHECKPOINT_DIR")
    ),
    "env_vars[0].name"
)]
#[case::checkpoint_overlap(
    with(
        with(form_b(), "/checkpoint", json!(true)),
        "/volumes/1/mountPath",
        json!("/workspace/checkpoints/mine")
    ),
    "volumes[1].mountPath"
)]
#[case::git_of_jax(
    with(
        with(without(form_a(), "training_code"), "/framework", json!("jax")),
        "/git_repository",
        json!("https://git.example.com/team/digits.git")
    ),
    "git_repository"
)]
#[case::launcher_of_pytorch(with(form_b(), "/launcher_cpu", json!("1")), "launcher_cpu")]
#[case::launcher_without_memory(
    with(with(form_b(), "/framework", json!("horovod")), "/launcher_memory", json!("1")),
    "launcher_memory"
)]
#[case::restarts_negative(with(form_a(), "/max_restarts", json!(-1)), "max_restarts")]
#[case::image_with_space(with(form_b(), "/image", json!("a b")), "image")]
#[case::no_object(json!([]), "body")]
#[case::a_string(json!("train"), "body")]
fn wrong_input_names_its_field_and_nothing_else(#[case] body: Value, #[case] want: &str) {
    assert_eq!(wrong_fields(&body), [want]);
}

#[test]
fn every_mistake_is_reported_at_once() {
    let body = json!({
        "user_id": 5,
        "namespace": "User",
        "framework": "caffe",
        "config": { "num_nodes": 0, "memory_per_node": "16GB" },
    });
    assert_eq!(
        wrong_fields(&body),
        [
            "user_id",
            "namespace",
            "framework",
            "training_code",
            "config.num_nodes",
            "config.memory_per_node"
        ]
    );
}

#[test]
fn a_million_mistakes_are_not_looked_at_one_by_one() {
    let mut body = form_a();
    let many = (0..1_000_000).map(|index| (format!("nam{index}"), json!(1)));
    body.as_object_mut().unwrap().extend(many);
    assert_eq!(parse(&body, &Policy::default()).unwrap_err().len(), 100);
}
