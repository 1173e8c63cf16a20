//! The rules of pods and pod templates.

mod container;
mod environment;
mod handler;
mod placement;
mod resources;
#[cfg(test)]
mod tests;
mod update;
mod volume;

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::Value;

use super::{list, one_of, port_number, problem, text};
use crate::kinds::builtin::names;
use crate::kinds::metadata;
use crate::kinds::schema::FieldError;

pub(super) use placement::selector;
pub(super) use update::update;

const POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];
const DNS: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

/// The rules of a pod's spec, and of a template's.
pub(super) fn spec(spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let field = |name: &str| format!("{at}.{name}");
    volume::all(spec, &field("volumes"), errors);
    container::all(spec, at, errors);
    one_of(
        &spec["restartPolicy"],
        &field("restartPolicy"),
        &POLICIES,
        errors,
    );
    one_of(&spec["dnsPolicy"], &field("dnsPolicy"), &DNS, errors);
    dns(spec, &field("dnsConfig"), errors);
    security(&spec["securityContext"], &field("securityContext"), errors);
    placement::placement(spec, at, errors);
    for (name, check) in [
        ("hostname", names::label_problem as fn(&str) -> _),
        ("subdomain", names::label_problem),
        ("nodeName", names::subdomain_problem),
        ("serviceAccountName", names::subdomain_problem),
        ("priorityClassName", names::subdomain_problem),
        ("runtimeClassName", names::subdomain_problem),
    ] {
        if !text(spec, name).is_empty() {
            problem(check(text(spec, name)), &spec[name], &field(name), errors);
        }
    }
    aliases(spec, &field("hostAliases"), errors);
    gates(spec, at, errors);
    let deadline = &spec["activeDeadlineSeconds"];
    if deadline
        .as_i64()
        .is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds))
    {
        let detail = "must be between 1 and 2147483647, inclusive";
        let at = field("activeDeadlineSeconds");
        errors.push(FieldError::invalid(at, deadline, detail));
    }
}

fn dns(spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let config = &spec["dnsConfig"];
    let servers = list(config, "nameservers");
    if spec["dnsPolicy"] == "None" && servers.is_empty() {
        let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.push(FieldError::required(format!("{at}.nameservers"), detail));
    }
    if servers.len() > 3 {
        let detail = "must not have more than 3 nameservers";
        let at = format!("{at}.nameservers");
        errors.push(FieldError::invalid(at, &config["nameservers"], detail));
    }
    for (index, server) in servers.iter().enumerate() {
        address(server, &format!("{at}.nameservers[{index}]"), errors);
    }
    if list(config, "searches").len() > 32 {
        let detail = "must not have more than 32 search paths";
        let at = format!("{at}.searches");
        errors.push(FieldError::invalid(at, &config["searches"], detail));
    }
}

/// What of a pod's security is numbers and names.
fn security(security: &Value, at: &str, errors: &mut Vec<FieldError>) {
    const POLICIES: [&str; 2] = ["Always", "OnRootMismatch"];
    for name in ["runAsUser", "runAsGroup", "fsGroup"] {
        id(&security[name], &format!("{at}.{name}"), errors);
    }
    for (index, group) in list(security, "supplementalGroups").iter().enumerate() {
        id(group, &format!("{at}.supplementalGroups[{index}]"), errors);
    }
    let change = &security["fsGroupChangePolicy"];
    if !change.is_null() {
        let at = format!("{at}.fsGroupChangePolicy");
        one_of(change, &at, &POLICIES, errors);
    }
    sysctls(list(security, "sysctls"), &format!("{at}.sysctls"), errors);
}

/// A user or a group.
fn id(id: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if id
        .as_i64()
        .is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id))
    {
        let detail = "must be between 0 and 2147483647, inclusive";
        errors.push(FieldError::invalid(at, id, detail));
    }
}

fn aliases(spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        address(&alias["ip"], &format!("{at}[{index}].ip"), errors);
        for (number, name) in list(alias, "hostnames").iter().enumerate() {
            let at = format!("{at}[{index}].hostnames[{number}]");
            let found = names::subdomain_problem(name.as_str().unwrap_or_default());
            problem(found, name, &at, errors);
        }
    }
}

fn address(address: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let parsed = address.as_str().unwrap_or_default().parse::<IpAddr>();
    if parsed.is_err() {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(FieldError::invalid(at, address, detail));
    }
}

/// What keeps a pod from being scheduled, and from being ready.
fn gates(spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let mut seen = HashSet::new();
    for (index, gate) in list(spec, "schedulingGates").iter().enumerate() {
        let at = format!("{at}.schedulingGates[{index}]");
        let name = text(gate, "name");
        problem(metadata::key_problem(name), &gate["name"], &at, errors);
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(at, &gate["name"]));
        }
    }
    for (index, gate) in list(spec, "readinessGates").iter().enumerate() {
        let at = format!("{at}.readinessGates[{index}].conditionType");
        let found = metadata::key_problem(text(gate, "conditionType"));
        problem(found, &gate["conditionType"], &at, errors);
    }
}

fn sysctls(sysctls: &[Value], at: &str, errors: &mut Vec<FieldError>) {
    const DETAIL: &str = "must have at most 253 characters: words of lower-case letters, digits, '-' and '_' between \
        letters or digits, separated by '.' or '/'";
    let mut seen = HashSet::new();
    for (index, sysctl) in sysctls.iter().enumerate() {
        let at = format!("{at}[{index}].name");
        let name = text(sysctl, "name");
        if name.is_empty() {
            errors.push(FieldError::required(at, ""));
        } else if !is_sysctl(name) {
            errors.push(FieldError::invalid(at, &sysctl["name"], DETAIL));
        } else if !seen.insert(name.replace('/', ".")) {
            errors.push(FieldError::duplicate(at, &sysctl["name"]));
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 253
        && name.split(['.', '/']).all(|word| {
            let ends = word.bytes().next().zip(word.bytes().next_back());
            ends.is_some_and(|(first, last)| is_plain(first) && is_plain(last))
                && word
                    .bytes()
                    .all(|byte| is_plain(byte) || matches!(byte, b'-' | b'_'))
        })
}
