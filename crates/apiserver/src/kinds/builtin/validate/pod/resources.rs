//! What a container asks for.

use serde_json::Value;

use crate::kinds::builtin::quantity;
use crate::kinds::metadata;
use crate::kinds::schema::FieldError;

/// Those without a domain in their names that a container may ask for.
const OWN: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const HUGE: &str = "hugepages-";
const NANOS: i128 = 1_000_000_000;

pub(super) fn resources(resources: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for field in ["limits", "requests"] {
        for (resource, amount) in resources[field].as_object().into_iter().flatten() {
            let at = format!("{at}.{field}[{resource}]");
            if let Some(problem) = name_problem(resource) {
                errors.push(FieldError::invalid(
                    &*at,
                    &resource.as_str().into(),
                    problem,
                ));
            }
            match nanos(amount) {
                Some(nanos) if nanos < 0 => {
                    let detail = "must be greater than or equal to 0";
                    errors.push(FieldError::invalid(at, amount, detail));
                }
                Some(nanos) if is_whole(resource) && nanos % NANOS != 0 => {
                    errors.push(FieldError::invalid(at, amount, "must be an integer"));
                }
                _ => {}
            }
        }
    }
    for (resource, request) in resources["requests"].as_object().into_iter().flatten() {
        let limit = &resources["limits"][resource];
        let shown = limit.as_str().unwrap_or_default();
        let detail = match (nanos(request), nanos(limit)) {
            // Nobody lends these.
            (Some(_), None) if is_whole(resource) => {
                let detail = "Limit must be set for non overcommitable resources";
                errors.push(FieldError::required(format!("{at}.limits"), detail));
                continue;
            }
            (Some(wanted), Some(allowed)) if is_whole(resource) && wanted != allowed => {
                format!("must be equal to {resource} limit of {shown}")
            }
            (Some(wanted), Some(allowed)) if wanted > allowed => {
                format!("must be less than or equal to {resource} limit of {shown}")
            }
            _ => continue,
        };
        let at = format!("{at}.requests");
        errors.push(FieldError::invalid(at, request, &detail));
    }
}

fn nanos(amount: &Value) -> Option<i128> {
    amount.as_str().and_then(quantity::nanos)
}

fn name_problem(name: &str) -> Option<&'static str> {
    if !name.contains('/') && !OWN.contains(&name) && !name.starts_with(HUGE) {
        return Some("must be a standard resource for containers");
    }
    metadata::key_problem(name)
}

/// Devices and huge pages: there is no half of one, and nobody gets more than they asked for.
fn is_whole(name: &str) -> bool {
    let domain = name.split_once('/').map(|(domain, _)| domain);
    name.starts_with(HUGE) || domain.is_some_and(|domain| !domain.ends_with("kubernetes.io"))
}
