//! What is different with a cluster behind: whose Trainer it is, whose rights count, and an API server
//! that goes away and comes back.

use serde_json::{Value, json};

use crate::harness::cluster::Cluster;
use crate::harness::target::Target;
use crate::harness::{Up, astrago, can_run_pods, has_kubectl};

/// Whether the tests run on a Kubernetes cluster; says so where they do not.
pub(crate) fn on_kubernetes() -> bool {
    let found = Target::chosen().kubernetes;
    if !found {
        println!("does not apply to this target: the API server is ours");
    }
    found
}

#[test]
fn the_cluster_says_whose_trainer_it_has() {
    if !has_kubectl() {
        return;
    }
    let target = Target::chosen();
    let up = Up::start(&["--no-node", "--no-auth"]);
    let (code, cluster) = up.get("/api/cluster");
    assert_eq!(code, 200, "{cluster}");
    let (old, want) = (target.is_kubeflow_2_1(), target.dialect());
    assert_eq!(cluster["dialect"], want, "{cluster}");
    assert_eq!(
        cluster["astrago_controllers"],
        target.kubeflow.is_none(),
        "{cluster}"
    );
    assert_eq!(cluster["connected"], true, "{cluster}");
    for absent in ["kueue", "volcano", "metrics", "karpenter"] {
        assert_eq!(cluster[absent], false, "{cluster}");
    }
    // Our own definitions have those of v1; Kubeflow Trainer's do not.
    let v1 = !target.kubernetes || target.kubeflow.is_none();
    assert_eq!(cluster["training_operator_v1"], v1, "{cluster}");
    let published = if old { Value::Null } else { json!("v2.3.0") };
    assert_eq!(cluster["trainer_version"], published, "{cluster}");
    let version = cluster["kubernetes_version"].as_str().unwrap();
    assert!(version.starts_with("v1."), "{cluster}");
    let doctor = up.run(&["doctor"]);
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert!(said.contains(version) && said.contains(want), "{said}");
    let whose = match (target.kubeflow, old) {
        (None, _) => "Astrago's controllers",
        (Some(_), true) => "Kubeflow Trainer up to v2.1",
        (Some(_), false) => "Kubeflow Trainer v2.3.0",
    };
    assert!(said.contains(whose), "{said}");
    if !target.kubernetes || target.kubeflow.is_some() {
        return;
    }
    // What is installed later is noticed, without a new start.
    let served = |group: &str, kind: &str| {
        let (plural, lower) = (format!("{}s", kind.to_lowercase()), kind.to_lowercase());
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{group}") },
            "spec": {
                "group": group, "scope": "Cluster",
                "names": { "kind": kind, "plural": plural, "singular": lower },
                "versions": [{ "name": "v1", "served": true, "storage": true, "schema": {
                    "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                } }],
            },
        })
    };
    let others = [
        ("kueue", served("kueue.x-k8s.io", "ClusterQueue"), "Kueue"),
        (
            "volcano",
            served("scheduling.volcano.sh", "Queue"),
            "Volcano",
        ),
        ("karpenter", served("karpenter.sh", "NodePool"), "Karpenter"),
    ];
    for (_, definition, _) in &others {
        let file = up.folder.path().join("definition.json");
        let mut definition = definition.clone();
        // Groups below k8s.io belong to whom Kubernetes gave them.
        definition["metadata"]["annotations"] =
            json!({ "api-approved.kubernetes.io": "unapproved, a test" });
        std::fs::write(&file, definition.to_string()).unwrap();
        up.kubectl(&["apply", "--server-side", "-f", file.to_str().unwrap()]);
    }
    up.eventually("that what was installed later is noticed", |up| {
        let (_, cluster) = up.get("/api/cluster");
        if others.iter().all(|(name, _, _)| cluster[*name] == true) {
            Ok(())
        } else {
            Err(cluster)
        }
    });
    let doctor = up.run(&["doctor"]);
    let said = String::from_utf8_lossy(&doctor.stdout);
    for (_, _, name) in &others {
        assert!(said.contains(name), "{said}");
    }
}

/// Whoever starts the server on a cluster that has no Trainer learns what to do.
#[test]
fn a_cluster_without_a_trainer_says_what_is_missing() {
    if !on_kubernetes() || !has_kubectl() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::bare(folder.path());
    let output = astrago()
        .args(["serve", "--listen", "127.0.0.1:0", "--kubeconfig"])
        .arg(cluster.kubeconfig())
        .arg("--data-dir")
        .arg(folder.path().join("data"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for want in [
        "this cluster has no TrainJobs",
        "install Kubeflow Trainer",
        "astrago controllers",
        "deploy/kustomize/overlays/standalone",
    ] {
        assert!(said.contains(want), "{said}");
    }
}

pub(crate) fn form(user: &str, namespace: &str, code: &str) -> Value {
    json!({
        "user_id": user, "namespace": namespace, "framework": "pytorch", "training_code": code,
        "num_nodes": 2, "cpu_request": "100m", "memory_limit": "256Mi",
    })
}

/// The server has the rights of deploy/ and no others; users are service accounts with the role that
/// deploy/ gives to users, in their own namespace.
#[test]
fn users_of_a_cluster_are_kept_apart_under_the_deployed_rights() {
    if !on_kubernetes() || !can_run_pods() || !has_kubectl() {
        return;
    }
    let up = Up::start(&["--stop-pods", "--capacity", "cpu=4,memory=4Gi"]);
    let cluster = up.cluster.as_ref().unwrap();
    let bearer = |namespace: &str, name: &str| {
        cluster.kubectl(&["create", "namespace", namespace]);
        let token = cluster.token(namespace, name);
        let account = format!("--serviceaccount={namespace}:{name}");
        let role = "--clusterrole=astrago-user";
        cluster.kubectl(&[
            "-n",
            namespace,
            "create",
            "rolebinding",
            name,
            role,
            &account,
        ]);
        format!("authorization: Bearer {token}")
    };
    let (kim, lee) = (bearer("team-a", "kim"), bearer("team-b", "lee"));
    let (code, body) = up.get("/api/trainjobs");
    assert_eq!(code, 401, "{body}");
    let wrong = ["authorization: Bearer made-up"];
    assert_eq!(up.request("GET", "/api/trainjobs", None, &wrong).0, 401);

    let print = "import os; print('rank', os.environ['RANK'])\n";
    let create =
        |body: &Value, who: &str| up.request("POST", "/api/trainjob/create", Some(body), &[who]);
    let (code, made) = create(&form("team-a-kim", "team-a", print), &kim);
    assert_eq!(code, 200, "{made}\n{}", up.logs());
    let name = made["trainjob_name"].as_str().unwrap();
    let path = |rest: &str| format!("/api/trainjob/{name}{rest}?namespace=team-a");
    up.eventually("the end of the job", |up| {
        let (_, status) = up.request("GET", &path("/status"), None, &[&kim]);
        if status["state"] == "Complete" {
            Ok(())
        } else {
            Err(status)
        }
    });
    let (code, logs) = up.request("GET", &path("/logs"), None, &[&kim]);
    assert_eq!((code, &logs["logs"]), (200, &json!("rank 0\n")), "{logs}");
    let (_, list) = up.request("GET", "/api/trainjobs", None, &[&kim]);
    assert_eq!(list["total"], 1, "{list}");

    for rest in ["/status", "/logs"] {
        let (code, body) = up.request("GET", &path(rest), None, &[&lee]);
        assert_eq!(code, 403, "{body}");
    }
    let (code, _) = up.request("DELETE", &path(""), None, &[&lee]);
    assert_eq!(code, 403);
    let (code, body) = create(&form("team-b-lee", "team-a", print), &lee);
    assert_eq!(code, 403, "{body}");
    let (_, list) = up.request("GET", "/api/trainjobs", None, &[&lee]);
    assert_eq!(list["total"], 0, "{list}");
    // A namespace of one's own is made with the first job.
    let (code, made) = create(&form("team-b-lee", "team-b-lee", print), &lee);
    assert_eq!(code, 200, "{made}\n{}", up.logs());

    let (code, gone) = up.request("DELETE", &path(""), None, &[&kim]);
    assert_eq!(code, 200, "{gone}");
    up.eventually("the record of the job", |up| {
        let path = format!("/api/trainjobs/{name}?namespace=team-a");
        let (_, record) = up.request("GET", &path, None, &[&kim]);
        if record["archived"] == true {
            Ok(())
        } else {
            Err(record)
        }
    });
    let log = std::fs::read_to_string(up.folder.path().join("stderr.log")).unwrap();
    assert!(!log.contains("orbidden"), "{log}");
}

/// Runs longer than the API server is away.
const WAITS: &str = "import os, time\n\
    print('begin', os.environ['RANK'], flush=True)\n\
    time.sleep(20)\n\
    print('end', os.environ['RANK'], flush=True)\n";

#[test]
fn an_api_server_that_goes_and_comes_back_costs_no_job() {
    if !on_kubernetes() || !can_run_pods() || !has_kubectl() {
        return;
    }
    let mut up = Up::start(&["--no-auth", "--stop-pods", "--capacity", "cpu=4,memory=4Gi"]);
    let (code, made) = up.post("/api/trainjob/create", &form("kim", "user-kim", WAITS));
    assert_eq!(code, 200, "{made}");
    let name = made["trainjob_name"].as_str().unwrap().to_owned();
    let status = format!("/api/trainjob/{name}/status?namespace=user-kim");
    up.eventually("that the job runs", |up| {
        let (_, seen) = up.get(&status);
        if seen["state"] == "Running" {
            Ok(())
        } else {
            Err(seen)
        }
    });
    let pods = pods(&up, "user-kim");
    assert_eq!(pods.len(), 2, "{pods:?}");

    up.cluster.as_mut().unwrap().kill_api_server();
    up.eventually("that the loss is noticed", |up| {
        let (_, cluster) = up.get("/api/cluster");
        if cluster["connected"] == false {
            Ok(())
        } else {
            Err(cluster)
        }
    });
    // What is known is still shown, and what cannot be done is said.
    assert_eq!(up.get(&status).1["state"], "Running");
    let (code, refused) = up.post("/api/trainjob/create", &form("kim", "user-kim", WAITS));
    assert_eq!(code, 503, "{refused}");

    // While the server sleeps, the API server comes back and moves on: its watches have expired then.
    up.freeze(true);
    up.cluster.as_mut().unwrap().start_api_server();
    let text = up.kubectl(&["-n", "user-kim", "get", "trainjob", &name, "-o", "json"]);
    let mut second: Value = serde_json::from_str(&text).unwrap();
    second["metadata"] = json!({ "name": "second", "namespace": "user-kim" });
    second["spec"]["suspend"] = json!(true);
    second["status"] = Value::Null;
    let file = up.folder.path().join("second.json");
    std::fs::write(&file, second.to_string()).unwrap();
    up.kubectl(&["create", "-f", file.to_str().unwrap()]);
    up.freeze(false);
    up.eventually("the job that was made meanwhile", |up| {
        let (_, seen) = up.get("/api/trainjob/second/status?namespace=user-kim");
        if seen["state"] == "Suspended" {
            Ok(())
        } else {
            Err(seen)
        }
    });
    let ended = up.eventually("the end of the job", |up| {
        let (_, seen) = up.get(&status);
        match seen["state"].as_str() {
            Some("Complete" | "Failed") => Ok(seen),
            _ => Err(seen),
        }
    });
    assert_eq!(ended["state"], "Complete", "{ended}");
    assert_eq!(self::pods(&up, "user-kim"), pods, "no pod was replaced");
    let (_, cluster) = up.get("/api/cluster");
    assert_eq!(cluster["connected"], true, "{cluster}");
    for worker in 0..2 {
        let path = format!("/api/trainjob/{name}/logs?namespace=user-kim&worker={worker}");
        let want = format!("begin {worker}\nend {worker}\n");
        up.eventually("the whole log", |up| {
            let (_, logs) = up.get(&path);
            if logs["logs"] == want {
                Ok(())
            } else {
                Err(logs)
            }
        });
    }
}

/// The uids of the pods of a namespace.
pub(crate) fn pods(up: &Up, namespace: &str) -> Vec<String> {
    let path = "jsonpath={.items[*].metadata.uid}";
    let found = up.kubectl(&["-n", namespace, "get", "pods", "-o", path]);
    let mut uids: Vec<String> = found.split_whitespace().map(str::to_owned).collect();
    uids.sort();
    uids
}

/// Kubeflow Trainer has no TTL for TrainJobs, and makes the JobSet again when its TTL has removed it.
#[test]
fn a_finished_job_goes_when_its_time_is_over_and_never_runs_again() {
    if !can_run_pods() || !has_kubectl() {
        return;
    }
    let up = Up::start(&["--no-auth", "--stop-pods", "--capacity", "cpu=4,memory=4Gi"]);
    for (name, code) in [
        ("good", "print('ran')"),
        ("bad", "print('ran'); raise SystemExit(3)"),
    ] {
        let mut body = form("kim", "user-kim", code);
        body["name"] = json!(name);
        body["max_restarts"] = json!(0);
        body["ttl_seconds_after_finished"] = json!(8);
        let (code, made) = up.post("/api/trainjob/create", &body);
        assert_eq!(code, 200, "{made}");
    }
    for (name, want) in [("good", "Complete"), ("bad", "Failed")] {
        let record = up.eventually("that the job is gone", |up| {
            let (_, record) = up.get(&format!("/api/trainjobs/{name}?namespace=user-kim"));
            if record["archived"] == true {
                Ok(record)
            } else {
                Err(record)
            }
        });
        assert_eq!(record["state"], want, "{record}");
        assert_eq!(record["restarts"], 0, "{record}");
        let (_, logs) = up.get(&format!("/api/trainjobs/{name}/logs?namespace=user-kim"));
        let lines = logs["lines"].as_array().unwrap();
        let mut nodes: Vec<_> = lines.iter().map(|line| line["worker"].as_u64()).collect();
        nodes.sort_unstable();
        // The first failure ends the job: the other node may not have come to its line.
        if want == "Complete" || nodes.len() != 1 {
            assert_eq!(nodes, [Some(0), Some(1)], "one line per node, once: {logs}");
        }
    }
    up.eventually("that nothing is left", |up| {
        let kinds = "trainjobs,trainingruntimes,jobsets,jobs,pods";
        let left = up.kubectl(&["-n", "user-kim", "get", kinds, "-o", "name"]);
        if left.is_empty() {
            Ok(())
        } else {
            Err(json!(left))
        }
    });
}
