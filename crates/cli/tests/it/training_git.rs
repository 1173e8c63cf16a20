//! Code from git servers, which pods reach only within their namespace, so the server is a pod there: branch, tag,
//! commit and depth, a private repository by password and by ssh key, and the reason where it does not work.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Up, can_run_pods, has_kubectl};

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/git_server.py");

fn shell(folder: &Path, script: &str) -> String {
    let output = Command::new("bash")
        .args(["-euc", script])
        .current_dir(folder)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {stderr}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A repository with three states: the commit before, the tag `v1`, and the branch `main`.
fn repository(folder: &Path) -> String {
    shell(
        folder,
        r#"git init -q -b main source && cd source
        git config user.name Kim && git config user.email kim@example.com
        commit() {
          echo "import subprocess
        count = subprocess.run(['git', '-C', '/workspace/code', 'rev-list', '--count', 'HEAD'], capture_output=True, text=True).stdout.strip()
        print('state $1, history', count)" | sed 's/^        //' > train.py
          git add . && git commit -q -m "$1"
        }
        commit oldest
        git rev-parse HEAD > ../oldest
        commit tagged && git tag v1
        commit newest
        git checkout -q -b feature && commit feature && git checkout -q main
        git bundle create -q ../digits.bundle --all
        cd .. && ssh-keygen -q -t ed25519 -N '' -f key && ssh-keygen -q -t ed25519 -N '' -f host_key
        cp key.pub authorized_keys
        cat oldest"#,
    )
}

fn serve(up: &Up) -> String {
    let folder = up.folder.path();
    let file = |name: &str| format!("--from-file={}", folder.join(name).display());
    let server = format!("--from-file={SERVER}");
    up.kubectl(&["create", "namespace", "team"]);
    let create = |what: &[&str]| up.kubectl(&[&["-n", "team", "create"], what].concat());
    create(&["configmap", "server", &server, &file("digits.bundle")]);
    create(&[
        "secret",
        "generic",
        "server-keys",
        &file("host_key"),
        &file("authorized_keys"),
    ]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "git", "namespace": "team" },
        "spec": {
            "containers": [{
                "name": "server", "image": "any", "command": ["python3", "-u", "/repository/git_server.py"],
                "volumeMounts": [
                    { "name": "repository", "mountPath": "/repository" },
                    { "name": "keys", "mountPath": "/keys" },
                ],
                "readinessProbe": { "tcpSocket": { "port": 2222 }, "periodSeconds": 1 },
            }],
            "volumes": [
                { "name": "repository", "configMap": { "name": "server" } },
                { "name": "keys", "secret": { "secretName": "server-keys" } },
            ],
        },
    });
    std::fs::write(folder.join("server.json"), pod.to_string()).unwrap();
    up.kubectl(&["apply", "-f", "server.json"]);
    let address = up.eventually("that the git server serves", |up| {
        let what = "jsonpath={.status.conditions[?(@.type=='Ready')].status} {.status.podIP}";
        let pod = up.kubectl(&["-n", "team", "get", "pod", "git", "-o", what]);
        pod.strip_prefix("True ")
            .map(str::to_owned)
            .ok_or_else(|| json!(pod))
    });
    let host_key = std::fs::read_to_string(folder.join("host_key.pub")).unwrap();
    std::fs::write(
        folder.join("known_hosts"),
        format!("[{address}]:2222 {host_key}"),
    )
    .unwrap();
    let key = format!(
        "--from-file=ssh-privatekey={}",
        folder.join("key").display()
    );
    create(&["secret", "generic", "by-key", &key, &file("known_hosts")]);
    let password = "--from-literal=password=correct horse";
    create(&[
        "secret",
        "generic",
        "by-password",
        "--from-literal=username=kim",
        password,
    ]);
    create(&[
        "secret",
        "generic",
        "wrong",
        "--from-literal=username=kim",
        "--from-literal=password=wrong",
    ]);
    address
}

#[test]
fn every_state_of_a_private_repository_is_fetched_or_the_reason_is_said() {
    if !can_run_pods() || !has_kubectl() {
        return;
    }
    let up = Up::start(&["--no-auth", "--stop-pods", "--capacity", "cpu=8,memory=8Gi"]);
    let commit = repository(up.folder.path());
    let address = serve(&up);
    let http = format!("http://{address}:8080/digits.git");
    let ssh = format!("ssh://root@{address}:2222/tmp/srv/digits.git");
    let nosuch = format!("http://{address}:8080/nosuch.git");
    // The name of the job, what it asks for, and the line that shows that it got it, or the reason why not.
    let right = |more: Value| ("Complete", more);
    let wrong = |more: Value| ("Failed", more);
    let jobs = [
        (
            "branch",
            right(json!({ "git_branch": "feature" })),
            "state feature, history 1",
        ),
        (
            "default",
            right(json!({ "git_depth": 0 })),
            "state newest, history 3",
        ),
        (
            "tag",
            right(json!({ "git_revision": "v1", "git_depth": 2 })),
            "state tagged, history 2",
        ),
        (
            "commit",
            right(json!({ "git_revision": commit })),
            "state oldest, history 1",
        ),
        (
            "key",
            right(json!({ "git_repository": ssh, "git_secret": "by-key" })),
            "state newest, history 1",
        ),
        (
            "nobranch",
            wrong(json!({ "git_branch": "nosuch" })),
            "failed to fetch nosuch of",
        ),
        (
            "norepository",
            wrong(json!({ "git_repository": nosuch })),
            "failed to fetch main of",
        ),
        (
            "nopassword",
            wrong(json!({ "git_secret": "wrong" })),
            "may we read it?",
        ),
    ];
    for (name, (_, more), _) in &jobs {
        let mut form = json!({
            "user_id": "kim", "namespace": "team", "framework": "pytorch", "name": name, "num_nodes": 1, "max_restarts": 0,
            "cpu_request": "100m", "git_repository": http, "git_secret": "by-password",
        });
        for (field, value) in more.as_object().unwrap() {
            form[field] = value.clone();
        }
        let (code, made) = up.post("/api/trainjob/create", &form);
        assert_eq!(code, 200, "{made}");
    }
    for (name, (state, _), line) in &jobs {
        up.eventually("the end of the job", |up| {
            let (_, status) = up.get(&format!("/api/trainjob/{name}/status?namespace=team"));
            if status["state"] == *state {
                Ok(())
            } else {
                Err(status)
            }
        });
        let container = if *state == "Failed" {
            "git-clone"
        } else {
            "node"
        };
        let selector = format!("jobset.sigs.k8s.io/jobset-name={name}");
        let log = up.kubectl(&[
            "-n",
            "team",
            "logs",
            "-l",
            &selector,
            "-c",
            container,
            "--tail=-1",
        ]);
        assert!(log.contains(line), "{name}: {log}");
        assert!(
            !log.contains("correct horse"),
            "{name} shows the password: {log}"
        );
        if *state == "Failed" {
            let (_, detail) = up.get(&format!("/api/trainjobs/{name}?namespace=team"));
            assert_eq!(detail["failure"]["kind"], "git_clone", "{name}: {detail}");
        }
    }
}
