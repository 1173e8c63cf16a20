//! Real frameworks over every road: REST in both forms, the command line, kubectl, Kubeflow's SDK.
//!
//! The scripts are those of the catalogue and end with an error below their stated accuracy, so a
//! job that completes has trained.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::cluster::kubeconfig;
use crate::harness::target::{Target, applies};
use crate::harness::{Up, can_run_pods, has_kubectl, python};

const PYTORCH: &str = include_str!("../../../../runtimes/pytorch-simple/train.py");
const TENSORFLOW: &str = include_str!("../../../../runtimes/tensorflow-distributed/train.py");

/// Where the catalogue stands.
const RUNTIMES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../runtimes");

fn start() -> Option<Up> {
    let python = python().filter(|_| can_run_pods())?;
    let flags = [
        "--no-auth",
        "--stop-pods",
        "--capacity",
        "cpu=8,memory=16Gi",
    ];
    let python = ["--python", python.to_str().unwrap()];
    Some(Up::start(&[&flags[..], &python[..]].concat()))
}

/// Waits for the end of a job and checks that each of its workers knew its place and trained.
fn trained(up: &Up, namespace: &str, name: &str, who: &str, nodes: u32) {
    let status = ended(up, namespace, name);
    for worker in 0..nodes {
        let path = format!("/api/trainjob/{name}/logs?namespace={namespace}&worker={worker}");
        let (_, logs) = up.get(&path);
        let log = logs["logs"].as_str().unwrap_or_default();
        assert_eq!(status["state"], "Complete", "{status}\n{log}");
        let place = format!("{who} {worker} of {nodes} on {name}-node-0-{worker}");
        assert!(log.contains(&place), "{log}");
        assert!(
            log.contains(&format!("{who} {worker}: accuracy 0.9")),
            "{log}"
        );
    }
}

fn ended(up: &Up, namespace: &str, name: &str) -> Value {
    up.eventually("the end of the training", |up| {
        let path = format!("/api/trainjob/{name}/status?namespace={namespace}");
        let (_, status) = up.get(&path);
        match status["state"].as_str() {
            Some("Complete" | "Failed") => Ok(status),
            _ => Err(status),
        }
    })
}

fn create(up: &Up, form: &Value) -> String {
    let (code, made) = up.post("/api/trainjob/create", form);
    assert_eq!(code, 200, "{made}");
    made["trainjob_name"].as_str().unwrap().to_owned()
}

#[test]
fn both_frameworks_train_over_rest_and_the_command_line_at_the_same_time() {
    let Some(up) = start() else { return };
    let pytorch = create(
        &up,
        &json!({
            "user_id": "kim", "namespace": "user-kim", "framework": "pytorch", "training_code": PYTORCH,
            "config": { "num_nodes": 2, "gpu_per_node": 0, "cpu_per_node": "250m", "memory_per_node": "2Gi" },
        }),
    );
    let tensorflow = create(
        &up,
        &json!({
            "user_id": "kim", "namespace": "user-kim", "framework": "tensorflow", "training_code": TENSORFLOW,
            "num_nodes": 3, "cpu_request": "250m", "memory_request": "512Mi", "memory_limit": "4Gi", "gpu_count": 0,
            "command": "python3 /workspace/scripts/train.py", "env_vars": [{ "name": "EPOCHS", "value": "15" }],
        }),
    );
    let script = format!("{RUNTIMES}/pytorch-simple/train.py");
    let output = up.run(&[
        "run",
        &script,
        "--nodes",
        "2",
        "--cpu",
        "1",
        "--memory",
        "2Gi",
        "--name",
        "by-hand",
        "-n",
        "user-lee",
        "--create-namespace",
    ]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    for rank in 0..2 {
        let line = format!("[{rank}] Rank {rank} of 2 on by-hand-node-0-{rank}");
        assert!(stdout.contains(&line), "{stdout}");
    }
    trained(&up, "user-lee", "by-hand", "Rank", 2);
    trained(&up, "user-kim", &pytorch, "Rank", 2);
    trained(&up, "user-kim", &tensorflow, "Worker", 3);
}

/// One job of the catalogue, exactly as its folder tells the reader to start it.
#[test]
fn the_catalogue_trains_by_kubectl() {
    if !applies(
        |target| target.kubeflow.is_none(),
        "Kubeflow does not tell TensorFlow the number of nodes",
    ) {
        return;
    }
    if !has_kubectl() {
        return;
    }
    let Some(up) = start() else { return };
    up.kubectl(&["create", "namespace", "team"]);
    let jobs = [
        ("torch-distributed", "torch-digits", "Rank", 2),
        ("pytorch-simple", "pytorch-digits", "Rank", 2),
        ("tensorflow-distributed", "tensorflow-digits", "Worker", 3),
    ];
    for (runtime, name, _, _) in jobs {
        let folder = format!("{RUNTIMES}/{runtime}");
        let (map, file) = (
            format!("{name}-code"),
            format!("--from-file={folder}/train.py"),
        );
        up.kubectl(&["-n", "team", "create", "configmap", &map, &file]);
        up.kubectl(&[
            "-n",
            "team",
            "apply",
            "-f",
            &format!("{folder}/trainjob.yaml"),
        ]);
    }
    for (_, name, who, nodes) in jobs {
        trained(&up, "team", name, who, nodes);
    }
}

/// The frameworks beside PyTorch and TensorFlow, and FSDP, all at once.
#[test]
fn the_rest_of_the_catalogue_trains_by_kubectl() {
    if !applies(
        |target| target.kubeflow.is_none(),
        "Kubeflow's releases lack some of these policies, and start several launchers of an MPI job",
    ) {
        return;
    }
    if !has_kubectl() || !has_mpi() {
        return;
    }
    let Some(up) = start() else { return };
    let fsdp = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/fsdp-t5-small");
    let folder = |runtime: &str| format!("{RUNTIMES}/{runtime}");
    let jobs = [
        (folder("jax-distributed"), "jax-digits"),
        (folder("xgboost-distributed"), "xgboost-digits"),
        (folder("mlx-distributed"), "mlx-digits"),
        (folder("deepspeed-distributed"), "deepspeed-digits"),
        (fsdp.to_owned(), "t5-small"),
    ];
    up.kubectl(&["create", "namespace", "team"]);
    let team = |arguments: &[&str]| up.kubectl(&[&["-n", "team"], arguments].concat());
    for (folder, name) in &jobs {
        let code = format!("--from-file={folder}/train.py");
        team(&["create", "configmap", &format!("{name}-code"), &code]);
        team(&["apply", "-f", &format!("{folder}/trainjob.yaml")]);
    }
    trained(&up, "team", "jax-digits", "Process", 2);
    trained(&up, "team", "xgboost-digits", "Worker", 2);
    // The processes of MPI write through the launcher, and those of torchrun through their node.
    for (name, processes) in [("mlx-digits", 2), ("deepspeed-digits", 2), ("t5-small", 4)] {
        let state = ended(&up, "team", name);
        let (_, lines) = up.get(&format!("/api/trainjobs/{name}/logs?namespace=team"));
        let lines = lines.to_string();
        assert_eq!(state["state"], "Complete", "{state}\n{lines}");
        for rank in 0..processes {
            let place = format!("Rank {rank} of {processes} on {name}-");
            let good = ["0.9", "1.0"].map(|start| format!("Rank {rank}: accuracy {start}"));
            let is_good = good.iter().any(|result| lines.contains(result));
            assert!(lines.contains(&place) && is_good, "{lines}");
        }
    }
    let (_, fsdp) = up.get("/api/trainjobs/t5-small/logs?namespace=team");
    let share = " of 170320 weights";
    assert_eq!(fsdp.to_string().matches(share).count(), 4, "{fsdp}");
    assert!(!fsdp.to_string().contains("keeps 170320"), "{fsdp}");
}

fn has_mpi() -> bool {
    let found =
        ["/usr/bin/mpirun", "/usr/sbin/sshd"].map(|path| std::path::Path::new(path).exists());
    crate::harness::needed(
        found.iter().all(|found| *found).then_some(()),
        "Open MPI and OpenSSH",
    )
    .is_some()
}

#[test]
fn the_code_comes_from_git_or_the_reason_why_not() {
    if !applies(
        |target| target.kubeflow.is_none(),
        "it changes the policies of a runtime, and Kubeflow's definitions let nobody",
    ) {
        return;
    }
    if !has_kubectl() {
        return;
    }
    let Some(up) = start() else { return };
    let folder = up.folder.path();
    let source = folder.join("source");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("train.py"), PYTORCH).unwrap();
    bundle(&source);
    let map = "pytorch-digits-repository";
    up.kubectl(&["create", "configmap", map, "--from-file=digits.bundle"]);
    let manifest =
        std::fs::read_to_string(format!("{RUNTIMES}/pytorch-runtime/trainjob.yaml")).unwrap();
    std::fs::write(folder.join("good.yaml"), &manifest).unwrap();
    let wrong = manifest
        .replace("name: pytorch-git-digits", "name: wrong-branch")
        .replace("value: main", "value: nosuch");
    std::fs::write(folder.join("wrong.yaml"), wrong).unwrap();
    up.kubectl(&[
        "patch",
        "clustertrainingruntime",
        "pytorch-runtime",
        "--type=merge",
        "-p",
        r#"{"spec":{"template":{"spec":{"failurePolicy":{"maxRestarts":0}}}}}"#,
    ]);
    up.kubectl(&["apply", "-f", "good.yaml", "-f", "wrong.yaml"]);
    up.eventually("the failure of the job with the wrong branch", |up| {
        let (_, status) = up.get("/api/trainjob/wrong-branch/status?namespace=default");
        if status["state"] == "Failed" {
            Ok(())
        } else {
            Err(status)
        }
    });
    let selector = "batch.kubernetes.io/job-name=wrong-branch-node-0";
    let log = up.kubectl(&["logs", "-l", selector, "-c", "git-clone"]);
    assert!(
        log.contains("failed to fetch nosuch of /repository/digits.bundle"),
        "{log}"
    );
    trained(&up, "default", "pytorch-git-digits", "Rank", 2);
}

/// Makes a repository of a folder, and `digits.bundle` of it beside the folder.
fn bundle(source: &Path) {
    for arguments in [
        "init -q -b main",
        "add .",
        "-c user.name=Kim -c user.email=kim@example.com commit -q -m digits",
        "bundle create -q ../digits.bundle main",
    ] {
        let mut git = Command::new("git");
        git.arg("-C").arg(source).args(arguments.split(' '));
        assert!(git.status().unwrap().success(), "{arguments}");
    }
}

/// `runtimes/pytorch` and `runtimes/tensorflow` as documents name them, applied in their order from the folder of
/// examples. Only what no test has is replaced in the jobs: the GPUs, and the server with the repository.
#[test]
fn the_runtimes_and_jobs_of_the_examples_train_under_their_own_names() {
    if !applies(
        |target| target.kubeflow.is_none() && target.takes_overrides(),
        "the files speak the dialect of v2.1, which does not tell TensorFlow the number of nodes",
    ) || !has_kubectl()
    {
        return;
    }
    let Some(python) = python().filter(|_| can_run_pods()) else {
        return;
    };
    let capacity = ["--capacity", "cpu=16,memory=64Gi"];
    let python = ["--python", python.to_str().unwrap()];
    let up = Up::start(&[&["--no-auth", "--stop-pods"][..], &capacity, &python].concat());
    let source = up.folder.path().join("source");
    for (path, code) in [
        ("pytorch-simple", PYTORCH),
        ("tensorflow-distributed", TENSORFLOW),
    ] {
        let folder = source.join("runtimes").join(path);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("train.py"), code).unwrap();
    }
    bundle(&source);
    let system = |arguments: &[&str]| up.kubectl(&[&["-n", "kubeflow-system"], arguments].concat());
    system(&[
        "create",
        "configmap",
        "repository",
        "--from-file=digits.bundle",
    ]);
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/with-kubectl");
    for framework in ["pytorch", "tensorflow"] {
        let folder = format!("{examples}/runtimes/{framework}");
        up.kubectl(&["apply", "-f", &format!("{folder}/runtime.yaml")]);
        let file = format!("{folder}/trainjob.yaml");
        // As it stands it is taken, too.
        up.kubectl(&["apply", "--dry-run=server", "-f", &file]);
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.lines().filter(|line| !line.contains("nvidia.com/gpu"));
        // Without GPUs torchrun starts as many processes as a node has CPUs.
        let text = text.collect::<Vec<_>>().join("\n");
        let text = text.replace("cpu: \"2\"", "cpu: \"1\"").replace(
            "https://github.com/xiilab/astrago-trainer.git",
            "/repository/digits.bundle",
        );
        let bundle = "
            volumeMounts: [{ name: repository, mountPath: /repository }]
        volumes: [{ name: repository, configMap: { name: repository } }]
";
        std::fs::write(up.folder.path().join("trainjob.yaml"), text + bundle).unwrap();
        up.kubectl(&["apply", "-f", "trainjob.yaml"]);
    }
    let jobs = system(&["get", "trainjob"]);
    for (name, who) in [("pytorch-git", "Rank"), ("tensorflow-git", "Worker")] {
        assert!(jobs.contains(name), "{jobs}");
        trained(&up, "kubeflow-system", name, who, 2);
    }
}

#[test]
fn kubeflows_sdk_trains_a_function() {
    let Some(up) = start() else { return };
    let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk_train.py");
    let output = Command::new(python().unwrap())
        .arg(driver)
        .env("KUBECONFIG", kubeconfig(up.folder.path()))
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let seen = up.kubectl(&[
            "get",
            "trainjobs,jobsets,jobs,pods,events",
            "-A",
            "-o",
            "yaml",
        ]);
        panic!("{stdout}\n{stderr}\n{seen}\n{}", up.logs());
    }
    for rank in 0..2 {
        let line = format!("node-{rank}: Rank {rank} of 2");
        assert!(stdout.contains(&line), "{stdout}\n{stderr}");
    }
    assert!(stdout.contains("accuracy 0.9"), "{stdout}");
    assert!(stdout.contains("with memory alone: True 1"), "{stdout}");
    // Before v2.2 Kubeflow Trainer did not say which version it is.
    let says = !Target::chosen().is_kubeflow_2_1();
    assert_eq!(
        !stderr.contains("kubeflow-trainer-public"),
        says,
        "{stderr}"
    );
    assert!(stdout.contains("left: []"), "{stdout}");
}
