//! An API server that forgets the past or falls silent: no job is lost or run twice.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::{form, on_kubernetes, pods};
use crate::harness::{Up, can_run_pods, has_kubectl};

/// Trains until the file appears in its own sandbox, so that the fault always comes in the middle.
const UNTIL_TOLD: &str = "import os, time\n\
    print('begin', os.environ['RANK'], flush=True)\n\
    while not os.path.exists('/tmp/go'):\n\
    \x20   time.sleep(0.1)\n\
    print('end', os.environ['RANK'], flush=True)\n";

/// A job of two nodes that runs, and its pods.
struct Running {
    up: Up,
    pods: Vec<String>,
}

impl Running {
    fn start() -> Option<Self> {
        if !on_kubernetes() || !can_run_pods() || !has_kubectl() {
            return None;
        }
        let up = Up::start(&["--no-auth", "--stop-pods", "--capacity", "cpu=4,memory=4Gi"]);
        let (code, made) = up.post("/api/trainjob/create", &named("steady"));
        assert_eq!(code, 200, "{made}");
        up.eventually("that the job runs", |up| {
            let logs = [0, 1].map(|worker| log(up, worker));
            if logs == ["begin 0\n", "begin 1\n"] {
                Ok(())
            } else {
                Err(json!(logs))
            }
        });
        let pods = pods(&up, "user-kim");
        assert_eq!(pods.len(), 2, "{pods:?}");
        Some(Self { up, pods })
    }

    /// Lets the job end, and looks that it ran once and that nothing is there but what was asked for.
    fn finish(self, others: &[&str]) {
        let up = &self.up;
        up.eventually("that the server is connected again", |up| {
            let (_, cluster) = up.get("/api/cluster");
            if cluster["connected"] == true {
                Ok(())
            } else {
                Err(cluster)
            }
        });
        let names = up.kubectl(&["-n", "user-kim", "get", "pods", "-o", "name"]);
        for pod in names.lines() {
            up.kubectl(&["-n", "user-kim", "exec", pod, "--", "touch", "/tmp/go"]);
        }
        let ended = up.eventually("the end of the job", |up| {
            let (_, seen) = up.get("/api/trainjob/steady/status?namespace=user-kim");
            match seen["state"].as_str() {
                Some("Complete" | "Failed") => Ok(seen),
                _ => Err(seen),
            }
        });
        assert_eq!(ended["state"], "Complete", "{ended}");
        assert_eq!(pods(up, "user-kim"), self.pods, "no pod was replaced");
        for worker in 0..2 {
            let want = format!("begin {worker}\nend {worker}\n");
            up.eventually("the whole log, once", |up| {
                let log = log(up, worker);
                if log == want { Ok(()) } else { Err(json!(log)) }
            });
        }
        let path = "jsonpath={.items[*].metadata.name}";
        let there = up.kubectl(&["-n", "user-kim", "get", "trainjobs", "-o", path]);
        let mut there: Vec<&str> = there.split_whitespace().collect();
        there.sort_unstable();
        let mut want = [others, &["steady"]].concat();
        want.sort_unstable();
        assert_eq!(there, want);
        up.eventually("the same in the list", |up| {
            let (_, list) = up.get("/api/trainjobs?namespace=user-kim");
            if list["total"] == want.len() {
                Ok(())
            } else {
                Err(list)
            }
        });
    }
}

fn named(name: &str) -> Value {
    let mut form = form("kim", "user-kim", UNTIL_TOLD);
    form["name"] = json!(name);
    form
}

fn log(up: &Up, worker: u32) -> String {
    let path = format!("/api/trainjob/steady/logs?namespace=user-kim&worker={worker}");
    let (_, logs) = up.get(&path);
    logs["logs"].as_str().unwrap_or_default().to_owned()
}

/// A TrainJob that nobody runs, made past the REST API.
fn create_held(up: &Up, name: &str) {
    let text = up.kubectl(&["-n", "user-kim", "get", "trainjob", "steady", "-o", "json"]);
    let mut job: Value = serde_json::from_str(&text).unwrap();
    job["metadata"] = json!({ "name": name, "namespace": "user-kim" });
    job["spec"]["suspend"] = json!(true);
    job["status"] = Value::Null;
    let file = up.folder.path().join("held.json");
    std::fs::write(&file, job.to_string()).unwrap();
    up.kubectl(&["create", "-f", file.to_str().unwrap()]);
}

/// 410 Gone: while the server sleeps the cluster moves on, and the past that its watches need is compacted.
#[test]
fn a_past_that_is_gone_is_read_anew() {
    let Some(mut running) = Running::start() else {
        return;
    };
    let up = &mut running.up;
    create_held(up, "before");
    let seen = |up: &Up, name: &str| {
        let (_, seen) = up.get(&format!("/api/trainjob/{name}/status?namespace=user-kim"));
        if seen["state"] == "Suspended" {
            Ok(())
        } else {
            Err(seen)
        }
    };
    up.eventually("the job that was made before", |up| seen(up, "before"));
    let jobs = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/user-kim/trainjobs";
    let list: Value = serde_json::from_str(&up.kubectl(&["get", "--raw", jobs])).unwrap();
    let known = list["metadata"]["resourceVersion"].as_str().unwrap();

    up.freeze(true);
    create_held(up, "after");
    up.kubectl(&["-n", "user-kim", "delete", "trainjob", "before"]);
    up.cluster.as_mut().unwrap().forget_the_past();
    // What the server asks for when it wakes is not there any more.
    let path = format!("{jobs}?watch=1&timeoutSeconds=5&resourceVersion={known}");
    let output = up.kubectl_command().args(["get", "--raw", &path]).output();
    let answer = output.unwrap();
    let answer = [answer.stdout, answer.stderr].concat();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains("too old resource version"), "{answer}");
    up.freeze(false);

    up.eventually("the job that was made meanwhile", |up| seen(up, "after"));
    up.eventually("that the deleted job is history", |up| {
        let (_, record) = up.get("/api/trainjobs/before?namespace=user-kim");
        if record["archived"] == true {
            Ok(())
        } else {
            Err(record)
        }
    });
    running.finish(&["after"]);
}

/// A partition: packets go nowhere, and no connection breaks. The server says so within seconds, keeps
/// showing what it knows, and does not make whoever asks wait for ever.
#[test]
fn a_silent_api_server_is_noticed_and_costs_no_job() {
    let Some(running) = Running::start() else {
        return;
    };
    let up = &running.up;
    let cluster = up.cluster.as_ref().unwrap();
    cluster.freeze_api_server(true);
    up.eventually("that the silence is noticed", |up| {
        let (_, cluster) = up.get("/api/cluster");
        if cluster["connected"] == false {
            Ok(())
        } else {
            Err(cluster)
        }
    });
    let begin = Instant::now();
    let (code, seen) = up.get("/api/trainjob/steady/status?namespace=user-kim");
    assert_eq!((code, &seen["state"]), (200, &json!("Running")), "{seen}");
    let (code, body) = up.post("/api/trainjob/create", &named("unheard"));
    assert_eq!(code, 503, "{body}");
    assert!(
        begin.elapsed() < Duration::from_mins(1),
        "{:?}",
        begin.elapsed()
    );
    cluster.freeze_api_server(false);
    create_held(up, "heard");
    up.eventually("the job that was made afterwards", |up| {
        let (_, seen) = up.get("/api/trainjob/heard/status?namespace=user-kim");
        if seen["state"] == "Suspended" {
            Ok(())
        } else {
            Err(seen)
        }
    });
    running.finish(&["heard"]);
}
