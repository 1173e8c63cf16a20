//! Folders of code: sent as they are, stored once, seen by every node, kept with the job, and nobody else's.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use serde_json::{Value, json};

use crate::harness::target::applies;
use crate::harness::{Up, astrago, can_run_pods, has_kubectl};

const TRAIN: &str = r"
import os, subprocess, sys
from pathlib import Path
from mypackage.models.net import NAME

print('model', NAME, 'rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], 'args', sys.argv[1:])
print('folder', os.getcwd())
print('tool says', subprocess.run(['./tools/hello.sh'], capture_output=True, text=True, check=True).stdout.strip())
print('ignored is here:', Path('data').exists() or Path('secret.env').exists())
print('large has', sum(file.stat().st_size for file in Path().glob('*.bin')), 'bytes')
try:
    Path('written').write_text('x')
    print('wrote into the folder')
except OSError:
    print('the folder is read-only')
";

fn project(folder: &Path) -> PathBuf {
    let project = folder.join("project");
    let files = [
        ("train.py", TRAIN),
        ("mypackage/__init__.py", ""),
        ("mypackage/models/__init__.py", ""),
        ("mypackage/models/net.py", "NAME = 'first'\n"),
        ("tools/hello.sh", "#!/bin/sh\necho hello\n"),
        (".gitignore", "data/\n*.env\n"),
        ("data/huge.csv", "1,2,3\n"),
        ("secret.env", "TOKEN=secret\n"),
    ];
    for (path, text) in files {
        let path = project.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(project.join("tools/hello.sh"), executable).unwrap();
    project
}

/// Adds five megabytes that no compression makes smaller.
fn enlarge(project: &Path) {
    let mut state = 88_172_645_463_325_252_u64;
    let mut noise = Vec::with_capacity(5_000_000);
    while noise.len() < 5_000_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise.extend_from_slice(&state.to_le_bytes());
    }
    std::fs::write(project.join("weights.bin"), noise).unwrap();
}

#[track_caller]
fn succeeded(output: &Output) -> (String, String) {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    (stdout, stderr)
}

#[track_caller]
fn refused(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    stderr
}

fn digest(stderr: &str) -> String {
    let at = stderr
        .find("sha256:")
        .unwrap_or_else(|| panic!("no digest in {stderr}"));
    stderr[at..at + 71].to_owned()
}

fn archives(up: &Up, namespace: &str) -> usize {
    let folder = up.history().join("snapshots").join(namespace);
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    names
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(".tar.gz"))
        .count()
}

fn maps(up: &Up, namespace: &str) -> Vec<String> {
    let label = "astrago.io/snapshot";
    let names = up.kubectl(&[
        "-n",
        namespace,
        "get",
        "configmaps",
        "-l",
        label,
        "-o",
        "name",
    ]);
    names.lines().map(str::to_owned).collect()
}

#[test]
fn a_folder_is_stored_once_seen_by_every_node_and_kept_with_the_job() {
    if !can_run_pods() || !has_kubectl() {
        return;
    }
    let up = Up::start(&["--stop-pods", "--capacity", "cpu=8,memory=8Gi"]);
    let project = project(up.folder.path());
    let path = project.to_str().unwrap();
    let run = |more: &[&str]| {
        up.run(&[&["run", path, "-n", "team", "--create-namespace"], more].concat())
    };

    let arguments = ["--nodes", "2", "--name", "one", "--", "--lr", "0.1 or so"];
    let (stdout, stderr) = succeeded(&run(&arguments));
    for rank in 0..2 {
        let line = format!("[{rank}] model first rank {rank} of 2 args ['--lr', '0.1 or so']");
        assert!(stdout.contains(&line), "{stdout}");
        for line in [
            "folder /workspace/scripts",
            "tool says hello",
            "ignored is here: False",
            "the folder is read-only",
        ] {
            assert!(stdout.contains(&format!("[{rank}] {line}")), "{stdout}");
        }
    }
    let first = digest(&stderr);

    // The same content again, and then a change that was never committed.
    let (_, stderr) = succeeded(&run(&["--name", "two"]));
    assert!(stderr.contains("already stored"), "{stderr}");
    assert_eq!(digest(&stderr), first);
    assert_eq!((archives(&up, "team"), maps(&up, "team").len()), (1, 1));
    std::fs::write(
        project.join("mypackage/models/net.py"),
        "NAME = 'changed'\n",
    )
    .unwrap();
    let (stdout, stderr) = succeeded(&run(&["--name", "three"]));
    assert!(stdout.contains("model changed"), "{stdout}");
    assert_ne!(digest(&stderr), first);
    assert_eq!((archives(&up, "team"), maps(&up, "team").len()), (2, 2));

    let (shown, _) = succeeded(&up.run(&["job", "one", "-n", "team"]));
    assert!(shown.contains(&first), "{shown}");
    // The shared code stays until the last of its jobs is gone; the history keeps it after that.
    succeeded(&up.run(&["delete", "one", "-n", "team"]));
    let (_, restarted) = up.request(
        "POST",
        "/api/trainjobs/two/restart?namespace=team",
        None,
        &[&up.bearer()],
    );
    let again = restarted["trainjob_name"].as_str().unwrap().to_owned();
    let status = format!("/api/trainjob/{again}/status?namespace=team");
    up.eventually("the end of the job that was started again", |up| {
        let (_, status) = up.request("GET", &status, None, &[&up.bearer()]);
        if status["state"] == "Complete" {
            Ok(())
        } else {
            Err(status)
        }
    });
    for job in ["two", &again] {
        succeeded(&up.run(&["delete", job, "-n", "team"]));
    }
    up.eventually("the end of the code that no job uses", |up| {
        let left = maps(up, "team");
        if left.len() == 1 {
            Ok(())
        } else {
            Err(json!(left))
        }
    });
    let copy = up.folder.path().join("copy");
    let (said, _) = succeeded(&up.run(&["code", "one", copy.to_str().unwrap(), "-n", "team"]));
    assert!(said.contains("wrote 6 files"), "{said}");
    let net = std::fs::read_to_string(copy.join("mypackage/models/net.py")).unwrap();
    assert_eq!(net, "NAME = 'first'\n");
    let mode = std::fs::metadata(copy.join("tools/hello.sh"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);

    // What cannot be started is said before anything is sent.
    std::fs::rename(project.join("train.py"), project.join("start.py")).unwrap();
    let stderr = refused(&run(&[]));
    assert!(
        stderr.contains("--entry FILE, such as") && stderr.contains("start.py"),
        "{stderr}"
    );
    let (stdout, _) = succeeded(&run(&["--entry", "start.py"]));
    assert!(stdout.contains("model changed"), "{stdout}");
}

/// `astrago serve` against the Kubernetes API of an `astrago up`.
struct Serve {
    child: Child,
    address: String,
}

impl Serve {
    fn start(up: &Up) -> Self {
        let mut child = astrago()
            .args(["serve", "--listen", "127.0.0.1:0", "--kubeconfig"])
            .arg(up.folder.path().join("data/kubeconfig"))
            .arg("--data-dir")
            .arg(up.folder.path().join("serve"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.next().expect("the ready line").unwrap();
        let address = ready.strip_prefix("ready: ").unwrap().to_owned();
        Self { child, address }
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_large_folder_runs_on_the_engine_is_refused_by_a_cluster_and_is_nobody_elses() {
    if !applies(
        |target| !target.kubernetes,
        "the engine's own volumes are its subject; it brings a server for a cluster itself",
    ) {
        return;
    }
    if !can_run_pods() || !has_kubectl() {
        return;
    }
    let up = Up::start(&["--stop-pods", "--capacity", "cpu=8,memory=8Gi"]);
    let project = project(up.folder.path());
    let path = project.to_str().unwrap();
    let users = ["kim", "lee"].map(|user| {
        let (made, _) = succeeded(&up.run(&["user", "add", user, "-o", "json"]));
        let made: Value = serde_json::from_str(&made).unwrap();
        let text = |field: &str| made[field].as_str().unwrap().to_owned();
        (user, text("namespace"), text("token"))
    });
    let [(_, kims, kim), (_, lees, lee)] = &users;

    // A small folder reaches a cluster in a ConfigMap.
    let serve = Serve::start(&up);
    let admin = std::fs::read_to_string(up.folder.path().join("data/admin.token")).unwrap();
    let on_cluster = |name: &str| {
        let server = [
            "--server",
            &serve.address,
            "--token",
            admin.trim(),
            "-n",
            "team",
        ];
        up.run(
            &[
                &server[..],
                &["run", path, "--create-namespace", "--name", name],
            ]
            .concat(),
        )
    };
    let (stdout, _) = succeeded(&on_cluster("small"));
    assert!(stdout.contains("model first"), "{stdout}");

    enlarge(&project);
    let stderr = refused(&on_cluster("large"));
    for way in ["ConfigMap", "git repository", "volume", "image"] {
        assert!(stderr.contains(way), "{stderr}");
    }

    let (stdout, stderr) = succeeded(&up.run(&[
        "run", path, "--token", kim, "--nodes", "2", "--name", "large",
    ]));
    for rank in 0..2 {
        for line in [
            "large has 5000000 bytes",
            "tool says hello",
            "the folder is read-only",
        ] {
            assert!(stdout.contains(&format!("[{rank}] {line}")), "{stdout}");
        }
    }
    let digest = digest(&stderr);
    assert!(maps(&up, kims).is_empty());
    let unpacked = up.folder.path().join("data/node/snapshots").join(kims);
    assert_eq!(
        std::fs::read_dir(unpacked).unwrap().count(),
        1,
        "both nodes share it"
    );

    // Knowing the digest helps nobody.
    let lees_token = format!("authorization: Bearer {lee}");
    let ask = |namespace: &str| {
        let path = format!("/api/snapshots/{digest}?namespace={namespace}");
        up.request("GET", &path, None, &[&lees_token]).0
    };
    assert_eq!((ask(kims), ask(lees)), (403, 404));
    let form = |namespace: &str| {
        json!({
            "user_id": "lee", "namespace": namespace, "framework": "pytorch", "snapshot": digest, "num_nodes": 1,
        })
    };
    let create = |namespace: &str| {
        let body = form(namespace);
        up.request("POST", "/api/trainjob/create", Some(&body), &[&lees_token])
    };
    let (code, answer) = create(lees);
    assert_eq!(code, 422, "{answer}");
    assert_eq!(
        answer["error"]["fields"][0]["field"], "snapshot",
        "{answer}"
    );
    assert_ne!(create(kims).0, 200);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "thief", "namespace": lees },
        "spec": {
            "restartPolicy": "Never",
            "containers": [{
                "name": "main", "image": "any", "command": ["ls", "/code"],
                "volumeMounts": [{ "name": "code", "mountPath": "/code" }],
            }],
            "volumes": [{ "name": "code", "csi": {
                "driver": "snapshots.astrago.io", "volumeAttributes": { "digest": digest },
            } }],
        },
    });
    std::fs::write(up.folder.path().join("thief.json"), pod.to_string()).unwrap();
    up.kubectl(&["apply", "-f", "thief.json"]);
    up.eventually("the refusal of the pod", |up| {
        let described = up.kubectl(&["-n", lees, "describe", "pod", "thief"]);
        if described.contains("there is no snapshot") {
            Ok(())
        } else {
            Err(json!(described))
        }
    });
}
