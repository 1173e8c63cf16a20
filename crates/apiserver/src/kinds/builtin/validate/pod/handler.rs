//! Probes, and the hooks of a container's life.

use serde_json::Value;

use super::super::one_of;
use super::{list, port_number, problem, text};
use crate::kinds::builtin::names;
use crate::kinds::schema::FieldError;

/// In the order in which Kubernetes looks for them: the first one counts.
const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/// Each probe, and how many successes in a row it may ask for.
const PROBES: [(&str, Option<i64>); 3] = [
    ("livenessProbe", Some(1)),
    ("readinessProbe", None),
    ("startupProbe", Some(1)),
];

/// The probes and hooks of a container that may have them.
pub(super) fn all(container: &Value, grace: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (name, successes) in PROBES {
        let found = &container[name];
        if found.is_object() {
            probe(found, successes, grace, &format!("{at}.{name}"), errors);
        }
    }
    for name in ["postStart", "preStop"] {
        let hook = &container["lifecycle"][name];
        if hook.is_object() {
            handler(hook, grace, &format!("{at}.lifecycle.{name}"), errors);
        }
    }
}

/// An init container that runs to its end has none of them.
pub(super) fn none(container: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for name in [
        "lifecycle",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
    ] {
        if container[name].is_object() {
            let detail = "may not be set for init containers without restartPolicy=Always";
            errors.push(FieldError::forbidden(format!("{at}.{name}"), detail));
        }
    }
}

fn probe(
    probe: &Value,
    successes: Option<i64>,
    grace: &Value,
    at: &str,
    errors: &mut Vec<FieldError>,
) {
    handler(probe, grace, at, errors);
    for name in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        if probe[name].as_i64().is_some_and(|count| count < 0) {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(
                format!("{at}.{name}"),
                &probe[name],
                detail,
            ));
        }
    }
    let wanted = &probe["successThreshold"];
    if let Some(only) = successes
        && wanted.as_i64() != Some(only)
    {
        let at = format!("{at}.successThreshold");
        errors.push(FieldError::invalid(at, wanted, "must be 1"));
    }
    let own = &probe["terminationGracePeriodSeconds"];
    let detail = match (own.as_i64(), successes) {
        (Some(_), None) => "must not be set for readinessProbes",
        (Some(..=0), Some(_)) => "must be greater than 0",
        _ => return,
    };
    let at = format!("{at}.terminationGracePeriodSeconds");
    errors.push(FieldError::invalid(at, own, detail));
}

fn handler(handler: &Value, grace: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let mut given = HANDLERS
        .into_iter()
        .filter(|kind| handler[*kind].is_object());
    let Some(kind) = given.next() else {
        errors.push(FieldError::required(at, "must specify a handler type"));
        return;
    };
    for other in given {
        let detail = "may not specify more than 1 handler type";
        errors.push(FieldError::forbidden(format!("{at}.{other}"), detail));
    }
    let (action, at) = (&handler[kind], format!("{at}.{kind}"));
    match kind {
        "exec" if list(action, "command").is_empty() => {
            errors.push(FieldError::required(format!("{at}.command"), ""));
        }
        "exec" => {}
        "sleep" => sleep(&action["seconds"], grace, &at, errors),
        "httpGet" => {
            port(&action["port"], &format!("{at}.port"), errors);
            let schemes = ["HTTP", "HTTPS"];
            one_of(&action["scheme"], &format!("{at}.scheme"), &schemes, errors);
            for header in list(action, "httpHeaders") {
                let found = names::header_problem(text(header, "name"));
                problem(found, &header["name"], &format!("{at}.httpHeaders"), errors);
            }
        }
        _ => port(&action["port"], &format!("{at}.port"), errors),
    }
}

/// No hook takes longer than the pod has to end.
fn sleep(seconds: &Value, grace: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if let (Some(wanted), Some(most)) = (seconds.as_i64(), grace.as_i64())
        && !(0..=most.max(0)).contains(&wanted)
    {
        let detail =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({most})");
        errors.push(FieldError::invalid(at, seconds, &detail));
    }
}

/// A number, or the name of one of the container's ports.
fn port(port: &Value, at: &str, errors: &mut Vec<FieldError>) {
    match port.as_str() {
        Some(name) => problem(names::port_problem(name), port, at, errors),
        None => port_number(port, at, errors),
    }
}
