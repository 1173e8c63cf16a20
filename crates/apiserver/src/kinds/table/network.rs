//! The columns of services, endpoints and endpoint slices.

use serde_json::{Value, json};

use super::{Printer, Row, items, joined, labels, text};

pub(crate) const SERVICE: Printer = Printer {
    headers: "Name, Type, Cluster-IP, External-IP, Port(s), Age, Selector*",
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
        _ => joined(&external, "<none>"),
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
    vec![
        row.name(),
        json!(kind),
        json!(text(&spec["clusterIP"], "<none>")),
        json!(external),
        json!(joined(&ports, "<none>")),
        row.age(),
        json!(labels(&spec["selector"])),
    ]
}

pub(crate) const ENDPOINTS: Printer = Printer {
    headers: "Name, Endpoints, Age",
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
    vec![row.name(), json!(few(&all, "<none>")), row.age()]
}

pub(crate) const SLICE: Printer = Printer {
    headers: "Name, AddressType, Ports, Endpoints, Age",
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
    vec![
        row.name(),
        row.object["addressType"].clone(),
        json!(few(&ports, "<unset>")),
        json!(few(&addresses, "<unset>")),
        row.age(),
    ]
}

/// The first three of a list, and how many more there are.
fn few(all: &[String], none: &str) -> String {
    match all.len() {
        0..=3 => joined(all, none),
        many => format!("{} + {} more...", all[..3].join(","), many - 3),
    }
}
