//! Killed in the middle: a worker, and the whole of `astrago up`.
//!
//! The training waits at the end of its second epoch, so that the kill comes at the same point each time.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::target::{Target, applies};
use crate::harness::{Up, can_run_pods, has_kubectl, python};

const PYTORCH: &str = include_str!("../../../../runtimes/pytorch-simple/train.py");

/// The catalogue's script, with a stop after the second epoch of the first attempt that ends when the file
/// `go` appears beside the checkpoints.
fn script() -> String {
    let saved = "        save_checkpoint(model, optimizer, epoch, rank)\n";
    assert_eq!(PYTORCH.matches(saved).count(), 1);
    let stop = "        import time\n\
        \x20       if first == 1 and epoch == 2:\n\
        \x20           print('waiting after epoch 2', flush=True)\n\
        \x20           while not (Path(CHECKPOINT_DIR) / 'go').exists():\n\
        \x20               time.sleep(0.1)\n";
    PYTORCH.replace(saved, &format!("{saved}{stop}"))
}

fn flags(python: &str) -> [&str; 6] {
    [
        "--no-auth",
        "--stop-pods",
        "--capacity",
        "cpu=4,memory=16Gi",
        "--python",
        python,
    ]
}

fn create(up: &Up, name: &str, max_restarts: i64) {
    let form = json!({
        "user_id": "kim", "namespace": "user-kim", "framework": "pytorch", "training_code": script(), "name": name,
        "num_nodes": 2, "cpu_request": "250m", "memory_limit": "2Gi", "max_restarts": max_restarts, "checkpoint": true,
    });
    let (code, made) = up.post("/api/trainjob/create", &form);
    assert_eq!(code, 200, "{made}");
}

fn log(up: &Up, name: &str, worker: u32) -> String {
    let path = format!("/api/trainjob/{name}/logs?namespace=user-kim&worker={worker}");
    let (_, logs) = up.get(&path);
    logs["logs"].as_str().unwrap_or_default().to_owned()
}

fn detail(up: &Up, name: &str) -> Value {
    up.get(&format!("/api/trainjobs/{name}?namespace=user-kim"))
        .1
}

fn ended(up: &Up, name: &str, want: &str) -> Value {
    let status = up.eventually("the end of the job", |up| {
        let (_, status) = up.get(&format!("/api/trainjob/{name}/status?namespace=user-kim"));
        match status["state"].as_str() {
            Some("Complete" | "Failed") => Ok(status),
            _ => Err(json!({ "status": status, "log": log(up, name, 0) })),
        }
    });
    assert_eq!(status["state"], want, "{status}\n{}", log(up, name, 0));
    status
}

fn wait_for_epoch_2(up: &Up, name: &str) {
    for worker in 0..2 {
        up.eventually("the end of epoch 2", |up| {
            let log = log(up, name, worker);
            if log.contains("waiting after epoch 2") {
                Ok(())
            } else {
                Err(json!(log))
            }
        });
    }
}

/// The uid of each of the job's pods, by their index.
fn pod_uids(up: &Up, name: &str) -> Vec<String> {
    let selector = format!("jobset.sigs.k8s.io/jobset-name={name}");
    let pods = up.kubectl(&[
        "-n", "user-kim", "get", "pods", "-l", &selector, "-o", "json",
    ]);
    let pods: Value = serde_json::from_str(&pods).unwrap();
    let mut uids: Vec<(String, String)> = pods["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pod| {
            let index = &pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"];
            let uid = &pod["metadata"]["uid"];
            (
                index.as_str().unwrap().to_owned(),
                uid.as_str().unwrap().to_owned(),
            )
        })
        .collect();
    uids.sort();
    uids.into_iter().map(|(_, uid)| uid).collect()
}

/// The processes of a pod whose command line begins with `program`.
fn processes(pod: &str, program: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(id) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
        let cgroup = String::from_utf8_lossy(&read("cgroup")).into_owned();
        if cgroup.contains(pod) && read("cmdline").starts_with(program.as_bytes()) {
            found.push(id);
        }
    }
    found
}

fn kill_worker(up: &Up, name: &str) {
    let pod = &pod_uids(up, name)[1];
    let training = processes(pod, "python3");
    assert_eq!(training.len(), 1, "{pod}: {training:?}");
    let status = Command::new("kill")
        .args(["-9", &training[0].to_string()])
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn a_killed_worker_costs_one_restart_and_no_epoch() {
    let (Some(python), true) = (python().filter(|_| can_run_pods()), has_kubectl()) else {
        return;
    };
    let up = Up::start(&flags(python.to_str().unwrap()));
    create(&up, "again", 2);
    create(&up, "never", 0);
    for name in ["again", "never"] {
        wait_for_epoch_2(&up, name);
        kill_worker(&up, name);
    }
    let status = ended(&up, "never", "Failed");
    assert!(!status["message"].as_str().unwrap().is_empty(), "{status}");
    let failed = detail(&up, "never");
    assert_eq!(failed["restarts"], 0, "{failed}");
    let summary = failed["failure"]["summary"].as_str().unwrap_or_default();
    assert!(
        summary.contains("137") || summary.contains("SIGKILL"),
        "{failed}"
    );

    ended(&up, "again", "Complete");
    assert_eq!(detail(&up, "again")["restarts"], 1);
    for worker in 0..2 {
        let log = log(&up, "again", worker);
        assert!(log.contains("resumed from checkpoint of epoch 2"), "{log}");
        assert!(
            !log.contains("Epoch 1,") && log.contains("Epoch 3,"),
            "{log}"
        );
        assert!(
            log.contains(&format!("Rank {worker}: accuracy 0.9")),
            "{log}"
        );
    }
    // The volume was the job's, and goes with it.
    let claims = up.kubectl(&["-n", "user-kim", "get", "pvc", "-o", "name"]);
    assert!(claims.contains("again-checkpoints"), "{claims}");
    up.kubectl(&["-n", "user-kim", "delete", "trainjob", "again"]);
    up.eventually("the end of the volume", |up| {
        let claims = up.kubectl(&["-n", "user-kim", "get", "pvc", "-o", "name"]);
        if claims.contains("again-checkpoints") {
            Err(json!(claims))
        } else {
            Ok(())
        }
    });
}

/// The example, as a reader would start it.
#[test]
fn the_restart_drill_shows_the_resume() {
    let Some(python) = python().filter(|_| can_run_pods()) else {
        return;
    };
    let up = Up::start(&flags(python.to_str().unwrap()));
    let drill = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/restart-drill/drill"
    );
    let made = up.run(&["namespace", "create", "user-kim"]);
    assert!(made.status.success(), "{made:?}");
    let output = Command::new(drill)
        .env("ASTRAGO", env!("CARGO_BIN_EXE_astrago"))
        .envs(up.client())
        .env("ASTRAGO_NAMESPACE", "user-kim")
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(
        stdout.contains("resumed from checkpoint of epoch"),
        "{stdout}"
    );
    assert!(stdout.contains("Complete"), "{stdout}");
}

#[test]
fn training_goes_on_over_the_death_of_the_server_and_leaves_nothing() {
    let (Some(python), true) = (python().filter(|_| can_run_pods()), has_kubectl()) else {
        return;
    };
    let mut up = Up::start(&flags(python.to_str().unwrap()));
    create(&up, "steady", 0);
    wait_for_epoch_2(&up, "steady");
    let before = pod_uids(&up, "steady");
    let training: Vec<Vec<u32>> = before.iter().map(|pod| processes(pod, "python3")).collect();

    up.kill_and_start(&flags(python.to_str().unwrap()));
    let after: Vec<Vec<u32>> = before.iter().map(|pod| processes(pod, "python3")).collect();
    assert_eq!(after, training, "the same processes train on");
    let pod = up.kubectl(&["-n", "user-kim", "get", "pods", "-o", "name"]);
    let pod = pod.lines().next().unwrap().to_owned();
    up.eventually("a way into the pod", |up| {
        let mut exec = up.kubectl_command();
        exec.args([
            "-n",
            "user-kim",
            "exec",
            &pod,
            "--",
            "touch",
            "/workspace/checkpoints/go",
        ]);
        let output = exec.output().unwrap();
        if output.status.success() {
            Ok(())
        } else {
            Err(json!(String::from_utf8_lossy(&output.stderr)))
        }
    });
    ended(&up, "steady", "Complete");
    assert_eq!(pod_uids(&up, "steady"), before);
    assert_eq!(detail(&up, "steady")["restarts"], 0);
    for worker in 0..2 {
        let log = log(&up, "steady", worker);
        assert_eq!(
            log.matches(&format!("Rank {worker} of 2")).count(),
            1,
            "{log}"
        );
        assert_eq!(log.matches("Epoch 2, Batch 0/").count(), 1, "{log}");
        assert!(
            log.contains(&format!("Rank {worker}: accuracy 0.9")),
            "{log}"
        );
    }

    up.kubectl(&["-n", "user-kim", "delete", "trainjob", "steady"]);
    let data = up.folder.path().join("data");
    up.eventually("that nothing is left", |_| {
        let left = left_over(&data, &before);
        if left.is_empty() {
            Ok(())
        } else {
            Err(json!(left))
        }
    });
}

/// What still reminds of the pods: processes, cgroups, mounts.
fn left_over(data: &std::path::Path, pods: &[String]) -> Vec<String> {
    let mut left = Vec::new();
    for pod in pods {
        left.extend(processes(pod, "").iter().map(|id| format!("process {id}")));
        left.extend(cgroups(pod).iter().map(|path| path.display().to_string()));
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let data = data.display().to_string();
    left.extend(
        mounts
            .lines()
            .filter(|line| line.contains(&data))
            .map(str::to_owned),
    );
    left
}

fn cgroups(pod: &str) -> Vec<PathBuf> {
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").unwrap().flatten();
    hierarchies
        .map(|entry| entry.path().join("astrago").join(pod))
        .chain([PathBuf::from("/sys/fs/cgroup/astrago").join(pod)])
        .filter(|path| path.exists())
        .collect()
}

/// A missing module is still missing at the next attempt; a number that happens to be odd is not.
#[test]
fn what_cannot_heal_is_not_tried_again_and_what_can_is() {
    let embedded = applies(Target::is_embedded, "Kubeflow's JobSet restarts after all");
    let (true, Some(python)) = (embedded && can_run_pods() && has_kubectl(), python()) else {
        return;
    };
    let python = python.to_string_lossy();
    let up = Up::start(&flags(&python));
    let script = up.folder.path().join("train.py");
    let run = |name: &str, code: &str, more: &[&str]| {
        std::fs::write(&script, code).unwrap();
        let mut words = vec!["run", script.to_str().unwrap(), "--name", name];
        words.extend(["--cpu", "100m", "--max-restarts"]);
        words.extend(more);
        let output = up.run(&words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text.matches("begin").count(), error)
    };
    let hopeless = "print('begin')\nimport no_such_thing\n";
    let (code, starts, error) = run("hopeless", hopeless, &["6", "--nodes", "2"]);
    // The first node ends the job for both: the other may not have come as far.
    assert!(code == Some(1) && (1..=2).contains(&starts), "{error}");
    let restarts = ["-o", "jsonpath={.status.restarts}"];
    let restarts = up.kubectl(&[&["get", "jobset", "hopeless"][..], &restarts].concat());
    assert!(["", "0"].contains(&restarts.trim()), "{restarts}");
    let job = up.kubectl(&["get", "trainjob", "hopeless", "-o", "json"]);
    let job: Value = serde_json::from_str(&job).unwrap();
    let failed = &job["status"]["conditions"][0];
    assert_eq!(failed["reason"], "PermanentFailure", "{job}");
    let message = failed["message"].as_str().unwrap();
    assert!(message.contains("no_such_thing"), "{message}");

    let (code, starts, error) = run("all", hopeless, &["1", "--retry", "all"]);
    assert_eq!((code, starts), (Some(1), 2), "{error}");

    let flaky = "import os\nfrom pathlib import Path\nprint('begin')\n\
        again = Path(os.environ['CHECKPOINT_DIR']) / 'again'\n\
        if not again.exists():\n    again.touch()\n    raise RuntimeError('unlucky')\n";
    let (code, starts, error) = run("flaky", flaky, &["6", "--checkpoint"]);
    assert_eq!((code, starts), (Some(0), 2), "{error}");
}
