//! Columns of the kinds that fewer people look at: nodes, events, storage, quotas, endpoints.

use serde_json::{Value, json};

use super::builtin::Header;
use super::{Row, items, text};

const NAME: Header = ("Name", "string", 0);
const AGE: Header = ("Age", "string", 0);

pub(super) const NODE: &[Header] = &[
    NAME,
    ("Status", "string", 0),
    ("Roles", "string", 0),
    AGE,
    ("Version", "string", 0),
    ("Internal-IP", "string", 1),
    ("External-IP", "string", 1),
    ("OS-Image", "string", 1),
    ("Kernel-Version", "string", 1),
    ("Container-Runtime", "string", 1),
];

pub(super) fn node(row: &Row<'_>) -> Vec<Value> {
    let status = &row.object["status"];
    let ready = items(&status["conditions"])
        .iter()
        .find(|one| one["type"] == "Ready");
    let mut state = match ready.map(|one| text(&one["status"], "Unknown")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if row.object["spec"]["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    let roles: Vec<_> = row.object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| {
            let role = key
                .strip_prefix("node-role.kubernetes.io/")
                .map(str::to_owned);
            let named = || (key == "kubernetes.io/role").then(|| text(value, "").to_owned());
            role.or_else(named).filter(|role| !role.is_empty())
        })
        .collect();
    let address = |kind: &str| {
        let found = items(&status["addresses"])
            .iter()
            .find(|one| one["type"] == kind);
        json!(found.map_or("<none>", |one| text(&one["address"], "<none>")))
    };
    let info = &status["nodeInfo"];
    let from_info = |field: &str| json!(text(&info[field], "<unknown>"));
    vec![
        row.name(),
        json!(state),
        json!(if roles.is_empty() {
            "<none>".to_owned()
        } else {
            roles.join(",")
        }),
        row.age(),
        json!(text(&info["kubeletVersion"], "")),
        address("InternalIP"),
        address("ExternalIP"),
        from_info("osImage"),
        from_info("kernelVersion"),
        from_info("containerRuntimeVersion"),
    ]
}

pub(super) const EVENT: &[Header] = &[
    ("Last Seen", "string", 0),
    ("Type", "string", 0),
    ("Reason", "string", 0),
    ("Object", "string", 0),
    ("Subobject", "string", 1),
    ("Source", "string", 1),
    ("Message", "string", 0),
    ("First Seen", "string", 1),
    ("Count", "string", 1),
    ("Name", "string", 1),
];

pub(super) fn event(row: &Row<'_>) -> Vec<Value> {
    let object = row.object;
    // The newer kind of event has other names for the same things.
    let either = |old: &str, new: &str| match &object[old] {
        Value::Null => object[new].clone(),
        value => value.clone(),
    };
    let involved = either("involvedObject", "regarding");
    let first = [
        &object["firstTimestamp"],
        &object["deprecatedFirstTimestamp"],
        &object["eventTime"],
    ]
    .into_iter()
    .find(|time| time.is_string())
    .unwrap_or(&Value::Null);
    let last = [
        &object["series"]["lastObservedTime"],
        &object["lastTimestamp"],
        &object["deprecatedLastTimestamp"],
        first,
    ]
    .into_iter()
    .find(|time| time.is_string())
    .unwrap_or(&Value::Null);
    let count = [
        &object["series"]["count"],
        &object["count"],
        &object["deprecatedCount"],
    ]
    .into_iter()
    .find_map(Value::as_i64)
    .unwrap_or(1);
    let kind = text(&involved["kind"], "").to_lowercase();
    let name = text(&involved["name"], "");
    let target = if kind.is_empty() {
        name.to_owned()
    } else {
        format!("{kind}/{name}")
    };
    let source = either("source", "deprecatedSource");
    let component = text(
        &source["component"],
        text(
            &object["reportingComponent"],
            text(&object["reportingController"], ""),
        ),
    );
    let source = match source["host"].as_str().filter(|host| !host.is_empty()) {
        Some(host) => format!("{component}, {host}"),
        None => component.to_owned(),
    };
    vec![
        row.since(last),
        object["type"].clone(),
        object["reason"].clone(),
        json!(target),
        json!(text(&involved["fieldPath"], "")),
        json!(source),
        json!(text(&either("message", "note"), "").trim()),
        row.since(first),
        json!(count),
        row.name(),
    ]
}

pub(super) const CLAIM: &[Header] = &[
    NAME,
    ("Status", "string", 0),
    ("Volume", "string", 0),
    ("Capacity", "string", 0),
    ("Access Modes", "string", 0),
    ("StorageClass", "string", 0),
    ("VolumeAttributesClass", "string", 0),
    AGE,
    ("VolumeMode", "string", 1),
];

pub(super) fn claim(row: &Row<'_>) -> Vec<Value> {
    let (spec, status) = (&row.object["spec"], &row.object["status"]);
    let volume = text(&spec["volumeName"], "");
    let (modes, capacity) = if volume.is_empty() {
        (String::new(), "")
    } else {
        (
            access_modes(&status["accessModes"]),
            text(&status["capacity"]["storage"], ""),
        )
    };
    let phase = if row.object["metadata"]["deletionTimestamp"].is_null() {
        text(&status["phase"], "")
    } else {
        "Terminating"
    };
    vec![
        row.name(),
        json!(phase),
        json!(volume),
        json!(capacity),
        json!(modes),
        json!(text(&spec["storageClassName"], "")),
        json!(text(&spec["volumeAttributesClassName"], "<unset>")),
        row.age(),
        json!(text(&spec["volumeMode"], "<unset>")),
    ]
}

pub(super) const VOLUME: &[Header] = &[
    NAME,
    ("Capacity", "string", 0),
    ("Access Modes", "string", 0),
    ("Reclaim Policy", "string", 0),
    ("Status", "string", 0),
    ("Claim", "string", 0),
    ("StorageClass", "string", 0),
    ("VolumeAttributesClass", "string", 0),
    ("Reason", "string", 0),
    AGE,
    ("VolumeMode", "string", 1),
];

pub(super) fn volume(row: &Row<'_>) -> Vec<Value> {
    let (spec, status) = (&row.object["spec"], &row.object["status"]);
    let claim = match &spec["claimRef"] {
        Value::Null => String::new(),
        claim => format!(
            "{}/{}",
            text(&claim["namespace"], ""),
            text(&claim["name"], "")
        ),
    };
    vec![
        row.name(),
        json!(text(&spec["capacity"]["storage"], "")),
        json!(access_modes(&spec["accessModes"])),
        json!(text(&spec["persistentVolumeReclaimPolicy"], "")),
        json!(text(&status["phase"], "")),
        json!(claim),
        json!(text(&spec["storageClassName"], "")),
        json!(text(&spec["volumeAttributesClassName"], "<unset>")),
        json!(text(&status["reason"], "")),
        row.age(),
        json!(text(&spec["volumeMode"], "<unset>")),
    ]
}

fn access_modes(modes: &Value) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| items(modes).iter().any(|one| one == mode);
    let found: Vec<_> = short
        .iter()
        .filter(|(mode, _)| has(mode))
        .map(|(_, short)| *short)
        .collect();
    found.join(",")
}

pub(super) const QUOTA: &[Header] = &[NAME, ("Request", "string", 0), ("Limit", "string", 0), AGE];

pub(super) fn quota(row: &Row<'_>) -> Vec<Value> {
    let status = &row.object["status"];
    let hard = [&status["hard"], &row.object["spec"]["hard"]]
        .into_iter()
        .find_map(Value::as_object);
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, amount) in hard.into_iter().flatten() {
        let used = text(&status["used"][resource], "0");
        let shown = format!("{resource}: {used}/{}", text(amount, "0"));
        if resource.starts_with("limits.") {
            limits.push(shown);
        } else {
            requests.push(shown);
        }
    }
    vec![
        row.name(),
        json!(requests.join(", ")),
        json!(limits.join(", ")),
        row.age(),
    ]
}

pub(super) const ENDPOINTS: &[Header] = &[NAME, ("Endpoints", "string", 0), AGE];

pub(super) fn endpoints(row: &Row<'_>) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in items(&row.object["subsets"]) {
        for address in items(&subset["addresses"]) {
            let ip = text(&address["ip"], "");
            match items(&subset["ports"]) {
                [] => all.push(ip.to_owned()),
                ports => all.extend(ports.iter().map(|port| format!("{ip}:{}", port["port"]))),
            }
        }
    }
    vec![row.name(), json!(few(&all)), row.age()]
}

pub(super) const SLICE: &[Header] = &[
    NAME,
    ("AddressType", "string", 0),
    ("Ports", "string", 0),
    ("Endpoints", "string", 0),
    AGE,
];

pub(super) fn slice(row: &Row<'_>) -> Vec<Value> {
    let ports: Vec<_> = items(&row.object["ports"])
        .iter()
        .map(|port| port["port"].to_string())
        .collect();
    let addresses: Vec<_> = items(&row.object["endpoints"])
        .iter()
        .flat_map(|one| items(&one["addresses"]))
        .map(|address| text(address, "").to_owned())
        .collect();
    let ports = if ports.is_empty() {
        "<unset>".to_owned()
    } else {
        few(&ports)
    };
    let addresses = if addresses.is_empty() {
        "<unset>".to_owned()
    } else {
        few(&addresses)
    };
    vec![
        row.name(),
        row.object["addressType"].clone(),
        json!(ports),
        json!(addresses),
        row.age(),
    ]
}

/// The first three of a list, and how many more there are.
fn few(all: &[String]) -> String {
    match all.len() {
        0 => "<none>".to_owned(),
        1..=3 => all.join(","),
        many => format!("{} + {} more...", all[..3].join(","), many - 3),
    }
}

pub(super) const CLASS: &[Header] = &[
    NAME,
    ("Provisioner", "string", 0),
    ("ReclaimPolicy", "string", 0),
    ("VolumeBindingMode", "string", 0),
    ("AllowVolumeExpansion", "string", 0),
    AGE,
];

pub(super) fn class(row: &Row<'_>) -> Vec<Value> {
    let object = row.object;
    let default = "storageclass.kubernetes.io/is-default-class";
    let is_default = object["metadata"]["annotations"][default] == "true";
    let name = text(&object["metadata"]["name"], "");
    vec![
        json!(if is_default {
            format!("{name} (default)")
        } else {
            name.to_owned()
        }),
        object["provisioner"].clone(),
        json!(text(&object["reclaimPolicy"], "Delete")),
        json!(text(&object["volumeBindingMode"], "Immediate")),
        json!(object["allowVolumeExpansion"] == true),
        row.age(),
    ]
}

pub(super) const BUDGET: &[Header] = &[
    NAME,
    ("Min Available", "string", 0),
    ("Max Unavailable", "string", 0),
    ("Allowed Disruptions", "integer", 0),
    AGE,
];

pub(super) fn budget(row: &Row<'_>) -> Vec<Value> {
    let either = |field: &str| match &row.object["spec"][field] {
        Value::Null => json!("N/A"),
        Value::String(text) => json!(text),
        other => json!(other.to_string()),
    };
    vec![
        row.name(),
        either("minAvailable"),
        either("maxUnavailable"),
        json!(
            row.object["status"]["disruptionsAllowed"]
                .as_i64()
                .unwrap_or(0)
        ),
        row.age(),
    ]
}
