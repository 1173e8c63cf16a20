//! The objects that clients expect to exist in any cluster.

use serde_json::{Value, json};

use crate::core::Core;
use crate::edit::edit;
use crate::metadata;
use crate::status::{ApiError, Result, Subject};
use crate::store::{Action, Draft, Name, Write, WriteError};

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// The ConfigMap in every namespace with the certificate that this server is known by.
pub(crate) const AUTHORITY: &str = "kube-root-ca.crt";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Creates what is missing; what is there stays as it is.
pub(crate) async fn run(core: &Core) -> Result<()> {
    // Written together, so that a first start waits for the disk once and not thirty times.
    let namespaces = NAMESPACES.map(|name| ensure(core, "namespaces", "", name, namespace(name)));
    futures::future::try_join_all(namespaces).await?;
    let roles = cluster_roles().into_iter().map(|(name, role)| {
        ensure(
            core,
            "clusterroles.rbac.authorization.k8s.io",
            "",
            name,
            role,
        )
    });
    let bindings = bindings().into_iter().map(|(name, binding)| {
        ensure(
            core,
            "clusterrolebindings.rbac.authorization.k8s.io",
            "",
            name,
            binding,
        )
    });
    let classes = [
        ("system-cluster-critical", 2_000_000_000),
        ("system-node-critical", 2_000_001_000),
    ]
    .map(|(name, value)| {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value,
            "preemptionPolicy": "PreemptLowerPriority",
        });
        ensure(core, "priorityclasses.scheduling.k8s.io", "", name, class)
    });
    let furnished = NAMESPACES.map(|namespace| furnish(core, namespace));
    tokio::try_join!(
        futures::future::try_join_all(roles),
        futures::future::try_join_all(bindings),
        futures::future::try_join_all(classes),
        futures::future::try_join_all(furnished),
    )?;
    Ok(())
}

/// What every namespace has: a service account, and the certificate of the authority.
pub(crate) async fn furnish(core: &Core, namespace: &str) -> Result<()> {
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount" });
    ensure(core, "serviceaccounts", namespace, "default", account).await?;
    let data = json!({ "ca.crt": core.authority.pem() });
    let authority = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": data });
    ensure(core, "configmaps", namespace, AUTHORITY, authority).await?;
    let restore = |object: &mut Value| object["data"] = data.clone();
    let name = Name::new(namespace, AUTHORITY);
    edit(&core.store, &"configmaps".into(), &name, restore)
        .await
        .map(drop)
}

fn namespace(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "labels": { "kubernetes.io/metadata.name": name } },
        "spec": { "finalizers": ["kubernetes"] },
        "status": { "phase": "Active" },
    })
}

/// `admin`, `edit` and `view` aggregate: further roles join them by label.
fn cluster_roles() -> Vec<(&'static str, Value)> {
    const READ: [&str; 3] = ["get", "list", "watch"];
    const WRITE: [&str; 5] = ["create", "delete", "deletecollection", "patch", "update"];
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
    let viewed = json!([
        rule(
            "",
            &[
                "bindings",
                "configmaps",
                "endpoints",
                "events",
                "limitranges",
                "namespaces",
                "namespaces/status",
                "persistentvolumeclaims",
                "persistentvolumeclaims/status",
                "pods",
                "pods/log",
                "pods/status",
                "podtemplates",
                "resourcequotas",
                "resourcequotas/status",
                "serviceaccounts",
                "services",
                "services/status",
            ],
            &READ
        ),
        rule("batch", &["jobs", "jobs/status"], &READ),
        rule("events.k8s.io", &["events"], &READ),
        rule("discovery.k8s.io", &["endpointslices"], &READ),
        rule(
            "policy",
            &["poddisruptionbudgets", "poddisruptionbudgets/status"],
            &READ
        ),
    ]);
    let edited = json!([
        rule(
            "",
            &[
                "secrets",
                "pods/attach",
                "pods/exec",
                "pods/portforward",
                "pods/proxy",
                "services/proxy"
            ],
            &READ
        ),
        rule(
            "",
            &[
                "configmaps",
                "endpoints",
                "events",
                "persistentvolumeclaims",
                "pods",
                "pods/attach",
                "pods/exec",
                "pods/portforward",
                "pods/proxy",
                "podtemplates",
                "secrets",
                "serviceaccounts",
                "services",
                "services/proxy",
            ],
            &WRITE
        ),
        rule("", &["pods/eviction", "serviceaccounts/token"], &["create"]),
        rule("batch", &["jobs"], &WRITE),
        rule("policy", &["poddisruptionbudgets"], &WRITE),
        rule("", &["serviceaccounts"], &["impersonate"]),
    ]);
    let administered = json!([
        rule(
            "authorization.k8s.io",
            &["localsubjectaccessreviews"],
            &["create"]
        ),
        rule(
            "rbac.authorization.k8s.io",
            &["roles", "rolebindings"],
            &[&READ[..], &WRITE[..]].concat()
        ),
    ]);
    let label = |name: &str| format!("rbac.authorization.k8s.io/aggregate-to-{name}");
    let part = |to: &str, rules: Value| {
        json!({
            "apiVersion": RBAC, "kind": "ClusterRole",
            "metadata": { "labels": { label(to): "true", "kubernetes.io/bootstrapping": "rbac-defaults" } },
            "rules": rules,
        })
    };
    let whole = |name: &str, joins: Option<&str>| {
        let mut labels = json!({ "kubernetes.io/bootstrapping": "rbac-defaults" });
        if let Some(joins) = joins {
            labels[label(joins)] = "true".into();
        }
        json!({
            "apiVersion": RBAC, "kind": "ClusterRole", "metadata": { "labels": labels },
            "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { label(name): "true" } }] },
            "rules": [],
        })
    };
    let plain = |rules: Value| {
        json!({
            "apiVersion": RBAC, "kind": "ClusterRole",
            "metadata": { "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" } },
            "rules": rules,
        })
    };
    let paths = |paths: &[&str]| json!([{ "nonResourceURLs": paths, "verbs": ["get"] }]);
    vec![
        (
            "cluster-admin",
            plain(json!([
                { "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] },
                { "nonResourceURLs": ["*"], "verbs": ["*"] },
            ])),
        ),
        ("admin", whole("admin", None)),
        ("edit", whole("edit", Some("admin"))),
        ("view", whole("view", Some("edit"))),
        ("system:aggregate-to-admin", part("admin", administered)),
        ("system:aggregate-to-edit", part("edit", edited)),
        ("system:aggregate-to-view", part("view", viewed)),
        (
            "system:basic-user",
            plain(json!([
                rule(
                    "authorization.k8s.io",
                    &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                    &["create"]
                ),
                rule(
                    "authentication.k8s.io",
                    &["selfsubjectreviews"],
                    &["create"]
                ),
            ])),
        ),
        (
            "system:discovery",
            plain(paths(&[
                "/api",
                "/api/*",
                "/apis",
                "/apis/*",
                "/healthz",
                "/livez",
                "/openapi",
                "/openapi/*",
                "/readyz",
                "/version",
                "/version/",
            ])),
        ),
        (
            "system:public-info-viewer",
            plain(paths(&[
                "/healthz",
                "/livez",
                "/readyz",
                "/version",
                "/version/",
            ])),
        ),
        (
            "system:monitoring",
            plain(paths(&["/healthz", "/livez", "/metrics", "/readyz"])),
        ),
    ]
}

fn bindings() -> Vec<(&'static str, Value)> {
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

/// Creates an object unless one of its name exists.
pub(crate) async fn ensure(
    core: &Core,
    resource: &str,
    namespace: &str,
    name: &str,
    mut object: Value,
) -> Result<()> {
    let key = Name::new(namespace, name);
    if core.store.get(resource, &key).is_some() {
        return Ok(());
    }
    let now = core.now();
    let fields = metadata::of(&mut object);
    fields.insert("name".to_owned(), name.into());
    if !namespace.is_empty() {
        fields.insert("namespace".to_owned(), namespace.into());
    }
    fields.insert("uid".to_owned(), metadata::new_uid().into());
    fields.insert("creationTimestamp".to_owned(), now.into());
    let draft = Draft::new(resource, &object);
    let write = Write {
        resource: resource.into(),
        name: key,
        action: Action::Create(draft),
    };
    match core.store.write(write).await {
        Ok(_) | Err(WriteError::AlreadyExists) => Ok(()),
        Err(error) => {
            let subject = Subject {
                resource: resource.to_owned(),
                name: name.to_owned(),
                group: String::new(),
            };
            Err(ApiError::from_write(error, subject, namespace))
        }
    }
}
