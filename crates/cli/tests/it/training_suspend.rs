//! A training of two nodes that is suspended and resumed again and again, with kills of the server in between.

use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::differential::to_patches;
use crate::harness::target::Target;
use crate::harness::{Up, can_run_pods, has_kubectl};

/// So often it is suspended in `make test`; SUSPENDS says otherwise.
const SUSPENDS: u64 = 10;
/// How many steps each start may take before the test lets it go to the end.
const STEPS_PER_START: u64 = 5;

/// Fits a line by gradients that two ranks exchange over TCP. Rank 0 saves each step. What is told to stop ends well,
/// or with an error, or loses its peer and fails; none of that may be a verdict.
const CODE: &str = r#"
import json, os, pathlib, random, signal, socket, struct, sys, time

rank, place = int(os.environ["JOB_COMPLETION_INDEX"]), pathlib.Path("/place")
name, steps, free = os.environ["JOB"], int(os.environ["STEPS"]), os.environ["FREE"] == "1"
saved = place / f"{name}.json"
signal.signal(signal.SIGTERM, lambda *_: os._exit(random.choice([0, 0, 1, 143])))

def connect():
    if rank == 0:
        server = socket.create_server(("", 29400))
        return server.accept()[0]
    while True:
        try:
            return socket.create_connection((f"{name}-node-0-0.{name}", 29400))
        except OSError:
            time.sleep(0.02)

def receive(size):
    data = b""
    while len(data) < size:
        more = peer.recv(size - len(data))
        if not more:
            raise ConnectionError("the other rank is gone")
        data += more
    return data

def save(state):
    new = saved.with_suffix(".new")
    new.write_text(json.dumps(state))
    new.rename(saved)

state = json.loads(saved.read_text()) if saved.exists() else {"step": 0, "w": 0.0, "b": 0.0}
first = state["step"]
peer = connect()
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
# Both begin where rank 0 stands: it may have saved another step while rank 1 looked.
if rank == 0:
    peer.sendall(struct.pack("!qdd", state["step"], state["w"], state["b"]))
else:
    state = dict(zip(("step", "w", "b"), struct.unpack("!qdd", receive(24))))
if rank == 0:
    with open(place / f"{name}.starts", "a") as starts:
        starts.write(f"{first}\n")
w, b = state["w"], state["b"]
for step in range(state["step"], steps):
    data = random.Random(step * 2 + rank)
    points = [data.uniform(-1, 1) for _ in range(16)]
    errors = [(w * x + b) - (3 * x - 2) for x in points]
    own = (sum(e * x for e, x in zip(errors, points)) / 16, sum(errors) / 16, sum(e * e for e in errors) / 16)
    peer.sendall(struct.pack("!ddd", *own))
    other = struct.unpack("!ddd", receive(24))
    # In the order of the ranks, so that both come to the same bits.
    ranks = (own, other) if rank == 0 else (other, own)
    gw, gb, loss = ((a + c) / 2 for a, c in zip(*ranks))
    w, b = w - 0.05 * gw, b - 0.05 * gb
    if rank == 0:
        save({"step": step + 1, "w": w, "b": b, "loss": loss})
        while not free and step + 1 - first >= int(os.environ["BUDGET"]) and not (place / "finish").exists():
            time.sleep(0.02)
print("the end", flush=True)
"#;

fn job(name: &str, place: &Path, steps: u64, free: bool) -> Value {
    let variable = |name: &str, value: String| json!({ "name": name, "value": value });
    let mut job = json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": { "name": name, "namespace": "default", "annotations": { "astrago.io/max-restarts": "0" } },
        "spec": {
            "runtimeRef": { "name": "torch-distributed" },
            "trainer": {
                "numNodes": 2, "command": ["python3", "-c", CODE],
                "resourcesPerNode": { "requests": { "cpu": "100m" } },
                "env": [
                    variable("JOB", name.to_owned()),
                    variable("STEPS", steps.to_string()),
                    variable("FREE", u8::from(free).to_string()),
                    variable("BUDGET", STEPS_PER_START.to_string()),
                ],
            },
            "podTemplateOverrides": [{
                "targetJobs": [{ "name": "node" }],
                "spec": {
                    "volumes": [{ "name": "place", "hostPath": { "path": place } }],
                    "containers": [{ "name": "node", "volumeMounts": [{ "name": "place", "mountPath": "/place" }] }],
                },
            }],
        },
    });
    if !Target::chosen().takes_overrides() {
        to_patches(&mut job);
    }
    job
}

/// What rank 0 has saved.
fn saved(place: &Path, name: &str) -> Value {
    let text = std::fs::read_to_string(place.join(format!("{name}.json"))).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn status(up: &Up, name: &str) -> Value {
    up.get(&format!("/api/trainjobs/{name}?namespace=default"))
        .1
}

fn complete(up: &Up, name: &str) {
    let status = up.eventually("the end of the training", |up| {
        let status = status(up, name);
        match status["state"].as_str() {
            Some("Complete" | "Failed") => Ok(status),
            _ => Err(status),
        }
    });
    assert_eq!(status["state"], "Complete", "{status:#}\n{}", up.logs());
}

fn told(up: &Up, verb: &str) {
    let path = format!("/api/trainjobs/often/{verb}?namespace=default");
    let (code, answer) = up.post(&path, &json!({}));
    assert_eq!(code, 200, "{verb}: {answer}");
}

fn pods(up: &Up) -> Vec<Value> {
    let (_, answer) = up.get("/api/trainjobs/often?namespace=default");
    answer["nodes"].as_array().cloned().unwrap_or_default()
}

#[test]
fn a_training_that_is_suspended_again_and_again_ends_with_the_loss_of_an_undisturbed_one() {
    if !can_run_pods() || !has_kubectl() {
        return;
    }
    let wish = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let suspends = wish("SUSPENDS").unwrap_or(SUSPENDS);
    let mut random = StdRng::seed_from_u64(wish("LAB_SEED").unwrap_or(17));
    let place = tempfile::tempdir().unwrap();
    crate::node_drill::open_to_all(place.path());
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
    // More than all starts may take together.
    let steps = 2 * suspends * STEPS_PER_START;
    crate::node_drill::apply(&up, &job("often", place.path(), steps, false));
    let mut kills = 0;
    for suspend in 0..suspends {
        let mut kill = |up: &mut Up, random: &mut StdRng| {
            if random.random_ratio(1, 8) {
                kills += 1;
                up.kill_and_start(&flags);
            }
        };
        // At once, while pods come, or after some steps.
        let step = |place: &Path| saved(place, "often")["step"].as_u64().unwrap_or(0);
        let moment = random.random_range(0..8);
        let want = step(place.path()) + random.random_range(1..=STEPS_PER_START);
        up.eventually("the moment to suspend", |up| {
            let pods = pods(up).len();
            let step = step(place.path());
            match moment {
                0 => Ok(()),
                1 if pods > 0 => Ok(()),
                2.. if step >= want => Ok(()),
                _ => Err(
                    json!({ "pods": pods, "step": step, "want": want, "job": status(up, "often") }),
                ),
            }
        });
        kill(&mut up, &mut random);
        told(&up, "suspend");
        kill(&mut up, &mut random);
        // At once, or when it has stopped.
        if random.random_bool(0.5) {
            up.eventually("the end of the pods", |up| {
                let pods = up.kubectl(&["get", "pods", "-o", "name"]);
                if pods.trim().is_empty() {
                    Ok(())
                } else {
                    Err(json!(pods))
                }
            });
        }
        let state = status(&up, "often")["state"].clone();
        assert!(
            state != "Complete" && state != "Failed",
            "{suspend}: {state}"
        );
        told(&up, "resume");
    }
    std::fs::write(place.path().join("finish"), "").unwrap();
    complete(&up, "often");
    let starts = std::fs::read_to_string(place.path().join("often.starts")).unwrap();
    println!(
        "{suspends} suspends, {kills} kills, {} starts",
        starts.lines().count()
    );
    crate::node_drill::apply(&up, &job("once", place.path(), steps, true));
    complete(&up, "once");
    let (often, once) = (saved(place.path(), "often"), saved(place.path(), "once"));
    assert_eq!(once["step"], steps);
    assert_eq!(often, once);
    let restarts = up.kubectl(&[
        "get",
        "jobset",
        "often",
        "-o",
        "jsonpath={.status.restartsCountTowardsMax}",
    ]);
    assert!(
        matches!(restarts.as_str(), "" | "0"),
        "{restarts} restarts were counted"
    );
}
