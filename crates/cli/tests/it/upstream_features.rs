//! Every feature that the examples of JobSet show, with real pods: what is created,
//! and how it ends. The pods check themselves what they are given, so that an end tells more than it seems to.
//! `scripts/upstream-examples` does the same with the examples themselves.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::{Up, can_run_pods, has_kubectl};

/// How a job ends.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    Complete,
    /// After how many restarts.
    Failed(u64),
    /// It goes on after this many restarts; it is deleted then.
    Restarts(u64),
    /// The definition says why it cannot be had.
    Refused(&'static str),
}

/// Ends well at once.
const WELL: &str = "exit 0";
/// Runs until it is stopped.
const ON: &str = "exec sleep infinity";
/// Pod 0 fails, the others run on.
const FIRST_FAILS: &str = r#"[ "$JOB_COMPLETION_INDEX" = 0 ] && exit 1; exec sleep infinity"#;

fn pod(script: &str) -> Value {
    json!({ "terminationGracePeriodSeconds": 0, "containers": [container("main", script)] })
}

pub(crate) fn container(name: &str, script: &str) -> Value {
    json!({ "name": name, "image": "busybox", "command": ["sh", "-ec", script],
            "resources": { "requests": { "cpu": "10m" } } })
}

/// One replicated job with the given number of pods.
fn part(name: &str, pods: u64, script: &str) -> Value {
    json!({ "name": name, "template": { "spec": { "parallelism": pods, "completions": pods, "backoffLimit": 0,
            "template": { "spec": pod(script) } } } })
}

/// The same with something else set at a place in it.
pub(crate) fn with(mut object: Value, place: &str, value: Value) -> Value {
    let mut at = &mut object;
    for step in place.split('.') {
        at = match step.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[step],
        };
    }
    *at = value;
    object
}

fn jobs(parts: &[Value]) -> Value {
    json!({ "replicatedJobs": parts })
}

/// Pod 0 of the leader fails while workers run; `policy` says what follows.
fn failing(policy: Value) -> Value {
    let parts = [part("leader", 2, FIRST_FAILS), part("workers", 2, ON)];
    with(jobs(&parts), "failurePolicy", policy)
}

fn rule(action: &str) -> Value {
    json!({ "maxRestarts": 1, "rules": [{ "action": action, "targetReplicatedJobs": ["leader"] }] })
}

fn job_sets() -> Vec<(&'static str, Value, End)> {
    use End::{Complete, Failed, Refused, Restarts};
    let sibling = part("driver", 1, WELL);
    let fails = |reason: &str| {
        json!({ "maxRestarts": 0, "rules": [{
        "action": "RestartJobSetAndIgnoreMaxRestarts", "onJobFailureReasons": [reason] }] })
    };
    let by_exit_code = json!({ "rules": [{ "action": "FailJob",
        "onExitCodes": { "operator": "In", "values": [1] } }] });
    let leader = "replicatedJobs.0.template.spec";
    let never = |spec: Value| {
        with(
            spec,
            &format!("{leader}.template.spec.restartPolicy"),
            json!("Never"),
        )
    };
    let claim = |name: &str| {
        json!({ "metadata": { "name": name }, "spec": { "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Mi" } } } })
    };
    let mounts = |part: Value, names: &[&str]| {
        let mounts: Vec<Value> = names
            .iter()
            .map(|name| json!({ "name": name, "mountPath": format!("/{name}") }))
            .collect();
        with(
            part,
            "template.spec.template.spec.containers.0.volumeMounts",
            json!(mounts),
        )
    };
    let place = "replicatedJobs.0.template.spec.template.spec.containers.0.env";
    let rank = "metadata.annotations['batch.kubernetes.io/job-completion-index']";
    let rendezvous = json!([
        { "name": "MASTER_ADDR", "value": "rendezvous-master-0-0.rendezvous" },
        { "name": "RANK", "valueFrom": { "fieldRef": { "fieldPath": rank } } },
    ]);
    // The first runs until the others are done.
    let until_workers = |spec: Value| {
        let policy = json!({ "operator": "All", "targetReplicatedJobs": ["workers"] });
        with(spec, "successPolicy", policy)
    };
    let coordinator = "metadata.annotations['jobset.sigs.k8s.io/coordinator']";
    // It listens a while after its start, and is ready then.
    let listens = "sleep 1; exec python3 -m http.server 8000";
    let ready =
        json!({ "tcpSocket": { "port": 8000 }, "periodSeconds": 1, "failureThreshold": 600 });
    let probe = |name: &str| format!("template.spec.template.spec.containers.0.{name}Probe");
    let reaches = |host: &str| {
        format!("python3 -c \"import socket; socket.create_connection(('{host}', 8000), 9)\"")
    };
    vec![
        (
            "parallel-jobs",
            jobs(&[part("workers", 4, WELL), sibling.clone()]),
            Complete,
        ),
        (
            "coordinator",
            with(
                until_workers(with(
                    jobs(&[
                        part(
                            "workers",
                            2,
                            r#"[ "$C" = coordinator-driver-0-0.coordinator ]; until getent hosts "$C"; do sleep 0.1; done"#,
                        ),
                        part("driver", 1, ON),
                    ]),
                    place,
                    json!([{ "name": "C", "valueFrom": { "fieldRef": { "fieldPath": coordinator } } }]),
                )),
                "coordinator",
                json!({ "replicatedJob": "driver", "jobIndex": 0, "podIndex": 0 }),
            ),
            Complete,
        ),
        (
            "groups",
            jobs(&[
                part("one", 2, WELL),
                with(part("two", 2, WELL), "groupName", json!("b")),
            ]),
            Complete,
        ),
        (
            "network",
            with(
                until_workers(jobs(&[
                    part("leader", 1, ON),
                    part(
                        "workers",
                        2,
                        "until getent hosts network-leader-0-0.example; do sleep 0.1; done",
                    ),
                ])),
                "network",
                json!({ "enableDNSHostnames": true, "subdomain": "example", "publishNotReadyAddresses": true }),
            ),
            Complete,
        ),
        (
            "rendezvous",
            with(
                until_workers(jobs(&[
                    part(
                        "workers",
                        4,
                        r#"[ "$RANK" = "$JOB_COMPLETION_INDEX" ]; until getent hosts "$MASTER_ADDR"; do sleep 0.1; done"#,
                    ),
                    part("master", 1, ON),
                ])),
                place,
                rendezvous,
            ),
            Complete,
        ),
        (
            "startup-in-order",
            with(
                until_workers(jobs(&[
                    with(
                        part("driver", 1, listens),
                        &probe("readiness"),
                        ready.clone(),
                    ),
                    part(
                        "workers",
                        2,
                        &reaches("startup-in-order-driver-0-0.startup-in-order"),
                    ),
                ])),
                "startupPolicy",
                json!({ "startupPolicyOrder": "InOrder" }),
            ),
            Complete,
        ),
        (
            "depends-on",
            until_workers(jobs(&[
                part("initializer", 1, WELL),
                with(
                    with(part("launcher", 1, listens), &probe("startup"), ready),
                    "dependsOn",
                    json!([{ "name": "initializer", "status": "Complete" }]),
                ),
                with(
                    part("workers", 2, &reaches("depends-on-launcher-0-0.depends-on")),
                    "dependsOn",
                    json!([{ "name": "launcher", "status": "Ready" }]),
                ),
            ])),
            Complete,
        ),
        (
            "depends-on-two",
            jobs(&[
                part("dataset", 1, "sleep 1"),
                part("model", 1, "sleep 2"),
                with(
                    part("workers", 2, WELL),
                    "dependsOn",
                    json!([{ "name": "dataset", "status": "Complete" }, { "name": "model", "status": "Complete" }]),
                ),
            ]),
            Complete,
        ),
        (
            "volume-claims",
            with(
                jobs(&[
                    mounts(
                        part("initializer", 1, "echo model > /data/model"),
                        &["data"],
                    ),
                    with(
                        mounts(
                            part(
                                "node",
                                3,
                                r#"grep model /data/model > "/kept/$JOB_COMPLETION_INDEX""#,
                            ),
                            &["data", "kept"],
                        ),
                        "dependsOn",
                        json!([{ "name": "initializer", "status": "Complete" }]),
                    ),
                ]),
                "volumeClaimPolicies",
                json!([
                    { "templates": [claim("data")] },
                    { "templates": [claim("kept")], "retentionPolicy": { "whenDeleted": "Retain" } },
                ]),
            ),
            Complete,
        ),
        (
            "restarts",
            failing(json!({ "maxRestarts": 2, "restartStrategy": "BlockingRecreate" })),
            Failed(2),
        ),
        ("restart-rule", failing(rule("RestartJobSet")), Failed(1)),
        ("fail-rule", failing(rule("FailJobSet")), Failed(0)),
        (
            "ignoring-rule",
            failing(rule("RestartJobSetAndIgnoreMaxRestarts")),
            Restarts(3),
        ),
        (
            "by-backoff",
            failing(fails("BackoffLimitExceeded")),
            Restarts(2),
        ),
        (
            "by-pod-failure",
            never(with(
                failing(fails("PodFailurePolicy")),
                &format!("{leader}.podFailurePolicy"),
                by_exit_code,
            )),
            Restarts(2),
        ),
        (
            "other-reason",
            failing(fails("PodFailurePolicy")),
            Failed(0),
        ),
        (
            "restart-job",
            failing(rule("RestartJob")),
            Refused("RestartJob"),
        ),
        (
            "restart-job-ignoring",
            failing(rule("RestartJobAndIgnoreMaxRestarts")),
            Refused("RestartJobAndIgnoreMaxRestarts"),
        ),
        (
            "in-place",
            failing(json!({ "maxRestarts": 3, "restartStrategy": "InPlaceRestart" })),
            Refused("InPlaceRestart"),
        ),
    ]
}

pub(crate) fn start() -> Option<Up> {
    if !can_run_pods() || !has_kubectl() {
        return None;
    }
    let capacity = "cpu=32,memory=64Gi,pods=200,nvidia.com/gpu=8";
    Some(Up::start(&[
        "--no-auth",
        "--stop-pods",
        "--capacity",
        capacity,
    ]))
}

pub(crate) fn create(up: &Up, objects: &[Value]) -> Result<(), String> {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    let file = up.folder.path().join("objects.json");
    std::fs::write(&file, list.to_string()).unwrap();
    let output = up
        .kubectl_command()
        .args(["create", "-f", file.to_str().unwrap()])
        .output()
        .unwrap();
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

pub(crate) fn get(up: &Up, what: &str) -> Value {
    serde_json::from_str(&up.kubectl(&["get", what, "-o", "json"])).unwrap()
}

pub(crate) fn condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// How a set has ended, if it has.
fn end(set: &Value, want: &End) -> Option<End> {
    let restarts = set["status"]["restarts"].as_u64().unwrap_or(0);
    if condition(set, "Completed") {
        return Some(End::Complete);
    }
    if condition(set, "Failed") {
        return Some(End::Failed(restarts));
    }
    match want {
        End::Restarts(wanted) if restarts >= *wanted => Some(want.clone()),
        _ => None,
    }
}

#[test]
fn the_features_of_jobsets_examples_end_as_they_should() {
    let Some(up) = start() else { return };
    let mut waiting = BTreeMap::new();
    let mut sets = Vec::new();
    for (name, spec, want) in job_sets() {
        let set = json!({ "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
                          "metadata": { "name": name }, "spec": spec });
        if let End::Refused(words) = want {
            let said = create(&up, &[set]).expect_err(name);
            assert!(said.contains(words), "{name}: {said}");
        } else {
            sets.push(set);
            waiting.insert(name, want);
        }
    }
    create(&up, &sets).unwrap();
    up.eventually("the end of every set", |up| {
        let found = get(up, "jobsets");
        for set in found["items"].as_array().unwrap() {
            let name = set["metadata"]["name"].as_str().unwrap();
            let Some(want) = waiting.get(name) else {
                continue;
            };
            let Some(end) = end(set, want) else { continue };
            assert_eq!(end, *want, "{name}: {set:#}");
            if matches!(want, End::Restarts(_)) {
                up.kubectl(&["delete", "jobset", name, "--wait=false"]);
            }
            waiting.remove(name);
        }
        if waiting.is_empty() {
            return Ok(());
        }
        let left = found["items"].as_array().unwrap().iter();
        let left =
            left.filter(|set| waiting.contains_key(set["metadata"]["name"].as_str().unwrap()));
        Err(json!(left.collect::<Vec<_>>()))
    });
    up.kubectl(&["delete", "jobset", "volume-claims", "--cascade=foreground"]);
    let claims = up.kubectl(&["get", "pvc", "-o", "name"]);
    assert_eq!(claims.trim(), "persistentvolumeclaim/kept-volume-claims");
}

/// A pod that is evicted for maintenance costs no restart; one that fails by itself does.
#[test]
fn maintenance_restarts_a_set_that_may_not_fail() {
    let Some(up) = start() else { return };
    let mut spec = jobs(&[
        part(
            "leader",
            2,
            "until [ -e /tmp/fail ]; do sleep 0.1; done; exit 1",
        ),
        part("workers", 2, ON),
    ]);
    spec["failurePolicy"] = json!({ "maxRestarts": 0, "rules": [
        { "action": "RestartJobSetAndIgnoreMaxRestarts", "onJobFailureReasons": ["PodFailurePolicy"] },
        { "action": "RestartJobSet", "targetReplicatedJobs": ["leader"] },
    ] });
    let leader = &mut spec["replicatedJobs"][0]["template"]["spec"];
    leader["template"]["spec"]["restartPolicy"] = json!("Never");
    leader["podFailurePolicy"] = json!({ "rules": [{ "action": "FailJob",
        "onPodConditions": [{ "type": "DisruptionTarget" }] }] });
    let set = json!({ "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
                      "metadata": { "name": "host" }, "spec": spec });
    create(&up, &[set]).unwrap();
    let leader = |up: &Up, attempt: &str| {
        up.eventually("a leader that runs", |up| {
            let pods = get(up, "pods");
            let found = pods["items"].as_array().unwrap().iter().find(|pod| {
                let labels = &pod["metadata"]["labels"];
                labels["jobset.sigs.k8s.io/replicatedjob-name"] == "leader"
                    && labels["jobset.sigs.k8s.io/restart-attempt"] == attempt
                    && pod["status"]["phase"] == "Running"
            });
            found
                .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
                .ok_or(pods.clone())
        })
    };
    let pod = leader(&up, "0");
    let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction",
                           "metadata": { "name": pod, "namespace": "default" } });
    let file = up.folder.path().join("eviction.json");
    std::fs::write(&file, eviction.to_string()).unwrap();
    let path = format!("/api/v1/namespaces/default/pods/{pod}/eviction");
    up.kubectl(&["create", "--raw", &path, "-f", file.to_str().unwrap()]);
    let pod = leader(&up, "1");
    up.kubectl(&["exec", &pod, "--", "touch", "/tmp/fail"]);
    let set = up.eventually("the end of the set", |up| {
        let set = get(up, "jobset/host");
        if condition(&set, "Failed") {
            Ok(set)
        } else {
            Err(set)
        }
    });
    assert_eq!(set["status"]["restarts"], 1, "{set:#}");
    assert_eq!(
        set["status"]["restartsCountTowardsMax"]
            .as_u64()
            .unwrap_or(0),
        0,
        "{set:#}"
    );
}
