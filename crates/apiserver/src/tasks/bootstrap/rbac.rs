//! The roles that Kubernetes brings, and who has them.

use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const READ: &str = "get list watch";
const WRITE: &str = "create delete deletecollection patch update";
const READ_WRITE: &str = "get list watch create delete deletecollection patch update";

/// `admin`, `edit` and `view` aggregate: further roles join them by label.
pub(super) fn cluster_roles() -> Vec<(&'static str, Value)> {
    let everything = json!([
        { "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] },
        { "nonResourceURLs": ["*"], "verbs": ["*"] },
    ]);
    let own = json!([
        rule(
            "authorization.k8s.io",
            "selfsubjectaccessreviews selfsubjectrulesreviews",
            "create"
        ),
        rule("authentication.k8s.io", "selfsubjectreviews", "create"),
    ]);
    vec![
        ("cluster-admin", role(None, &everything)),
        ("admin", whole("admin", None)),
        ("edit", whole("edit", Some("admin"))),
        ("view", whole("view", Some("edit"))),
        (
            "system:aggregate-to-admin",
            role(Some("admin"), &administered()),
        ),
        ("system:aggregate-to-edit", role(Some("edit"), &edited())),
        ("system:aggregate-to-view", role(Some("view"), &viewed())),
        ("system:basic-user", role(None, &own)),
        (
            "system:discovery",
            paths(
                "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/",
            ),
        ),
        (
            "system:public-info-viewer",
            paths("/healthz /livez /readyz /version /version/"),
        ),
        (
            "system:monitoring",
            paths("/healthz /livez /metrics /readyz"),
        ),
    ]
}

fn viewed() -> Value {
    json!([
        rule(
            "",
            "bindings configmaps endpoints events limitranges namespaces namespaces/status \
             persistentvolumeclaims persistentvolumeclaims/status pods pods/log pods/status podtemplates \
             resourcequotas resourcequotas/status serviceaccounts services services/status",
            READ
        ),
        rule("batch", "jobs jobs/status", READ),
        rule("events.k8s.io", "events", READ),
        rule("discovery.k8s.io", "endpointslices", READ),
        rule(
            "policy",
            "poddisruptionbudgets poddisruptionbudgets/status",
            READ
        ),
    ])
}

fn edited() -> Value {
    json!([
        rule(
            "",
            "secrets pods/attach pods/exec pods/portforward pods/proxy services/proxy",
            READ
        ),
        rule(
            "",
            "configmaps endpoints events persistentvolumeclaims pods pods/attach pods/exec pods/portforward \
             pods/proxy podtemplates secrets serviceaccounts services services/proxy",
            WRITE
        ),
        rule("", "pods/eviction serviceaccounts/token", "create"),
        rule("batch", "jobs", WRITE),
        rule("policy", "poddisruptionbudgets", WRITE),
        rule("", "serviceaccounts", "impersonate"),
    ])
}

fn administered() -> Value {
    json!([
        rule(
            "authorization.k8s.io",
            "localsubjectaccessreviews",
            "create"
        ),
        rule(
            "rbac.authorization.k8s.io",
            "roles rolebindings",
            READ_WRITE
        ),
    ])
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

fn rule(group: &str, resources: &str, verbs: &str) -> Value {
    json!({ "apiGroups": [group], "resources": words(resources), "verbs": words(verbs) })
}

fn paths(paths: &str) -> Value {
    let rule = json!({ "nonResourceURLs": words(paths), "verbs": ["get"] });
    role(None, &json!([rule]))
}

fn label(name: &str) -> String {
    format!("rbac.authorization.k8s.io/aggregate-to-{name}")
}

/// A role, perhaps one that joins another.
fn role(joins: Option<&str>, rules: &Value) -> Value {
    let mut labels = json!({ "kubernetes.io/bootstrapping": "rbac-defaults" });
    if let Some(joins) = joins {
        labels[label(joins)] = "true".into();
    }
    json!({
        "apiVersion": RBAC, "kind": "ClusterRole", "metadata": { "labels": labels }, "rules": rules,
    })
}

/// A role that others join.
fn whole(name: &str, joins: Option<&str>) -> Value {
    let mut role = role(joins, &json!([]));
    role["aggregationRule"] =
        json!({ "clusterRoleSelectors": [{ "matchLabels": { label(name): "true" } }] });
    role
}

pub(super) fn bindings() -> Vec<(&'static str, Value)> {
    let binding = |role: &str, groups: &[&str]| {
        let subjects: Vec<_> = groups
            .iter()
            .map(|group| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group }))
            .collect();
        json!({
            "apiVersion": RBAC, "kind": "ClusterRoleBinding",
            "metadata": { "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" } },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": subjects,
        })
    };
    let everybody = ["system:authenticated", "system:unauthenticated"];
    vec![
        (
            "cluster-admin",
            binding("cluster-admin", &["system:masters"]),
        ),
        (
            "system:basic-user",
            binding("system:basic-user", &["system:authenticated"]),
        ),
        (
            "system:discovery",
            binding("system:discovery", &["system:authenticated"]),
        ),
        (
            "system:public-info-viewer",
            binding("system:public-info-viewer", &everybody),
        ),
        (
            "system:monitoring",
            binding("system:monitoring", &["system:monitoring"]),
        ),
    ]
}
