//! The columns of Kubernetes' own kinds.

use serde_json::{Value, json};

use super::{Row, items, more, pod, text};

/// Name, type and priority of a column; those with a priority show only with `-o wide`.
pub(super) type Header = (&'static str, &'static str, i64);
pub(super) type Printer = (&'static [Header], fn(&Row<'_>) -> Vec<Value>);

pub(super) fn printer(group: &str, kind: &str) -> Printer {
    match (group, kind) {
        ("", "Pod") => (pod::HEADERS, pod::cells),
        ("", "ConfigMap") => (CONFIG_MAP, |row| {
            vec![row.name(), data(row, &["data", "binaryData"]), row.age()]
        }),
        ("", "Secret") => (SECRET, |row| {
            vec![
                row.name(),
                json!(text(&row.object["type"], "Opaque")),
                data(row, &["data"]),
                row.age(),
            ]
        }),
        ("", "Namespace") => (STATUS, |row| {
            vec![row.name(), row.object["status"]["phase"].clone(), row.age()]
        }),
        ("", "Service") => (SERVICE, service),
        ("", "ServiceAccount") => (SERVICE_ACCOUNT, |row| {
            vec![
                row.name(),
                json!(items(&row.object["secrets"]).len()),
                row.age(),
            ]
        }),
        ("", "Node") => (more::NODE, more::node),
        ("" | "events.k8s.io", "Event") => (more::EVENT, more::event),
        ("", "PersistentVolumeClaim") => (more::CLAIM, more::claim),
        ("", "PersistentVolume") => (more::VOLUME, more::volume),
        ("", "ResourceQuota") => (more::QUOTA, more::quota),
        ("", "LimitRange") => (CREATED, |row| {
            vec![
                row.name(),
                row.object["metadata"]["creationTimestamp"].clone(),
            ]
        }),
        ("", "Endpoints") => (more::ENDPOINTS, more::endpoints),
        ("discovery.k8s.io", "EndpointSlice") => (more::SLICE, more::slice),
        ("batch", "Job") => (JOB, job),
        ("coordination.k8s.io", "Lease") => (LEASE, |row| {
            vec![
                row.name(),
                row.object["spec"]["holderIdentity"].clone(),
                row.age(),
            ]
        }),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => (CREATED, |row| {
            vec![
                row.name(),
                row.object["metadata"]["creationTimestamp"].clone(),
            ]
        }),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => (BINDING, binding),
        ("scheduling.k8s.io", "PriorityClass") => (PRIORITY, |row| {
            let object = row.object;
            vec![
                row.name(),
                object["value"].clone(),
                json!(object["globalDefault"] == true),
                row.age(),
                json!(text(&object["preemptionPolicy"], "PreemptLowerPriority")),
            ]
        }),
        ("storage.k8s.io", "StorageClass") => (more::CLASS, more::class),
        ("policy", "PodDisruptionBudget") => (more::BUDGET, more::budget),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => (CREATED, |row| {
            vec![
                row.name(),
                row.object["metadata"]["creationTimestamp"].clone(),
            ]
        }),
        _ => (PLAIN, |row| vec![row.name(), row.age()]),
    }
}

const NAME: Header = ("Name", "string", 0);
const AGE: Header = ("Age", "string", 0);
const PLAIN: &[Header] = &[NAME, AGE];
const CREATED: &[Header] = &[NAME, ("Created At", "date", 0)];
const STATUS: &[Header] = &[NAME, ("Status", "string", 0), AGE];
const CONFIG_MAP: &[Header] = &[NAME, ("Data", "string", 0), AGE];
const SECRET: &[Header] = &[NAME, ("Type", "string", 0), ("Data", "string", 0), AGE];
const SERVICE_ACCOUNT: &[Header] = &[NAME, ("Secrets", "string", 0), AGE];
const LEASE: &[Header] = &[NAME, ("Holder", "string", 0), AGE];
const PRIORITY: &[Header] = &[
    NAME,
    ("Value", "string", 0),
    ("Global-Default", "boolean", 0),
    AGE,
    ("PreemptionPolicy", "string", 0),
];
const SERVICE: &[Header] = &[
    NAME,
    ("Type", "string", 0),
    ("Cluster-IP", "string", 0),
    ("External-IP", "string", 0),
    ("Port(s)", "string", 0),
    AGE,
    ("Selector", "string", 1),
];
const JOB: &[Header] = &[
    NAME,
    ("Status", "string", 0),
    ("Completions", "string", 0),
    ("Duration", "string", 0),
    AGE,
    ("Containers", "string", 1),
    ("Images", "string", 1),
    ("Selector", "string", 1),
];
const BINDING: &[Header] = &[
    NAME,
    ("Role", "string", 0),
    AGE,
    ("Users", "string", 1),
    ("Groups", "string", 1),
    ("ServiceAccounts", "string", 1),
];

fn data(row: &Row<'_>, fields: &[&str]) -> Value {
    let sizes = fields.iter().map(|field| {
        row.object[*field]
            .as_object()
            .map_or(0, serde_json::Map::len)
    });
    json!(sizes.sum::<usize>())
}

fn service(row: &Row<'_>) -> Vec<Value> {
    let spec = &row.object["spec"];
    let kind = text(&spec["type"], "ClusterIP");
    let external: Vec<_> = items(&row.object["status"]["loadBalancer"]["ingress"])
        .iter()
        .map(|one| text(&one["ip"], text(&one["hostname"], "")))
        .chain(items(&spec["externalIPs"]).iter().filter_map(Value::as_str))
        .collect();
    let external = match (kind, external.is_empty()) {
        ("ExternalName", _) => text(&spec["externalName"], "<none>").to_owned(),
        ("LoadBalancer", true) => "<pending>".to_owned(),
        (_, true) => "<none>".to_owned(),
        _ => external.join(","),
    };
    let ports: Vec<_> = items(&spec["ports"])
        .iter()
        .map(|port| {
            let protocol = text(&port["protocol"], "TCP");
            match port["nodePort"].as_i64().filter(|number| *number > 0) {
                Some(node) => format!("{}:{node}/{protocol}", port["port"]),
                None => format!("{}/{protocol}", port["port"]),
            }
        })
        .collect();
    let ports = if ports.is_empty() {
        "<none>".to_owned()
    } else {
        ports.join(",")
    };
    vec![
        row.name(),
        json!(kind),
        json!(text(&spec["clusterIP"], "<none>")),
        json!(external),
        json!(ports),
        row.age(),
        json!(labels(&spec["selector"])),
    ]
}

fn job(row: &Row<'_>) -> Vec<Value> {
    let (spec, status) = (&row.object["spec"], &row.object["status"]);
    let done = status["succeeded"].as_i64().unwrap_or(0);
    let completions = match (spec["completions"].as_i64(), spec["parallelism"].as_i64()) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, Some(parallel)) if parallel > 1 => format!("{done}/1 of {parallel}"),
        _ => format!("{done}/1"),
    };
    let is_true = |kind: &str| {
        let conditions = items(&status["conditions"]);
        conditions
            .iter()
            .any(|one| one["type"] == kind && one["status"] == "True")
    };
    let state = if is_true("Complete") {
        "Complete"
    } else if is_true("Failed") {
        "Failed"
    } else if !row.object["metadata"]["deletionTimestamp"].is_null() {
        "Terminating"
    } else if is_true("Suspended") {
        "Suspended"
    } else if is_true("FailureTarget") {
        "FailureTarget"
    } else if is_true("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    let duration = match (
        status["startTime"].as_str(),
        status["completionTime"].as_str(),
    ) {
        (None, _) => String::new(),
        (Some(start), None) => super::age::since_text(start, row.now),
        (Some(start), Some(end)) => end
            .parse()
            .map_or_else(|_| String::new(), |end| super::age::since_text(start, end)),
    };
    let (names, images) = containers(&spec["template"]["spec"]);
    vec![
        row.name(),
        json!(state),
        json!(completions),
        json!(duration),
        row.age(),
        json!(names),
        json!(images),
        json!(labels(&spec["selector"]["matchLabels"])),
    ]
}

/// The names and the images of a pod template's containers.
fn containers(spec: &Value) -> (String, String) {
    let join = |field: &str| {
        let all = items(&spec["containers"])
            .iter()
            .map(|one| text(&one[field], ""));
        all.collect::<Vec<_>>().join(",")
    };
    (join("name"), join("image"))
}

fn binding(row: &Row<'_>) -> Vec<Value> {
    let role = &row.object["roleRef"];
    let subjects = |kind: &str| {
        let all = items(&row.object["subjects"])
            .iter()
            .filter(|one| one["kind"] == kind);
        let names = all.map(|one| {
            let name = text(&one["name"], "");
            match one["namespace"].as_str() {
                Some(namespace) if kind == "ServiceAccount" => format!("{namespace}/{name}"),
                _ => name.to_owned(),
            }
        });
        json!(names.collect::<Vec<_>>().join(", "))
    };
    vec![
        row.name(),
        json!(format!(
            "{}/{}",
            text(&role["kind"], ""),
            text(&role["name"], "")
        )),
        row.age(),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

/// `a=b,c=d`, or `<none>`.
pub(super) fn labels(selector: &Value) -> String {
    let pairs: Vec<_> = selector
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() {
        "<none>".to_owned()
    } else {
        pairs.join(",")
    }
}
