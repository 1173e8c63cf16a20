//! Several processes on each of several nodes: torchrun from the command line's flag, from the form's command, and
//! from within the user's own code.

use serde_json::json;

use crate::harness::{Up, can_run_pods, python};

/// Adds up the ranks of all processes, each of which says where it is.
const SUM: &str = r"
import os
import torch
import torch.distributed as dist

dist.init_process_group('gloo')
total = torch.tensor([float(dist.get_rank())])
dist.all_reduce(total)
local = os.environ['LOCAL_RANK']
place = f'{os.uname().nodename} process {local}'
print(f'rank {dist.get_rank()} of {dist.get_world_size()} on {place}: sum {int(total)}', flush=True)
dist.destroy_process_group()
";

/// A script that starts torchrun itself, as many do.
const NESTED: &str = r"
import os, subprocess, sys
if 'GROUP_RANK' not in os.environ:
    torchrun = ['torchrun', '--nnodes', os.environ['WORLD_SIZE'], '--node-rank', os.environ['RANK'], '--nproc-per-node', '2',
                '--master-addr', os.environ['MASTER_ADDR'], '--master-port', os.environ['MASTER_PORT']]
    sys.exit(subprocess.run([*torchrun, __file__]).returncode)
";

#[test]
fn two_nodes_of_two_processes_train_together_however_torchrun_is_started() {
    let Some(python) = python().filter(|_| can_run_pods()) else {
        return;
    };
    let flags = [
        "--no-auth",
        "--stop-pods",
        "--capacity",
        "cpu=8,memory=16Gi",
    ];
    let python = ["--python", python.to_str().unwrap()];
    let up = Up::start(&[&flags[..], &python[..]].concat());
    let (plain, nested) = (
        up.folder.path().join("plain.py"),
        up.folder.path().join("nested.py"),
    );
    std::fs::write(&plain, SUM).unwrap();
    std::fs::write(&nested, format!("{NESTED}{SUM}")).unwrap();
    let run = |file: &std::path::Path, name: &str, more: &[&str]| {
        let usual = [
            "run",
            file.to_str().unwrap(),
            "--nodes",
            "2",
            "--name",
            name,
            "-n",
            "team",
            "--create-namespace",
            "--detach",
        ];
        let output = up.run(&[&usual[..], more].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
    };
    run(&plain, "flag", &["--nproc", "2"]);
    run(&nested, "nested", &[]);
    let (_, me) = up.get("/api/whoami");
    let form = |name: &str| {
        json!({
            "user_id": me["user"], "namespace": "team", "framework": "pytorch", "training_code": SUM, "num_nodes": 2,
            "cpu_request": "100m", "name": name,
        })
    };
    let create = |form: &serde_json::Value| {
        let (code, made) = up.post("/api/trainjob/create", form);
        assert_eq!(code, 200, "{made}");
    };
    let mut elastic = form("elastic");
    elastic["command"] = json!(
        "torchrun --nnodes=2 --nproc_per_node=2 --rdzv_id=elastic-job --rdzv_backend=c10d \
         --rdzv_endpoint=${MASTER_ADDR}:${MASTER_PORT} /workspace/scripts/train.py"
    );
    create(&elastic);
    let mut field = form("field");
    field["nproc_per_node"] = json!(2);
    create(&field);

    for name in ["flag", "nested", "elastic", "field"] {
        let status = up.eventually("the end of the job", |up| {
            let (_, status) = up.get(&format!("/api/trainjob/{name}/status?namespace=team"));
            match status["state"].as_str() {
                Some("Complete" | "Failed") => Ok(status),
                _ => Err(status),
            }
        });
        let (_, lines) = up.get(&format!("/api/trainjobs/{name}/logs?namespace=team"));
        let lines = lines.to_string();
        assert_eq!(status["state"], "Complete", "{name}: {status} {lines}");
        for rank in 0..4 {
            assert!(
                lines.contains(&format!("rank {rank} of 4 on {name}-node-0-")),
                "{name}: {lines}"
            );
        }
        assert_eq!(lines.matches(": sum 6").count(), 4, "{name}: {lines}");
        for place in [
            "0-0 process 0",
            "0-0 process 1",
            "0-1 process 0",
            "0-1 process 1",
        ] {
            assert!(
                lines.contains(&format!("{name}-node-{place}")),
                "{name}: {lines}"
            );
        }
    }
}

#[test]
fn processes_per_node_are_refused_where_torchrun_does_not_start_them() {
    let up = Up::start(&["--no-auth", "--no-node"]);
    let mut form = json!({
        "user_id": "kim", "namespace": "team", "framework": "tensorflow", "training_code": "x", "num_nodes": 2,
        "nproc_per_node": 2,
    });
    let (code, answer) = up.post("/api/trainjob/create", &form);
    assert_eq!(
        (code, &answer["error"]["fields"][0]["field"]),
        (422, &json!("nproc_per_node")),
        "{answer}"
    );
    form["framework"] = json!("pytorch");
    form["command"] = json!("python3 train.py");
    let (code, answer) = up.post("/api/trainjob/create", &form);
    assert_eq!(code, 422, "{answer}");
}
