//! The manifests of deploy/: everywhere against the types of the Kubernetes API, on a cluster against its
//! API server too.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::process::Command;

use k8s_openapi::api::{apps, core, networking, policy, rbac};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::harness::cluster::{REPOSITORY, kubeconfig};
use crate::harness::process::Process;
use crate::harness::target::{Target, program};
use crate::harness::{Up, astrago, exchange, has_kubectl};

const OVERLAYS: [&str; 6] = [
    "kubeflow",
    "kubeflow-v2.1",
    "standalone",
    "standalone-v1",
    "ingress",
    "monitoring",
];

#[test]
fn every_field_of_the_manifests_is_one_of_kubernetes() {
    if !has_kubectl() {
        return;
    }
    let mut kinds = BTreeSet::new();
    for overlay in OVERLAYS {
        for object in kustomize(overlay) {
            let kind = object["kind"].as_str().unwrap().to_owned();
            check(&kind, &object);
            kinds.insert(kind);
        }
    }
    for wanted in [
        "StatefulSet",
        "Deployment",
        "Service",
        "ServiceAccount",
        "ClusterRole",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Ingress",
        "ClusterTrainingRuntime",
        "CustomResourceDefinition",
        "ServiceMonitor",
    ] {
        assert!(kinds.contains(wanted), "{wanted} of {kinds:?}");
    }
}

#[test]
fn no_pod_of_ours_is_root_or_can_write_to_its_image() {
    if !has_kubectl() {
        return;
    }
    let mut pods = 0;
    for object in kustomize("standalone") {
        if !matches!(object["kind"].as_str(), Some("StatefulSet" | "Deployment")) {
            continue;
        }
        pods += 1;
        let pod = &object["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{pod}");
        for container in pod["containers"].as_array().unwrap() {
            let security = &container["securityContext"];
            assert_eq!(security["readOnlyRootFilesystem"], true, "{container}");
            assert_eq!(security["allowPrivilegeEscalation"], false, "{container}");
            assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
            assert!(container["resources"]["limits"]["memory"].is_string());
        }
    }
    assert_eq!(pods, 2);
}

/// The server does what users ask for with their own token; a right to impersonate would make whoever
/// takes its token an administrator.
#[test]
fn the_server_may_neither_impersonate_nor_read_secrets() {
    if !has_kubectl() {
        return;
    }
    let objects = kustomize("kubeflow");
    let role = objects.iter().find(|object| {
        object["kind"] == "ClusterRole" && object["metadata"]["name"] == "astrago-server"
    });
    let rules = role.unwrap()["rules"].as_array().unwrap();
    for rule in rules {
        let text = rule.to_string();
        for never in ["impersonate", "\"*\"", "secrets", "escalate"] {
            assert!(!text.contains(never), "{text}");
        }
    }
}

/// The user's role stands in deploy/ for clusters, and in the code for the embedded engine.
#[test]
fn users_have_the_same_rights_on_a_cluster_as_on_one_machine() {
    if !has_kubectl() {
        return;
    }
    let up = Up::start(&["--no-node", "--no-auth"]);
    let installed = up.kubectl(&["get", "clusterrole", "astrago-user", "-o", "json"]);
    let installed: Value = serde_json::from_str(&installed).unwrap();
    let objects = kustomize("kubeflow");
    let deployed = objects.iter().find(|object| {
        object["kind"] == "ClusterRole" && object["metadata"]["name"] == "astrago-user"
    });
    assert_eq!(installed["rules"], deployed.unwrap()["rules"]);
}

/// The chart has the roles of kustomize; what differs is labels and the namespace.
#[test]
fn the_chart_gives_the_same_rights_as_kustomize() {
    if !has_kubectl() {
        return;
    }
    let path = format!("{REPOSITORY}/deploy/helm/astrago/templates/roles.yaml");
    let chart = std::fs::read_to_string(path).unwrap();
    let lines = chart.lines().filter(|line| !line.contains("{{"));
    let chart = documents(&lines.collect::<Vec<_>>().join("\n"));
    assert_eq!(rules(&chart), rules(&kustomize("kubeflow")));
}

/// What it keeps is on its volume, so that a second copy would know other sessions, folders and histories.
#[test]
fn the_server_is_one_copy_whose_logs_fit_on_its_volume() {
    if !has_kubectl() {
        return;
    }
    let objects = kustomize("kubeflow");
    let server = objects
        .iter()
        .find(|object| object["kind"] == "StatefulSet");
    let spec = &server.unwrap()["spec"];
    assert_eq!(spec["replicas"], 1);
    let container = &spec["template"]["spec"]["containers"][0];
    let variables = container["env"].as_array().unwrap();
    let logs = variables
        .iter()
        .find(|one| one["name"] == "ASTRAGO_HISTORY_SIZE");
    let volume = &spec["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"];
    let gibibytes = |size: &Value| -> u64 {
        let size = size.as_str().and_then(|size| size.strip_suffix("Gi"));
        size.unwrap().parse().unwrap()
    };
    assert!(gibibytes(&logs.unwrap()["value"]) < gibibytes(volume));
}

/// What deploy/ asks controllers that run alone for, and what the dashboard shows of them and of the server.
#[test]
fn controllers_that_run_alone_answer_probes_and_count_what_the_dashboard_shows() {
    let up = Up::start(&["--no-node", "--no-auth"]);
    let kubeconfig = kubeconfig(up.folder.path());
    let mut command = astrago();
    command.args([
        "controllers",
        "--health-listen",
        "127.0.0.1:0",
        "--kubeconfig",
    ]);
    let name = "controllers-alone";
    let mut alone = Process::start(up.folder.path(), name, command.arg(kubeconfig));
    let log = up.folder.path().join(format!("{name}.log"));
    let address = alone.wait("that it listens", || {
        let text = std::fs::read_to_string(&log).ok()?;
        let (_, rest) = text.split_once("ready: http://")?;
        rest.split_once('\n').map(|(address, _)| address.to_owned())
    });
    let get = |path: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        exchange(&mut stream, &request).unwrap()
    };
    for path in ["/healthz", "/readyz"] {
        assert!(get(path).starts_with("HTTP/1.1 200 "), "{path}");
    }
    let (_, server) = up.get("/metrics");
    let counted = get("/metrics") + server.as_str().unwrap();
    let dashboard = format!("{REPOSITORY}/deploy/helm/astrago/dashboard.json");
    let dashboard = std::fs::read_to_string(dashboard).unwrap();
    let words = dashboard.split(|c: char| !c.is_ascii_lowercase() && c != '_');
    let shown: BTreeSet<&str> = words.filter(|word| word.starts_with("astrago_")).collect();
    assert!(shown.len() > 5, "{shown:?}");
    for name in shown {
        assert!(
            counted.contains(&format!("# TYPE {name} ")),
            "{name}: {counted}"
        );
    }
    up.freeze(true);
    let answer = get("/readyz");
    up.freeze(false);
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
}

/// The API server of a cluster takes all of it, and the chart makes the same rights as kustomize.
#[test]
fn a_cluster_takes_the_manifests_and_the_chart() {
    let target = Target::chosen();
    if !target.kubernetes || !has_kubectl() {
        println!("does not apply to this target: a Kubernetes API server is asked");
        return;
    }
    let up = Up::start(&["--no-node", "--no-auth"]);
    let apply = [
        "apply",
        "--server-side",
        "--dry-run=server",
        "--force-conflicts",
        "-f",
    ];
    // The Prometheus operator's kind, as far as it matters here.
    let monitors = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "servicemonitors.monitoring.coreos.com" },
        "spec": {
            "group": "monitoring.coreos.com", "scope": "Namespaced",
            "names": { "kind": "ServiceMonitor", "plural": "servicemonitors", "singular": "servicemonitor" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            } }],
        },
    });
    let file = up.folder.path().join("monitors.json");
    std::fs::write(&file, monitors.to_string()).unwrap();
    up.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    up.kubectl(&[
        "wait",
        "--for=condition=Established",
        "crd/servicemonitors.monitoring.coreos.com",
    ]);
    let _ = up
        .kubectl_command()
        .args(["create", "namespace", "kubeflow-system"])
        .output();
    let base = format!("{REPOSITORY}/deploy/kustomize/base");
    let apply_base = [&apply[..4], &["-k", &base]].concat();
    let taken = up.kubectl(&apply_base);
    assert!(taken.contains("statefulset.apps/astrago"), "{taken}");
    // Those with our own definitions replace Kubeflow's, and are for clusters without it; those with the whole catalogue
    // are for Trainers that know all of it.
    let overlays = OVERLAYS.iter().filter(|overlay| {
        if target.is_kubeflow_2_1() {
            **overlay == "kubeflow-v2.1"
        } else {
            target.kubeflow.is_none() || !overlay.starts_with("standalone")
        }
    });
    for overlay in overlays {
        let file = up.folder.path().join(format!("{overlay}.json"));
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": kustomize(overlay) });
        std::fs::write(&file, list.to_string()).unwrap();
        let taken = up.kubectl(&[&apply[..], &[file.to_str().unwrap()]].concat());
        assert!(taken.contains("statefulset.apps/astrago"), "{taken}");
    }
    let chart = format!("{REPOSITORY}/deploy/helm/astrago");
    let output = Command::new(program("helm"))
        .args(["template", "test", &chart, "--namespace", "astrago-system"])
        .args([
            "--set",
            "ingress.enabled=true,controllers.enabled=true,dashboard.enabled=true",
        ])
        .args([
            "--set",
            "oidc.issuer=https://login.example.com,oidc.clientId=a,oidc.clientSecret=s",
        ])
        .args([
            "--set",
            "oidc.publicUrl=https://train.example.com,nodeSelector.pool=system",
        ])
        .args([
            "--set",
            "tolerations[0].operator=Exists,extraArgs[0]=--history-days=90",
        ])
        .output()
        .unwrap();
    let rendered = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let file = up.folder.path().join("chart.yaml");
    std::fs::write(&file, &rendered).unwrap();
    let taken = up.kubectl(&[&apply[..], &[file.to_str().unwrap()]].concat());
    assert!(taken.contains("statefulset.apps/astrago"), "{taken}");
    assert_eq!(
        rules(&documents(&rendered)),
        rules(&kustomize("standalone"))
    );
}

/// The rules of all roles of the cluster.
fn rules(objects: &[Value]) -> BTreeSet<String> {
    let roles = objects
        .iter()
        .filter(|object| object["kind"] == "ClusterRole");
    roles
        .map(|role| format!("{} {}", role["metadata"]["name"], role["rules"]))
        .collect()
}

fn kustomize(overlay: &str) -> Vec<Value> {
    let output = Command::new("kubectl")
        .args([
            "kustomize",
            &format!("{REPOSITORY}/deploy/kustomize/overlays/{overlay}"),
        ])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    documents(&String::from_utf8_lossy(&output.stdout))
}

pub(crate) fn documents(text: &str) -> Vec<Value> {
    let parts = text.split("\n---").filter(|part| part.contains("kind:"));
    parts
        .map(|part| {
            let part = part.trim_start_matches("---");
            serde_saphyr::from_str(part).unwrap_or_else(|error| panic!("{error}: {part}"))
        })
        .collect()
}

/// Reads an object as its type and writes it again: what is lost on the way is no field of the type.
fn check(kind: &str, object: &Value) {
    match kind {
        "Namespace" => same::<core::v1::Namespace>(object),
        "ConfigMap" => same::<core::v1::ConfigMap>(object),
        "ServiceAccount" => same::<core::v1::ServiceAccount>(object),
        "Service" => same::<core::v1::Service>(object),
        "StatefulSet" => same::<apps::v1::StatefulSet>(object),
        "Deployment" => same::<apps::v1::Deployment>(object),
        "PodDisruptionBudget" => same::<policy::v1::PodDisruptionBudget>(object),
        "NetworkPolicy" => same::<networking::v1::NetworkPolicy>(object),
        "Ingress" => same::<networking::v1::Ingress>(object),
        "ClusterRole" => same::<rbac::v1::ClusterRole>(object),
        "ClusterRoleBinding" => same::<rbac::v1::ClusterRoleBinding>(object),
        "Role" => same::<rbac::v1::Role>(object),
        "RoleBinding" => same::<rbac::v1::RoleBinding>(object),
        // Checked where they are generated and by the tests that run them; the Prometheus operator's.
        "CustomResourceDefinition" | "ClusterTrainingRuntime" | "ServiceMonitor" => {}
        other => panic!("{other} is not checked"),
    }
}

fn same<T: DeserializeOwned + Serialize>(object: &Value) {
    let typed: T = serde_json::from_value(object.clone())
        .unwrap_or_else(|error| panic!("{error}: {object:#}"));
    let mut lost = Vec::new();
    find_lost(
        "",
        object,
        &serde_json::to_value(&typed).unwrap(),
        &mut lost,
    );
    assert!(lost.is_empty(), "{}: {lost:?}", object["metadata"]["name"]);
}

fn find_lost(path: &str, written: &Value, read: &Value, lost: &mut Vec<String>) {
    match (written, read) {
        (Value::Object(map), Value::Object(_)) => {
            for (key, value) in map {
                find_lost(&format!("{path}/{key}"), value, &read[key], lost);
            }
        }
        (Value::Array(list), Value::Array(other)) if list.len() == other.len() => {
            for (index, value) in list.iter().enumerate() {
                find_lost(&format!("{path}/{index}"), value, &other[index], lost);
            }
        }
        _ if written == read => {}
        _ => lost.push(path.to_owned()),
    }
}
