//! The objects that clients expect to exist in any cluster.

mod rbac;

use serde_json::{Value, json};

use crate::kinds::metadata;
use crate::server::Core;
use crate::status::Result;
use crate::store::{Name, Object};
use crate::verbs::commit::{Key, commit, edit};

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// The ConfigMap in every namespace with the certificate that this server is known by.
pub(crate) const AUTHORITY: &str = "kube-root-ca.crt";

/// Creates what is missing; what is there stays as it is.
pub(crate) async fn run(core: &Core) -> Result<()> {
    // Written together, so that a first start waits for the disk once and not thirty times.
    let namespaces = NAMESPACES.map(|name| ensure(core, "namespaces", "", name, namespace(name)));
    futures::future::try_join_all(namespaces).await?;
    let roles = rbac::cluster_roles().into_iter().map(|(name, role)| {
        ensure(
            core,
            "clusterroles.rbac.authorization.k8s.io",
            "",
            name,
            role,
        )
    });
    let bindings = rbac::bindings().into_iter().map(|(name, binding)| {
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
    edit(core, &"configmaps".into(), &name, restore)
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

/// Creates an object unless one of its name exists.
pub(crate) async fn ensure(
    core: &Core,
    resource: &str,
    namespace: &str,
    name: &str,
    mut object: Value,
) -> Result<()> {
    let fields = metadata::of(&mut object);
    fields.insert("name".to_owned(), name.into());
    if !namespace.is_empty() {
        fields.insert("namespace".to_owned(), namespace.into());
    }
    fields.insert("uid".to_owned(), metadata::new_uid().into());
    fields.insert("creationTimestamp".to_owned(), core.now().into());
    let key = Key {
        resource: &resource.into(),
        name: &Name::new(namespace, name),
        kind: None,
    };
    let decide = |current: Option<&Object>| {
        let missing = current.is_none().then_some(&object);
        Ok((key.decision(missing), ()))
    };
    commit(&core.store, key, false, decide).await.map(drop)
}
