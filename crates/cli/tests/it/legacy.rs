//! The commands of `examples/with-kubectl`, as written, and mpirun over sshd: real pods, real frameworks, an unmodified kubectl.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::harness::cluster::kubeconfig;
use crate::harness::target::{NO_V1_JOBS, Target, applies};
use crate::harness::{Up, can_run_pods};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// An interpreter of the environment for tests that has these modules; prints why not, and fails instead where
/// that must not be.
fn python(modules: &str, programs: &[&str]) -> Option<PathBuf> {
    let cache = std::env::var_os("ASTRAGO_CACHE").map(PathBuf::from);
    let home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_default();
    let cache = cache.unwrap_or_else(|| home.join(".cache/astrago"));
    let python = cache.join("python/bin/python3");
    let has_modules = Command::new(&python)
        .args(["-c", &format!("import {modules}")])
        .output()
        .is_ok_and(|output| output.status.success());
    let missing = programs.iter().find(|program| {
        let found = Command::new("sh")
            .args(["-c", &format!("command -v {program}")])
            .output();
        !found.is_ok_and(|output| output.status.success())
    });
    if has_modules && missing.is_none() {
        return Some(python);
    }
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "CI must have what scripts/setup installs"
    );
    println!(
        "skipped: needs {modules} in {} and {programs:?}; run scripts/setup",
        python.display()
    );
    None
}

fn kubectl(up: &Up, line: &str) -> Output {
    Command::new("sh")
        .args(["-c", line])
        .env("KUBECONFIG", kubeconfig(up.folder.path()))
        .env("HOME", up.folder.path())
        .output()
        .unwrap()
}

/// What a command prints; it must succeed.
fn shell(up: &Up, line: &str) -> String {
    let output = kubectl(up, line);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {text}{errors}");
    text
}

fn until(up: &Up, line: &str, want: &str) -> String {
    up.eventually(&format!("{want} in `{line}`"), |up| {
        let output = kubectl(up, line);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.contains(want) {
            Ok(text)
        } else {
            let errors = String::from_utf8_lossy(&output.stderr);
            Err(Value::String(format!("{text}{errors}")))
        }
    })
}

#[test]
fn the_documented_commands_of_v1_run_ddp_on_a_master_and_a_worker() {
    if !applies(Target::runs_v1_jobs, NO_V1_JOBS) {
        return;
    }
    if !can_run_pods() {
        return;
    }
    let Some(python) = python("torch", &["kubectl"]) else {
        return;
    };
    let up = Up::start(&["--stop-pods", "--python", python.to_str().unwrap()]);
    let overlay = repository().join("examples/kustomize/overlays/ddp");
    let crds = shell(&up, "kubectl get crd | grep kubeflow.org");
    for plural in [
        "mpijobs",
        "mxjobs",
        "paddlejobs",
        "pytorchjobs",
        "tfjobs",
        "xgboostjobs",
    ] {
        assert!(crds.contains(&format!("{plural}.kubeflow.org")), "{crds}");
    }
    let apply = format!(
        "cd {} && kubectl kustomize . | kubectl apply -f -",
        overlay.display()
    );
    let applied = shell(&up, &apply);
    assert!(
        applied.contains("pytorchjob.kubeflow.org/pytorch-dist-job created"),
        "{applied}"
    );
    until(&up, "kubectl get pytorchjobs", "Succeeded");
    let master = shell(&up, "kubectl logs pytorch-dist-job-master-0");
    assert!(
        master.contains("rank 0/2") && master.contains("accuracy"),
        "{master}"
    );
    let all = shell(&up, "kubectl get all");
    assert!(all.contains("pod/pytorch-dist-job-master-0"), "{all}");
    let described = shell(&up, "kubectl describe pod pytorch-dist-job-master-0");
    assert!(described.contains("MASTER_ADDR:"), "{described}");
    let described = shell(&up, "kubectl describe pytorchjob pytorch-dist-job");
    assert!(described.contains("SuccessfulCreatePod"), "{described}");
    let deleted = shell(&up, "kubectl delete pytorchjob pytorch-dist-job");
    assert!(deleted.contains("deleted"), "{deleted}");
    until(&up, "kubectl get pods 2>&1", "No resources found");
}

#[test]
fn a_killed_worker_comes_back_by_its_restart_policy() {
    if !applies(Target::runs_v1_jobs, NO_V1_JOBS) {
        return;
    }
    if !can_run_pods() {
        return;
    }
    let Some(_) = python("sys", &["kubectl"]) else {
        return;
    };
    let up = Up::start(&["--stop-pods"]);
    let replica = json!({ "restartPolicy": "ExitCode", "template": { "spec": { "containers": [{ "name": "pytorch", "image": "i",
        "command": ["sh", "-c", "echo $RANK of $WORLD_SIZE; trap 'exit 143' TERM; while :; do sleep 0.1; done"] }] } } });
    let job = json!({ "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": { "name": "killed" },
        "spec": { "pytorchReplicaSpecs": { "Master": replica, "Worker": replica } } });
    let file = up.folder.path().join("job.json");
    std::fs::write(&file, job.to_string()).unwrap();
    shell(&up, &format!("kubectl apply -f {}", file.display()));
    until(&up, "kubectl logs killed-worker-0", "1 of 2");
    shell(
        &up,
        "kubectl exec killed-worker-0 -c pytorch -- sh -c 'kill -TERM 1'",
    );
    let query =
        "kubectl get pytorchjob killed -o jsonpath='{.status.replicaStatuses.Worker.restarts}'";
    until(&up, query, "1");
    until(&up, "kubectl get pytorchjobs", "Running");
    until(&up, "kubectl logs killed-worker-0", "1 of 2");
    shell(&up, "kubectl delete pytorchjob killed");
}

const ALL_REDUCE: &str = "from mpi4py import MPI; w = MPI.COMM_WORLD; \
    print('sum', w.allreduce(w.Get_rank()), 'of', w.Get_size(), 'on', MPI.Get_processor_name(), flush=True)";

#[test]
fn an_mpi_job_reduces_over_two_workers_with_two_slots() {
    if !applies(Target::runs_v1_jobs, NO_V1_JOBS) {
        return;
    }
    if !can_run_pods() {
        return;
    }
    let Some(python) = python("mpi4py", &["kubectl", "mpirun", "/usr/sbin/sshd"]) else {
        return;
    };
    let up = Up::start(&["--stop-pods", "--python", python.to_str().unwrap()]);
    let container = |command: Value| json!({ "spec": { "containers": [{ "name": "mpi", "image": "i", "command": command }] } });
    let job = json!({ "apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "metadata": { "name": "reduce" },
        "spec": { "slotsPerWorker": 2, "mpiReplicaSpecs": {
            "Launcher": { "replicas": 1, "template": container(json!(["mpirun", "python3", "-c", ALL_REDUCE])) },
            "Worker": { "replicas": 2, "template": container(Value::Null) } } } });
    let file = up.folder.path().join("job.json");
    std::fs::write(&file, job.to_string()).unwrap();
    shell(&up, &format!("kubectl apply -f {}", file.display()));
    until(&up, "kubectl get mpijobs", "Succeeded");
    let log = shell(&up, "kubectl logs reduce-launcher");
    assert_eq!(log.matches("sum 6 of 4").count(), 4, "{log}");
    assert!(
        log.contains("on reduce-worker-0") && log.contains("on reduce-worker-1"),
        "{log}"
    );
}

#[test]
fn a_train_job_of_the_horovod_runtime_trains_over_mpi() {
    if !applies(
        |target| target.kubeflow.is_none(),
        "the launcher of an MPI job gets what the trainer gets, and Kubeflow starts several of it",
    ) {
        return;
    }
    if !can_run_pods() {
        return;
    }
    let Some(python) = python("mpi4py, numpy", &["kubectl", "mpirun", "/usr/sbin/sshd"]) else {
        return;
    };
    let up = Up::start(&["--stop-pods", "--python", python.to_str().unwrap()]);
    let folder = repository().join("runtimes/horovod-distributed");
    let folder = folder.display();
    shell(
        &up,
        &format!("kubectl create configmap horovod-digits-code --from-file={folder}/train.py"),
    );
    shell(&up, &format!("kubectl apply -f {folder}/trainjob.yaml"));
    until(&up, "kubectl get trainjobs", "Complete");
    let log = shell(
        &up,
        "kubectl logs -l jobset.sigs.k8s.io/replicatedjob-name=launcher --tail=-1",
    );
    assert!(log.contains("with 4 processes"), "{log}");
}

/// Horovod itself, by the create request: its optimizer keeps the model of two pods the same.
#[test]
fn horovod_trains_one_model_in_two_pods() {
    if !applies(
        Target::is_embedded,
        "the image of the cluster's runtime has Horovod of its own",
    ) {
        return;
    }
    if !can_run_pods() {
        return;
    }
    let Some(python) = python(
        "horovod.torch, torch, sklearn",
        &["mpirun", "/usr/sbin/sshd"],
    ) else {
        return;
    };
    let up = Up::start(&[
        "--no-auth",
        "--stop-pods",
        "--capacity",
        "cpu=8,memory=16Gi",
        "--python",
        python.to_str().unwrap(),
    ]);
    let code = std::fs::read_to_string(repository().join("examples/horovod-pytorch/train.py"));
    let form = json!({
        "user_id": "kim", "namespace": "user-kim", "name": "digits", "framework": "horovod",
        "training_code": code.unwrap(), "num_nodes": 2, "cpu_request": "250m", "memory_request": "2Gi",
        "launcher_cpu": "100m", "launcher_memory": "512Mi", "env_vars": [{ "name": "EPOCHS", "value": "10" }],
    });
    let (code, made) = up.post("/api/trainjob/create", &form);
    assert_eq!(code, 200, "{made}");
    let path = "/api/trainjobs/digits?namespace=user-kim";
    // The workers go when the launcher is done, so all are seen only while it trains.
    let mut roles = BTreeSet::new();
    let ended = up.eventually("the job has ended", |up| {
        let (_, job) = up.get(path);
        for node in job["nodes"].as_array().into_iter().flatten() {
            roles.insert((
                node["worker"].as_i64(),
                node["role"].as_str().unwrap_or_default().to_owned(),
            ));
        }
        // The launcher is a pod of the job, too, but none of its nodes.
        assert!(job["nodes_running"].as_i64() <= Some(2), "{job}");
        let state = job["state"].as_str().unwrap_or_default();
        if ["Complete", "Failed"].contains(&state) {
            Ok(job)
        } else {
            Err(job)
        }
    });
    let (_, log) = up.get("/api/trainjob/digits/logs?namespace=user-kim&worker=0");
    let log = log["logs"].as_str().unwrap_or_default();
    assert_eq!(ended["state"], "Complete", "{log}");
    assert_eq!(ended["num_nodes"], 2);
    let want = [(0, "launcher"), (1, "node"), (2, "node")];
    let want = want.map(|(worker, role)| (Some(worker), role.to_owned()));
    assert_eq!(roles, BTreeSet::from(want));
    for rank in 0..2 {
        let place = format!("rank {rank} of 2 on digits-node-0-{rank}");
        assert!(log.contains(&place), "{log}");
        let result = log.lines().find_map(|line| {
            line.split(&format!("rank {rank}: accuracy "))
                .nth(1)?
                .split_once(", weights apart by ")
        });
        let (accuracy, apart) = result.unwrap_or_else(|| panic!("no result of {rank}: {log}"));
        assert!(accuracy.parse::<f64>().unwrap() > 0.9, "{log}");
        assert_eq!(apart.trim(), "0.000000", "{log}");
    }
}
