//! LimitRanges: what containers get that ask for nothing, and what containers, pods and claims may ask for.
//!
//! Texts and order are those of Kubernetes' admission plugin, which people search for.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::kinds::builtin::quantity;
use crate::kinds::metadata::{self, section};
use crate::status::{ApiError, Result};
use crate::store::Query;
use crate::verbs::call::Call;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";
const LISTS: [&str; 2] = ["containers", "initContainers"];

/// Refuses a new pod that the limit ranges of its namespace do not allow.
pub(crate) fn admit_pod(call: &Call, pod: &Value, old: Option<&Value>) -> Result<()> {
    match old {
        Some(_) => Ok(()),
        None => refuse(call, pod, check_pod(&ranges(call), pod)),
    }
}

/// Refuses a claim that the limit ranges of its namespace do not allow, when it is made and when it grows.
pub(crate) fn admit_claim(call: &Call, claim: &Value, old: Option<&Value>) -> Result<()> {
    if old.is_some_and(|old| old["spec"] == claim["spec"]) {
        return Ok(());
    }
    refuse(call, claim, check_claim(&ranges(call), claim))
}

fn refuse(call: &Call, object: &Value, reason: Option<String>) -> Result<()> {
    reason.map_or(Ok(()), |reason| {
        let subject = call.kind.subject(metadata::text(object, "name"));
        Err(ApiError::Forbidden { subject, reason })
    })
}

/// The limit ranges of the request's namespace.
pub(super) fn ranges(call: &Call) -> Vec<Value> {
    let query = Query {
        namespace: call.namespace(),
        ..Query::default()
    };
    let page = call.core.store.list("limitranges", &query);
    let ranges = page.map(|page| page.objects).unwrap_or_default();
    ranges.iter().map(|range| range.value()).collect()
}

/// Gives the containers of a new pod the defaults of a namespace's limit ranges.
pub(super) fn default(ranges: &[Value], pod: &mut Value) {
    let mut notes = Vec::new();
    for limit in items(ranges, "Container") {
        for (list, title) in LISTS.into_iter().zip(["container", "init container"]) {
            let containers = pod["spec"][list].as_array_mut();
            for container in containers.into_iter().flatten() {
                notes.extend(fill(limit, container, title));
            }
        }
    }
    if !notes.is_empty() {
        let text = format!("LimitRanger plugin set: {}", notes.join("; "));
        pod["metadata"]["annotations"][ANNOTATION] = text.into();
    }
}

/// Sets what a container lacks, and says so.
fn fill(limit: &Value, container: &mut Value, title: &str) -> Vec<String> {
    let name = container["name"].as_str().unwrap_or_default().to_owned();
    let limited: Vec<String> = keys(&container["resources"]["limits"]);
    let mut notes = Vec::new();
    for (field, source) in [("requests", "defaultRequest"), ("limits", "default")] {
        let mut set = Vec::new();
        for (resource, amount) in limit[source].as_object().into_iter().flatten() {
            // A limit that stands alone is also the request.
            let follows = field == "requests" && limited.contains(resource);
            let present = &container["resources"][field][resource];
            if present.is_null() && !follows && container.is_object() {
                section(container, "resources");
                let target = section(&mut container["resources"], field);
                target.insert(resource.clone(), amount.clone());
                set.push(resource.as_str());
            }
        }
        if !set.is_empty() {
            let kind = field.trim_end_matches('s');
            notes.push(format!("{} {kind} for {title} {name}", set.join(", ")));
        }
    }
    notes
}

/// Everything about a pod that a namespace's limit ranges do not allow.
fn check_pod(ranges: &[Value], pod: &Value) -> Option<String> {
    let mut errors = Vec::new();
    for limit in items(ranges, "Container") {
        for list in LISTS {
            for container in pod["spec"][list].as_array().into_iter().flatten() {
                let resources = &container["resources"];
                let asked = Asked {
                    requests: amounts(&resources["requests"]),
                    limits: amounts(&resources["limits"]),
                };
                asked.check(limit, "Container", &mut errors);
            }
        }
    }
    for limit in items(ranges, "Pod") {
        let asked = Asked {
            requests: total(pod, "requests"),
            limits: total(pod, "limits"),
        };
        asked.check(limit, "Pod", &mut errors);
    }
    joined(errors)
}

/// Everything about a claim that a namespace's limit ranges do not allow.
fn check_claim(ranges: &[Value], claim: &Value) -> Option<String> {
    const TYPE: &str = "PersistentVolumeClaim";
    let mut errors = Vec::new();
    let asked = Asked {
        requests: amounts(&claim["spec"]["resources"]["requests"]),
        limits: Amounts::new(),
    };
    for limit in items(ranges, TYPE) {
        for (resource, bound) in amounts(&limit["min"]) {
            asked.at_least(&resource, &bound, TYPE, &mut errors);
        }
        for (resource, bound) in amounts(&limit["max"]) {
            let start = format!("maximum {resource} usage per {TYPE} is {}", bound.text);
            match asked.requests.get(&resource) {
                None => errors.push(format!("{start}.  No request is specified")),
                Some(request) if request.nanos > bound.nanos => {
                    errors.push(format!("{start}, but request is {}", request.text));
                }
                Some(_) => {}
            }
        }
    }
    joined(errors)
}

#[derive(Clone, Debug)]
struct Amount {
    nanos: i128,
    text: String,
}

type Amounts = BTreeMap<String, Amount>;

struct Asked {
    requests: Amounts,
    limits: Amounts,
}

impl Asked {
    fn check(&self, limit: &Value, of: &str, errors: &mut Vec<String>) {
        for (resource, bound) in amounts(&limit["min"]) {
            self.at_least(&resource, &bound, of, errors);
        }
        for (resource, bound) in amounts(&limit["max"]) {
            self.at_most(&resource, &bound, of, errors);
        }
        for (resource, bound) in amounts(&limit["maxLimitRequestRatio"]) {
            self.ratio(&resource, &bound, of, errors);
        }
    }

    fn at_least(&self, resource: &str, bound: &Amount, of: &str, errors: &mut Vec<String>) {
        let start = format!("minimum {resource} usage per {of} is {}", bound.text);
        match (self.requests.get(resource), self.limits.get(resource)) {
            (None, _) => errors.push(format!("{start}.  No request is specified")),
            (Some(request), _) if request.nanos < bound.nanos => {
                errors.push(format!("{start}, but request is {}", request.text));
            }
            (_, Some(limit)) if limit.nanos < bound.nanos => {
                errors.push(format!("{start}, but limit is {}", limit.text));
            }
            _ => {}
        }
    }

    fn at_most(&self, resource: &str, bound: &Amount, of: &str, errors: &mut Vec<String>) {
        let start = format!("maximum {resource} usage per {of} is {}", bound.text);
        match (self.limits.get(resource), self.requests.get(resource)) {
            (None, _) => errors.push(format!("{start}.  No limit is specified")),
            (Some(limit), _) if limit.nanos > bound.nanos => {
                errors.push(format!("{start}, but limit is {}", limit.text));
            }
            (_, Some(request)) if request.nanos > bound.nanos => {
                errors.push(format!("{start}, but request is {}", request.text));
            }
            _ => {}
        }
    }

    fn ratio(&self, resource: &str, bound: &Amount, of: &str, errors: &mut Vec<String>) {
        let start = format!(
            "{resource} max limit to request ratio per {of} is {}",
            bound.text
        );
        let positive = |amounts: &Amounts| {
            let amount = amounts.get(resource).map(|amount| amount.nanos);
            amount.filter(|nanos| *nanos > 0)
        };
        let (request, limit) = (positive(&self.requests), positive(&self.limits));
        let (Some(request), Some(limit)) = (request, limit) else {
            let lacking = if request.is_none() {
                "request"
            } else {
                "limit"
            };
            errors.push(format!(
                "{start}, but no {lacking} is specified or {lacking} is 0"
            ));
            return;
        };
        if limit.saturating_mul(1_000_000_000) > bound.nanos.saturating_mul(request) {
            #[expect(clippy::cast_precision_loss, reason = "only shown")]
            let ratio = limit as f64 / request as f64;
            errors.push(format!("{start}, but provided ratio is {ratio:.6}"));
        }
    }
}

/// What the containers of a pod ask for together: init containers run one after the other, before the rest, except for
/// those that stay.
fn total(pod: &Value, field: &str) -> Amounts {
    let spec = &pod["spec"];
    let mut sum = Amounts::new();
    for container in spec["containers"].as_array().into_iter().flatten() {
        add(&mut sum, &amounts(&container["resources"][field]));
    }
    let (mut staying, mut peak) = (Amounts::new(), Amounts::new());
    for container in spec["initContainers"].as_array().into_iter().flatten() {
        let own = amounts(&container["resources"][field]);
        let mut now = staying.clone();
        add(&mut now, &own);
        if container["restartPolicy"] == "Always" {
            add(&mut sum, &own);
            staying.clone_from(&now);
        }
        for (resource, amount) in now {
            let highest = peak.entry(resource).or_insert_with(|| amount.clone());
            if amount.nanos > highest.nanos {
                *highest = amount;
            }
        }
    }
    for (resource, amount) in peak {
        let total = sum.entry(resource).or_insert_with(|| amount.clone());
        if amount.nanos > total.nanos {
            *total = amount;
        }
    }
    sum
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        match sum.get_mut(resource) {
            None => {
                sum.insert(resource.clone(), amount.clone());
            }
            Some(total) => {
                total.nanos += amount.nanos;
                let is_binary = total.text.ends_with('i') || amount.text.ends_with('i');
                total.text = quantity::shown(total.nanos, is_binary);
            }
        }
    }
}

fn amounts(map: &Value) -> Amounts {
    let entries = map.as_object().into_iter().flatten();
    entries
        .filter_map(|(resource, amount)| {
            let text = amount.as_str()?.to_owned();
            let nanos = quantity::nanos(&text)?;
            Some((resource.clone(), Amount { nanos, text }))
        })
        .collect()
}

/// The items of all ranges that are about one type.
fn items<'a>(ranges: &'a [Value], of: &'a str) -> impl Iterator<Item = &'a Value> {
    ranges
        .iter()
        .filter_map(|range| range["spec"]["limits"].as_array())
        .flatten()
        .filter(move |limit| limit["type"] == of)
}

fn keys(map: &Value) -> Vec<String> {
    let entries = map.as_object().into_iter().flatten();
    entries.map(|(key, _)| key.clone()).collect()
}

/// One text of several errors, as Kubernetes joins them: each once.
fn joined(mut errors: Vec<String>) -> Option<String> {
    let mut seen = std::collections::HashSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    match errors.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn range(limit: &Value) -> Vec<Value> {
        vec![json!({"spec": {"limits": [limit]}})]
    }

    fn pod(resources: &Value) -> Value {
        json!({"metadata": {}, "spec": {"containers": [{"name": "a", "resources": resources}]}})
    }

    #[rstest]
    #[case::nothing(json!({}), json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}))]
    #[case::own(json!({"requests": {"cpu": "3"}, "limits": {"cpu": "4"}}),
        json!({"requests": {"cpu": "3"}, "limits": {"cpu": "4"}}))]
    #[case::limit_is_request(json!({"limits": {"cpu": "4"}}), json!({"limits": {"cpu": "4"}}))]
    #[case::request_only(json!({"requests": {"cpu": "500m"}}),
        json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "2"}}))]
    fn containers_get_what_they_lack(#[case] resources: Value, #[case] want: Value) {
        let limit =
            json!({"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}});
        let mut pod = pod(&resources);
        default(&range(&limit), &mut pod);
        assert_eq!(pod["spec"]["containers"][0]["resources"], want);
    }

    #[test]
    fn a_note_says_what_was_set() {
        let limit = json!({"type": "Container", "default": {"cpu": "2", "memory": "1Gi"},
            "defaultRequest": {"cpu": "1"}});
        let mut pod = pod(&json!({}));
        default(&range(&limit), &mut pod);
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu request for container a; cpu, memory limit for container a"
        );
    }

    #[rstest]
    #[case::small(json!({"type": "Container", "min": {"cpu": "1"}}),
        json!({"requests": {"cpu": "500m"}}),
        "minimum cpu usage per Container is 1, but request is 500m")]
    #[case::absent(json!({"type": "Container", "min": {"cpu": "1"}}), json!({}),
        "minimum cpu usage per Container is 1.  No request is specified")]
    #[case::large(json!({"type": "Container", "max": {"memory": "1Gi"}}),
        json!({"limits": {"memory": "2Gi"}}),
        "maximum memory usage per Container is 1Gi, but limit is 2Gi")]
    #[case::unlimited(json!({"type": "Pod", "max": {"memory": "1Gi"}}), json!({}),
        "maximum memory usage per Pod is 1Gi.  No limit is specified")]
    #[case::ratio(json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}),
        json!({"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}),
        "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000")]
    #[case::two(json!({"type": "Container", "max": {"cpu": "1", "memory": "1Gi"}}),
        json!({"limits": {"cpu": "2", "memory": "2Gi"}}),
        "[maximum cpu usage per Container is 1, but limit is 2, \
         maximum memory usage per Container is 1Gi, but limit is 2Gi]")]
    fn says_what_is_not_allowed(
        #[case] limit: Value,
        #[case] resources: Value,
        #[case] want: &str,
    ) {
        let found = check_pod(&range(&limit), &pod(&resources));
        assert_eq!(found.as_deref(), Some(want));
    }

    #[test]
    fn init_containers_count_by_their_highest() {
        let asks = |cpu: &str| json!({"name": "x", "resources": {"limits": {"cpu": cpu}}});
        let pod = json!({"spec": {
            "containers": [asks("1"), asks("1")], "initContainers": [asks("3"), asks("2")]}});
        let check = |max: &str| {
            let limit = json!({"type": "Pod", "max": {"cpu": max}});
            check_pod(&range(&limit), &pod)
        };
        assert_eq!(check("3"), None);
        assert_eq!(
            check("2").as_deref(),
            Some("maximum cpu usage per Pod is 2, but limit is 3")
        );
    }

    #[rstest]
    #[case("1Gi", None)]
    #[case(
        "3Gi",
        Some("maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi")
    )]
    #[case(
        "1Mi",
        Some("minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi")
    )]
    fn claims_have_bounds(#[case] size: &str, #[case] want: Option<&str>) {
        let limit = json!({"type": "PersistentVolumeClaim",
            "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}});
        let claim = json!({"spec": {"resources": {"requests": {"storage": size}}}});
        assert_eq!(check_claim(&range(&limit), &claim).as_deref(), want);
    }
}
