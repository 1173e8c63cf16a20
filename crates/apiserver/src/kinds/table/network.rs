//! The columns of services, endpoints and endpoint slices.

use serde_json::{Value, json};

use super::{AGE, NAME, Printer, Row, items, labels, text};

pub(crate) const SERVICE: Printer = Printer {
    headers: &[
        NAME,
        ("Type", "string", 0),
        ("Cluster-IP", "string", 0),
        ("External-IP", "string", 0),
        ("Port(s)", "string", 0),
        AGE,
        ("Selector", "string", 1),
    ],
    cells: service,
};

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

pub(crate) const ENDPOINTS: Printer = Printer {
    headers: &[NAME, ("Endpoints", "string", 0), AGE],
    cells: endpoints,
};

fn endpoints(row: &Row<'_>) -> Vec<Value> {
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

pub(crate) const SLICE: Printer = Printer {
    headers: &[
        NAME,
        ("AddressType", "string", 0),
        ("Ports", "string", 0),
        ("Endpoints", "string", 0),
        AGE,
    ],
    cells: slice,
};

fn slice(row: &Row<'_>) -> Vec<Value> {
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
