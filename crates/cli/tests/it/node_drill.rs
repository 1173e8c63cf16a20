//! The node under the real binary: thirty kills, and an ordinary user.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::differential::to_patches;
use crate::harness::target::{Target, applies};
use crate::harness::{Up, can_run_pods, has_kubectl};

const KILLS: u64 = 30;
const NODES: u64 = 2;

/// Each rank leaves a line when it starts and one when it ends, where the test can see them.
const CODE: &str = r#"
import os, pathlib, time
rank, place = os.environ["JOB_COMPLETION_INDEX"], pathlib.Path(os.environ["PLACE"])
with open(place / f"{os.environ['JOB']}-{rank}", "a") as lines:
    lines.write("start\n")
while not (place / "go").exists():
    time.sleep(0.05)
with open(place / f"{os.environ['JOB']}-{rank}", "a") as lines:
    lines.write("end\n")
print("done", rank)
"#;

fn job(name: &str, place: &Path) -> serde_json::Value {
    json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "runtimeRef": {"name": "torch-distributed"},
            "trainer": {
                "numNodes": NODES, "command": ["python3", "-c", CODE],
                "resourcesPerNode": {"requests": {"cpu": "100m"}},
                "env": [{"name": "PLACE", "value": "/place"}, {"name": "JOB", "value": name}],
            },
            "podTemplateOverrides": [{
                "targetJobs": [{"name": "node"}],
                "spec": {
                    "volumes": [{"name": "place", "hostPath": {"path": place}}],
                    "containers": [{"name": "node", "volumeMounts": [{"name": "place", "mountPath": "/place"}]}],
                },
            }],
        },
    })
}

pub(crate) fn apply(up: &Up, object: &serde_json::Value) {
    let file = up.folder.path().join("object.json");
    std::fs::write(&file, object.to_string()).unwrap();
    up.kubectl(&["apply", "-f", file.to_str().unwrap()]);
}

fn state(up: &Up, name: &str) -> String {
    let path = "jsonpath={range .status.conditions[?(@.status==\"True\")]}{.type} {end}";
    up.kubectl(&["get", "trainjob", name, "-o", path])
}

/// Everything of this data folder that the kernel still has.
fn left(data: &Path) -> BTreeSet<String> {
    let mark = data.to_str().unwrap();
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.bytes().all(|letter| letter.is_ascii_digit()) {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let mounts = std::fs::read_to_string(entry.path().join("mounts")).unwrap_or_default();
            if line.contains("supervise") && line.contains(mark) {
                found.insert(format!("process {name}: {line}"));
            }
            if mounts.contains(mark) {
                found.insert(format!("a mount of process {name}: {line}"));
            }
        }
    }
    found
}

#[test]
fn jobs_run_exactly_once_while_astrago_up_is_killed_thirty_times() {
    if !can_run_pods() || !has_kubectl() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    open_to_all(place.path());
    let folder = place.path().to_str().unwrap();
    let flags = [
        "--no-auth",
        "--stop-pods",
        "--capacity",
        "cpu=8,memory=16Gi",
        "--allow-host-path",
        folder,
    ];
    let mut up = Up::start(&flags);
    // An API server of Kubernetes takes seconds to come back each time.
    let kills = if Target::chosen().kubernetes {
        KILLS / 3
    } else {
        KILLS
    };
    for kill in 0..kills {
        if kill < 2 {
            let mut job = job(&format!("job-{kill}"), place.path());
            if !Target::chosen().takes_overrides() {
                to_patches(&mut job);
            }
            apply(&up, &job);
        }
        // A little later each time, so that it dies at every stage of its work.
        std::thread::park_timeout(std::time::Duration::from_millis(kill * 11));
        up.kill_and_start(&flags);
    }
    for name in ["job-0", "job-1"] {
        for rank in 0..NODES {
            up.eventually("the start of every rank", |_| {
                let file = place.path().join(format!("{name}-{rank}"));
                if file.exists() {
                    Ok(())
                } else {
                    Err(json!(state(&up, name)))
                }
            });
        }
    }
    std::fs::write(place.path().join("go"), "").unwrap();
    for name in ["job-0", "job-1"] {
        up.eventually("the end of the jobs", |up| {
            let state = state(up, name);
            if state.contains("Complete") {
                Ok(())
            } else {
                Err(json!(state))
            }
        });
        for rank in 0..NODES {
            let file = place.path().join(format!("{name}-{rank}"));
            let lines = std::fs::read_to_string(file).unwrap();
            assert_eq!(lines, "start\nend\n", "{name} rank {rank}");
        }
        let pods = up.kubectl(&[
            "get",
            "pods",
            "-l",
            &format!("jobset.sigs.k8s.io/jobset-name={name}"),
            "-o",
            "jsonpath={.items[*].status.containerStatuses[*].restartCount}",
        ]);
        assert_eq!(pods, "0 0", "{name}");
        up.kubectl(&["delete", "trainjob", name, "--wait=true"]);
    }
    let pods = up.node_data().join("pods");
    up.eventually("nothing of the pods is left", |_| {
        let mut left = left(&pods);
        let folders = std::fs::read_dir(&pods).unwrap().flatten();
        left.extend(folders.map(|folder| folder.path().display().to_string()));
        if left.is_empty() {
            Ok(())
        } else {
            Err(json!(left))
        }
    });
    up.stop();
}

/// All of `astrago up` without any rights: pods, names, logs and the end of a job over two nodes.
#[test]
fn an_ordinary_user_runs_a_job_over_two_nodes() {
    if !applies(
        Target::is_embedded,
        "it is about `astrago up` without rights",
    ) {
        return;
    }
    if !can_run_pods() || !has_kubectl() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    open_to_all(home.path());
    // The build may lie in a home folder that is closed to others.
    let program = home.path().join("astrago");
    std::fs::copy(env!("CARGO_BIN_EXE_astrago"), &program).unwrap();
    let script = home.path().join("train.py");
    std::fs::write(&script, MEET).unwrap();
    let mut up = Command::new("setpriv");
    up.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(&program)
        .env("HOME", home.path())
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .env("ASTRAGO_EGRESS", "off")
        .current_dir("/");
    let up = Up::start_with(up, home, &["--stop-pods", "--capacity", "cpu=4,memory=8Gi"]);
    let output = up.run(&[
        "run",
        script.to_str().unwrap(),
        "--nodes",
        "2",
        "--framework",
        "pytorch",
    ]);
    let text = String::from_utf8_lossy(&output.stdout);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{words}");
    assert!(text.contains("met 2 of 2"), "{text}\n{words}");
    let (code, _) = up.stop();
    assert_eq!(code, Some(0));
}

/// Two nodes that meet at the address that they were given.
const MEET: &str = r#"
import os, socket, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    server = socket.create_server(("0.0.0.0", place[1]))
    calls = [server.accept()[0].recv(9) for _ in range(size - 1)]
    print("met", len(calls) + 1, "of", size, "as user", os.getuid())
else:
    while True:
        try:
            socket.create_connection(place).sendall(b"hello")
            break
        except OSError:
            time.sleep(0.05)
"#;

pub(crate) fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}
