//! What JobSet's own webhook refuses, as rules in its definition. The controller asks the same questions again
//! (`astrago_plan::validate_job_set`), and some that cannot be asked here.

use serde_json::{Value, json};

use super::LONGEST_NAME;
use crate::MOST_PODS;

/// Why a Job may have failed, in the words of Kubernetes.
const REASONS: [&str; 5] = [
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
];

/// How many replicatedJobs a set may have.
const MOST_TEMPLATES: usize = 64;

const LABEL: &str = "^[a-z]([-a-z0-9]*[a-z0-9])?$";

/// Adds the rules to the schema of a JobSet.
pub(super) fn add(schema: &mut Value) {
    schema["x-kubernetes-validations"] = names();
    let Some(spec) = schema.pointer_mut("/properties/spec") else {
        return;
    };
    if let Some(rules) = spec["x-kubernetes-validations"].as_array_mut() {
        rules.extend(of_templates());
        rules.extend(of_policies());
        rules.extend(of_coordinator());
    }
    bound(spec);
    for place in [
        "network/properties/subdomain",
        "replicatedJobs/items/properties/groupName",
    ] {
        if let Some(field) = spec.pointer_mut(&format!("/properties/{place}")) {
            field["pattern"] = json!(LABEL);
            field["maxLength"] = json!(LONGEST_NAME);
        }
    }
    if let Some(manager) = spec.pointer_mut("/properties/managedBy") {
        manager["maxLength"] = json!(63);
        manager["x-kubernetes-validations"] = json!([
            {
                "rule": "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[^ ]+$')",
                "message": "must be a domain-prefixed path (such as \"acme.io/foo\")",
            },
            { "rule": "self == oldSelf", "message": "field is immutable" },
        ]);
    }
    let reasons =
        "/properties/failurePolicy/properties/rules/items/properties/onJobFailureReasons/items";
    if let Some(reason) = spec.pointer_mut(reasons) {
        reason["enum"] = json!(REASONS);
    }
}

/// Bounds lists and names, so that an API server can tell beforehand what the rules cost at most.
fn bound(spec: &mut Value) {
    let rules = "failurePolicy/properties/rules";
    let lists = [
        ("replicatedJobs".to_owned(), MOST_TEMPLATES),
        (
            "successPolicy/properties/targetReplicatedJobs".to_owned(),
            MOST_TEMPLATES,
        ),
        (rules.to_owned(), 20),
        (
            format!("{rules}/items/properties/targetReplicatedJobs"),
            MOST_TEMPLATES,
        ),
    ];
    for (place, most) in lists {
        if let Some(list) = spec.pointer_mut(&format!("/properties/{place}")) {
            list["maxItems"] = json!(most);
            if list["items"]["type"] == "string" {
                list["items"]["maxLength"] = json!(LONGEST_NAME);
            }
        }
    }
    for place in [
        "replicatedJobs/items/properties/name",
        "replicatedJobs/items/properties/dependsOn/items/properties/name",
        "coordinator/properties/replicatedJob",
    ] {
        if let Some(name) = spec.pointer_mut(&format!("/properties/{place}")) {
            name["maxLength"] = json!(LONGEST_NAME);
        }
    }
}

fn rule(rule: impl Into<String>, message: &str, field: &str) -> Value {
    json!({ "rule": rule.into(), "message": message, "fieldPath": field })
}

/// The names of Jobs and pods are made of the set's.
fn names() -> Value {
    let last = |count: &str| format!("size(string({count} > 1 ? {count} - 1 : 0))");
    let replicas = last("(has(j.replicas) ? j.replicas : 1)");
    let job = format!("size(self.metadata.name) + size(j.name) + {replicas} + 2");
    let completions = "j.template.spec.completions";
    let pod = last(completions);
    let mode = "j.template.spec.completionMode";
    let indexed = format!("(!has({mode}) || {mode} == 'Indexed')");
    let index = |field: &str| {
        let field = format!("self.spec.coordinator.{field}");
        format!("size(string(has({field}) ? {field} : 0))")
    };
    let subdomain = "(has(self.spec.network) && has(self.spec.network.subdomain) \
                     ? size(self.spec.network.subdomain) : size(self.metadata.name))";
    let jobs = |rule: String| {
        format!("!has(self.spec.replicatedJobs) || self.spec.replicatedJobs.all(j, {rule})")
    };
    json!([
        {
            "rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "message": "metadata.name must match RFC 1035 DNS label format",
        },
        {
            "rule": jobs(format!("{job} <= 63")),
            "message": "JobSet name is too long, job names generated for this JobSet will exceed 63 characters",
        },
        {
            "rule": jobs(format!(
                "!has(j.template.spec) || !has({completions}) || !{indexed} || {job} + {pod} + 7 <= 63"
            )),
            "message": "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters",
        },
        {
            "rule": jobs("j.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')".to_owned()),
            "message": "the names of replicatedJobs must consist of lower case letters, digits or '-'",
        },
        {
            "rule": format!(
                "!has(self.spec.coordinator) || size(self.metadata.name) + size(self.spec.coordinator.replicatedJob) \
                 + {} + {} + {subdomain} + 4 <= 63",
                index("jobIndex"), index("podIndex")
            ),
            "message": "the address of the coordinator becomes a label, and will exceed 63 characters",
        },
    ])
}

fn of_templates() -> Vec<Value> {
    let field = ".replicatedJobs";
    // Written out: of a list that is made on the way, an API server cannot tell beforehand how long it gets.
    let places = (0..MOST_TEMPLATES).map(|place| place.to_string());
    let places = format!("[{}]", places.collect::<Vec<_>>().join(","));
    let pods = "(has(j.replicas) ? j.replicas : 1) \
                * (has(j.template.spec) && has(j.template.spec.parallelism) ? j.template.spec.parallelism : 1)";
    vec![
        rule(
            format!(
                "!has(self.replicatedJobs) || {places}.all(i, i >= size(self.replicatedJobs) \
                 || !has(self.replicatedJobs[i].dependsOn) || self.replicatedJobs[i].dependsOn.all(d, \
                 {places}.exists(k, k < i && self.replicatedJobs[k].name == d.name)))"
            ),
            "dependsOn must name a replicatedJob that stands before the one that depends on it",
            field,
        ),
        rule(
            format!(
                "!has(self.replicatedJobs) || self.replicatedJobs.all(j, {pods} <= {MOST_PODS})"
            ),
            &format!("the product of replicas and parallelism must not exceed {MOST_PODS}"),
            field,
        ),
        rule(
            "(has(self.suspend) && self.suspend) || (has(oldSelf.suspend) && oldSelf.suspend) \
             || (has(self.replicatedJobs) == has(oldSelf.replicatedJobs) \
             && (!has(self.replicatedJobs) || self.replicatedJobs == oldSelf.replicatedJobs))",
            "field is immutable while the JobSet is not suspended",
            field,
        ),
    ]
}

fn of_policies() -> Vec<Value> {
    let known = "has(self.replicatedJobs) && self.replicatedJobs.exists(j, j.name == t)";
    let rules =
        "!has(self.failurePolicy) || !has(self.failurePolicy.rules) || self.failurePolicy.rules";
    vec![
        rule(
            format!(
                "!has(self.successPolicy) || !has(self.successPolicy.targetReplicatedJobs) \
                 || self.successPolicy.targetReplicatedJobs.all(t, {known})"
            ),
            "targetReplicatedJobs must name replicatedJobs of the JobSet",
            ".successPolicy.targetReplicatedJobs",
        ),
        rule(
            format!(
                "{rules}.all(r, !has(r.targetReplicatedJobs) || r.targetReplicatedJobs.all(t, {known}))"
            ),
            "targetReplicatedJobs must name replicatedJobs of the JobSet",
            ".failurePolicy.rules",
        ),
        rule(
            format!(
                "{rules}.all(r, !(r.action in ['RestartJob', 'RestartJobAndIgnoreMaxRestarts']))"
            ),
            "RestartJob and RestartJobAndIgnoreMaxRestarts are alpha features that are not there: use RestartJobSet",
            ".failurePolicy.rules",
        ),
        rule(
            format!(
                "{rules}.all(r, !has(r.name) || r.name == '' \
                 || self.failurePolicy.rules.exists_one(o, has(o.name) && o.name == r.name))"
            ),
            "rule names are not unique",
            ".failurePolicy.rules",
        ),
        rule(
            "!has(self.failurePolicy) || !has(self.failurePolicy.restartStrategy) \
             || self.failurePolicy.restartStrategy != 'InPlaceRestart'",
            "InPlaceRestart is an alpha feature that is not there: use Recreate or BlockingRecreate",
            ".failurePolicy.restartStrategy",
        ),
    ]
}

fn of_coordinator() -> Vec<Value> {
    let here = "j.name == self.coordinator.replicatedJob";
    let index =
        |field: &str| format!("(has(self.coordinator.{field}) ? self.coordinator.{field} : 0)");
    let (job, pod) = (index("jobIndex"), index("podIndex"));
    let asked = |rule: String| format!("!has(self.coordinator) || {rule}");
    vec![
        rule(
            asked(format!(
                "(has(self.replicatedJobs) && self.replicatedJobs.exists(j, {here}))"
            )),
            "must name a replicatedJob of the JobSet",
            ".coordinator.replicatedJob",
        ),
        rule(
            asked(format!(
                "!has(self.replicatedJobs) || self.replicatedJobs.all(j, !({here}) \
                 || ({job} >= 0 && {job} < (has(j.replicas) ? j.replicas : 1)))"
            )),
            "must be the index of a Job of the coordinator's replicatedJob",
            ".coordinator.jobIndex",
        ),
        rule(
            asked(format!(
                "!has(self.replicatedJobs) || self.replicatedJobs.all(j, !({here}) \
                 || (has(j.template.spec) && has(j.template.spec.completions) \
                 && (!has(j.template.spec.completionMode) || j.template.spec.completionMode == 'Indexed') \
                 && {pod} >= 0 && {pod} < j.template.spec.completions))"
            )),
            "must be the index of a pod of the coordinator's Job, which must be Indexed and have completions",
            ".coordinator.podIndex",
        ),
    ]
}
