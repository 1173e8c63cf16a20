//! Training that makes no progress: its stacks, and the rank that the others wait for.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::target::{Target, applies};
use crate::harness::{Up, can_run_pods, has_kubectl, python};

/// Two ranks that meet in each step. What rank 1 does in step 5 instead is put in the place of `MODE`.
const TRAIN: &str = r#"import os, re, signal, sys, time
import torch
import torch.distributed as dist

def pause():
    time.sleep(3600)  # line 6

def search():
    re.match("(a+)+$", "a" * 60 + "b")  # line 9

def halt():
    os.kill(os.getpid(), signal.SIGSTOP)  # line 12

def save_checkpoint():
    time.sleep(8)

def train(rank):
    value = torch.ones(1)
    if MODE == "healthy":
        time.sleep(6)
    for step in range(1, 41):
        if step == 5 and rank == 1 and MODE != "healthy":
            {"pause": pause, "search": search, "halt": halt}[MODE]()
        if step == 20 and rank == 0 and MODE == "healthy":
            save_checkpoint()
        dist.all_reduce(value)  # line 26
        print(f"step={step} loss={1 / step:.4f}", flush=True)
        time.sleep(0.05)

dist.init_process_group("gloo")
train(dist.get_rank())
"#;

const NAMESPACE: &str = "namespace=user-kim";

fn start() -> Option<(Up, PathBuf)> {
    let python = python()?;
    if !can_run_pods() || !has_kubectl() || !applies(Target::is_embedded, "the node tells stacks") {
        return None;
    }
    let flags = [
        "--no-auth",
        "--stop-pods",
        "--capacity",
        "cpu=8,memory=16Gi",
    ];
    let up = Up::start(&[&flags[..], &["--python", python.to_str().unwrap()]].concat());
    Some((up, python))
}

/// Starts a job that may say nothing for so long.
fn submit(up: &Up, mode: &str, after: &str) {
    let code = TRAIN.replace("MODE", &format!("{mode:?}"));
    let form = json!({
        "user_id": "kim", "namespace": "user-kim", "framework": "pytorch", "name": mode, "training_code": code,
        "num_nodes": 2, "cpu_request": "100m", "memory_limit": "2Gi", "max_restarts": 0,
    });
    let (status, made) = up.post("/api/trainjob/create", &form);
    assert_eq!(status, 200, "{made}");
    let annotation = format!("astrago.io/stall-after={after}");
    up.kubectl(&["annotate", "trainjob", mode, "-n", "user-kim", &annotation]);
}

fn detail(up: &Up, name: &str) -> Value {
    up.get(&format!("/api/trainjobs/{name}?{NAMESPACE}")).1
}

fn stalled(up: &Up, name: &str) -> Value {
    up.eventually("the stall is found", |up| {
        let job = detail(up, name);
        let suspects = job["stalled"]["suspects"].as_array();
        if suspects.is_some_and(|suspects| !suspects.is_empty()) {
            return Ok(job);
        }
        let (_, stacks) = up.get(&format!("/api/trainjobs/{name}/stacks?{NAMESPACE}"));
        let log = up.get(&format!("/api/trainjob/{name}/logs?{NAMESPACE}&worker=1"));
        Err(json!({ "job": job, "stacks": stacks, "log": log.1 }))
    })
}

#[test]
fn the_rank_that_the_others_wait_for_is_named_with_its_line() {
    let Some((up, _)) = start() else { return };
    for (mode, reason, function, line) in [
        ("pause", "elsewhere", "pause", 6),
        ("search", "elsewhere", "search", 9),
        ("halt", "stopped", "halt", 12),
    ] {
        submit(&up, mode, "2s");
        let job = stalled(&up, mode);
        let stall = &job["stalled"];
        assert_eq!(stall["reason"], reason, "{stall:#}");
        let suspect = &stall["suspects"][0];
        assert_eq!(suspect["ranks"], json!([1]), "{stall:#}");
        assert_eq!(suspect["at"]["function"], function, "{stall:#}");
        assert_eq!(suspect["at"]["line"], line, "{stall:#}");
        assert_eq!(stall["others"][0]["ranks"], json!([0]), "{stall:#}");
        assert_eq!(stall["others"][0]["at"]["line"], 26, "{stall:#}");
        assert_eq!(job["cause"]["code"], format!("stalled_{reason}"), "{job:#}");
        up.eventually("the event", |up| {
            let (_, events) = up.get(&format!("/api/trainjobs/{mode}/events?{NAMESPACE}"));
            let all = events.as_array().into_iter().flatten();
            let told = all
                .filter(|event| event["reason"] == "TrainingStalled")
                .count();
            if told == 1 { Ok(()) } else { Err(events) }
        });
        let shown = up.run(&["job", mode, "-n", "user-kim"]);
        let shown = String::from_utf8_lossy(&shown.stdout);
        assert!(shown.contains("rank 1"), "{shown}");
        let stacks = up.run(&["stacks", mode, "-n", "user-kim", "--worker", "1"]);
        let stacks = String::from_utf8_lossy(&stacks.stdout);
        assert!(stacks.contains(&format!("train.py:{line})")), "{stacks}");
        if mode == "halt" {
            // It goes on, and so does the job, of which nothing is said any more.
            let go = "kill -CONT $(pgrep -f train.py || echo 2)";
            up.run(&[
                "exec", mode, "-n", "user-kim", "--worker", "1", "--", "sh", "-c", go,
            ]);
            up.eventually("the end of the job", |up| {
                let job = detail(up, mode);
                let over = job["state"] == "Complete" && job["stalled"].is_null();
                if over { Ok(()) } else { Err(job) }
            });
        } else {
            up.run(&["delete", mode, "-n", "user-kim", "--yes"]);
        }
    }
}

#[test]
fn a_slow_first_step_and_a_long_save_are_no_stall() {
    let Some((up, _)) = start() else { return };
    // Looked at while it saves; six times as long would be too long, also on a machine with much else to do.
    submit(&up, "healthy", "5s");
    up.eventually("the end of the job", |up| {
        let job = detail(up, "healthy");
        assert!(job["stalled"].is_null(), "{job:#}");
        if job["state"] == "Complete" {
            Ok(())
        } else {
            Err(job)
        }
    });
    let (_, events) = up.get(&format!("/api/trainjobs/healthy/events?{NAMESPACE}"));
    assert!(
        !events.to_string().contains("TrainingStalled"),
        "{events:#}"
    );
}

/// Whoever may see a job may not look into its processes for that.
#[test]
fn stacks_are_for_those_who_may_run_programs_in_the_job() {
    if !can_run_pods() || !has_kubectl() || !applies(Target::is_embedded, "users come from `up`") {
        return;
    }
    let up = Up::start(&["--stop-pods"]);
    let token = |name: &str| {
        let made = up.run(&["user", "add", name, "-o", "json"]);
        let made: Value = serde_json::from_slice(&made.stdout).unwrap();
        format!("authorization: Bearer {}", made["token"].as_str().unwrap())
    };
    let (kim, lee) = (token("kim"), token("lee"));
    let form = json!({
        "user_id": "kim", "namespace": "user-kim", "framework": "pytorch", "name": "seen", "num_nodes": 1,
        "cpu_request": "100m",
        "training_code": "import time\n\ndef idle():\n    time.sleep(3600)\n\nidle()\n",
    });
    let (status, made) = up.request("POST", "/api/trainjob/create", Some(&form), &[&kim]);
    assert_eq!(status, 200, "{made}");
    let path = "/api/trainjobs/seen/stacks?namespace=user-kim";
    let stacks = up.eventually("the stacks", |up| {
        let (status, stacks) = up.request("GET", path, None, &[&kim]);
        let process = &stacks["workers"][0]["processes"][0];
        let frames = process["threads"][0]["frames"].as_array();
        match frames {
            Some(frames) if status == 200 && frames.len() == 2 => Ok(process.clone()),
            _ => Err(stacks),
        }
    });
    assert_eq!(
        stacks["threads"][0]["frames"][0]["function"], "idle",
        "{stacks:#}"
    );
    assert_eq!(stacks["threads"][0]["frames"][0]["line"], 4, "{stacks:#}");
    assert_eq!(stacks["rank"], 0, "{stacks:#}");
    assert_eq!(up.request("GET", path, None, &[&lee]).0, 403);

    // One who may read everything there, and run nothing.
    let role = [
        "create",
        "role",
        "reader",
        "-n",
        "user-kim",
        "--verb=get,list,watch",
        "--resource=*.*",
    ];
    up.kubectl(&role);
    let binding = [
        "create",
        "rolebinding",
        "reader",
        "-n",
        "user-kim",
        "--role=reader",
        "--user=lee",
    ];
    up.kubectl(&binding);
    up.eventually("the right to read", |up| {
        let job = "/api/trainjobs/seen?namespace=user-kim";
        let (status, job) = up.request("GET", job, None, &[&lee]);
        if status == 200 { Ok(()) } else { Err(job) }
    });
    assert_eq!(up.request("GET", path, None, &[&lee]).0, 403);
    let admin = up.bearer();
    let (_, trail) = up.request("GET", "/api/audit", None, &[&admin]);
    assert!(
        trail.to_string().contains("/api/trainjobs/seen/stacks"),
        "{trail:#}"
    );
}
