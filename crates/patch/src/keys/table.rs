//! The merge rules of Kubernetes' own types, as their Go structs declare them.
//!
//! Only fields are listed whose rule is not the default, and those on the way to one.

use std::borrow::Cow;

use super::{Child, Keys, List, Strategy};

/// The rules of a built-in kind; of plain object metadata for any other.
pub(super) fn find(group: &str, kind: &str) -> &'static Keys {
    match (group, kind) {
        ("", "Pod") => &POD,
        ("", "PodTemplate") => &POD_TEMPLATE_OBJECT,
        ("", "Service") => &SERVICE,
        ("", "ServiceAccount") => &SERVICE_ACCOUNT,
        ("", "Node") => &NODE,
        ("", "Namespace") => &NAMESPACE,
        ("", "PersistentVolumeClaim") => &VOLUME_CLAIM,
        ("", "PersistentVolume") => &VOLUME,
        ("", "ResourceQuota") => &RESOURCE_QUOTA,
        ("", "Event") => &EVENT,
        ("batch", "Job") => &JOB,
        ("discovery.k8s.io", "EndpointSlice") => &ENDPOINT_SLICE,
        ("events.k8s.io", "Event") => &NEW_EVENT,
        ("policy", "PodDisruptionBudget") => &DISRUPTION_BUDGET,
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => &ROLE_BINDING,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => &DEFINITION,
        _ => &OBJECT,
    }
}

const fn at(name: &'static str, keys: &'static Keys) -> (Cow<'static, str>, Child) {
    (Cow::Borrowed(name), Child::Static(keys))
}

const fn node(list: List, strategy: Strategy, items: Option<Child>, atomic: bool) -> Keys {
    Keys {
        fields: Cow::Borrowed(&[]),
        items,
        list,
        strategy,
        atomic,
    }
}

/// A list of maps with the same (first) key in both worlds.
const fn by(keys: &'static [Cow<'static, str>], items: &'static Keys) -> Keys {
    let first = match &keys[0] {
        Cow::Borrowed(first) => first,
        Cow::Owned(_) => "",
    };
    let items = Some(Child::Static(items));
    node(
        List::Map(Cow::Borrowed(keys)),
        Strategy::MergeBy(Cow::Borrowed(first)),
        items,
        false,
    )
}

/// A list that strategic merge patch merges by key and server-side apply replaces.
const fn patched_by(key: &'static str) -> Keys {
    node(
        List::Atomic,
        Strategy::MergeBy(Cow::Borrowed(key)),
        None,
        false,
    )
}

/// A list that server-side apply merges by key and strategic merge patch replaces.
const fn applied_by(keys: &'static [Cow<'static, str>]) -> Keys {
    node(
        List::Map(Cow::Borrowed(keys)),
        Strategy::Default,
        None,
        false,
    )
}

macro_rules! keys {
    ($($name:literal),+) => {{
        const KEYS: &[Cow<'static, str>] = &[$(Cow::Borrowed($name)),+];
        KEYS
    }};
}

macro_rules! table {
    ($($(#[$doc:meta])* $name:ident = { $($field:literal: $child:expr),* $(,)? };)*) => {
        $($(#[$doc])* pub(super) static $name: Keys = {
            static FIELDS: &[(Cow<'static, str>, Child)] = &[$(at($field, &$child)),*];
            Keys::fields(FIELDS)
        };)*
    };
}

static PLAIN: Keys = Keys::fields(&[]);
/// A map that server-side apply owns as one: selectors and references.
static ATOMIC: Keys = node(List::Atomic, Strategy::Default, None, true);
static REPLACED: Keys = node(List::Atomic, Strategy::Replace, None, true);
static SET: Keys = node(List::Set, Strategy::Default, None, false);
/// Finalizers and the like: a set, to which a strategic patch adds.
static MERGED_SET: Keys = node(List::Set, Strategy::MergeScalars, None, false);
static ADDRESSES: Keys = by(keys!["ip"], &PLAIN);
static APPLIED_BY_NAME: Keys = applied_by(keys!["name"]);
static APPLIED_BY_TYPE: Keys = applied_by(keys!["type"]);
static BY_NAME: Keys = by(keys!["name"], &PLAIN);
static BY_TYPE: Keys = by(keys!["type"], &PLAIN);
static CONTAINERS: Keys = by(keys!["name"], &CONTAINER);
static CONTAINER_PORTS: Keys = by(keys!["containerPort", "protocol"], &PLAIN);
static DEVICES: Keys = by(keys!["devicePath"], &PLAIN);
static ENV: Keys = by(keys!["name"], &ENV_VAR);
static MOUNTS: Keys = by(keys!["mountPath"], &VOLUME_MOUNT);
static OWNERS: Keys = by(keys!["uid"], &ATOMIC);
static PATCHED_BY_IP: Keys = patched_by("ip");
static PATCHED_BY_TYPE: Keys = patched_by("type");
static REFERENCES_BY_NAME: Keys = by(keys!["name"], &ATOMIC);
static REPLICATED_JOBS: Keys = by(keys!["name"], &REPLICATED_JOB);
static SERVICE_PORTS: Keys = by(keys!["port", "protocol"], &PLAIN);
static SPREAD: Keys = by(keys!["topologyKey", "whenUnsatisfiable"], &SPREAD_ITEM);
static VOLUMES: Keys = by(keys!["name"], &VOLUME_SOURCE);

table! {
    OBJECT_META = {
        "finalizers": MERGED_SET,
        "ownerReferences": OWNERS,
    };
    OBJECT = { "metadata": OBJECT_META };

    POD = { "metadata": OBJECT_META, "spec": POD_SPEC, "status": POD_STATUS };
    POD_TEMPLATE = { "metadata": OBJECT_META, "spec": POD_SPEC };
    POD_TEMPLATE_OBJECT = { "metadata": OBJECT_META, "template": POD_TEMPLATE };
    POD_SPEC = {
        "affinity": AFFINITY,
        "containers": CONTAINERS,
        "ephemeralContainers": CONTAINERS,
        "evictionResponders": REFERENCES_BY_NAME,
        "hostAliases": ADDRESSES,
        "imagePullSecrets": REFERENCES_BY_NAME,
        "initContainers": CONTAINERS,
        "nodeSelector": ATOMIC,
        "resourceClaims": BY_NAME,
        "resources": RESOURCES,
        "schedulingGates": BY_NAME,
        "topologySpreadConstraints": SPREAD,
        "volumes": VOLUMES,
    };
    CONTAINER = {
        "env": ENV,
        "ports": CONTAINER_PORTS,
        "resources": RESOURCES,
        "volumeDevices": DEVICES,
        "volumeMounts": MOUNTS,
    };
    VOLUME_MOUNT = { "bindMountOptions": SET };
    ENV_VAR = { "valueFrom": ENV_SOURCE };
    ENV_SOURCE = {
        "configMapKeyRef": ATOMIC,
        "fieldRef": ATOMIC,
        "fileKeyRef": ATOMIC,
        "resourceFieldRef": ATOMIC,
        "secretKeyRef": ATOMIC,
    };
    RESOURCES = { "claims": APPLIED_BY_NAME };
    AFFINITY = { "nodeAffinity": NODE_AFFINITY };
    NODE_AFFINITY = { "requiredDuringSchedulingIgnoredDuringExecution": ATOMIC };
    SPREAD_ITEM = { "labelSelector": ATOMIC };
    VOLUME_SOURCE = {
        "cephfs": SECRET_REFERENCE,
        "csi": CSI_SOURCE,
        "ephemeral": EPHEMERAL_SOURCE,
        "flexVolume": SECRET_REFERENCE,
        "iscsi": SECRET_REFERENCE,
        "rbd": SECRET_REFERENCE,
        "scaleIO": SECRET_REFERENCE,
        "storageos": SECRET_REFERENCE,
    };
    SECRET_REFERENCE = { "secretRef": ATOMIC };
    CSI_SOURCE = { "nodePublishSecretRef": ATOMIC };
    EPHEMERAL_SOURCE = { "volumeClaimTemplate": VOLUME_CLAIM };
    POD_STATUS = {
        "conditions": BY_TYPE,
        "hostIPs": PATCHED_BY_IP,
        "podIPs": ADDRESSES,
        "resourceClaimStatuses": BY_NAME,
    };

    JOB = { "metadata": OBJECT_META, "spec": JOB_SPEC, "status": JOB_STATUS };
    JOB_TEMPLATE = { "metadata": OBJECT_META, "spec": JOB_SPEC };
    JOB_SPEC = { "selector": ATOMIC, "template": POD_TEMPLATE };
    JOB_STATUS = {
        "conditions": PATCHED_BY_TYPE,
        "uncountedTerminatedPods": UNCOUNTED,
    };
    UNCOUNTED = { "failed": SET, "succeeded": SET };

    JOB_SET_SPEC = { "replicatedJobs": REPLICATED_JOBS };
    REPLICATED_JOB = {
        "dependsOn": APPLIED_BY_NAME,
        "template": JOB_TEMPLATE,
    };

    SERVICE = { "metadata": OBJECT_META, "spec": SERVICE_SPEC, "status": WITH_CONDITIONS };
    SERVICE_SPEC = { "ports": SERVICE_PORTS, "selector": ATOMIC };
    SERVICE_ACCOUNT = { "metadata": OBJECT_META, "secrets": REFERENCES_BY_NAME };
    WITH_CONDITIONS = { "conditions": BY_TYPE };
    NODE = { "metadata": OBJECT_META, "spec": NODE_SPEC, "status": NODE_STATUS };
    NODE_SPEC = { "podCIDRs": MERGED_SET };
    NODE_STATUS = { "addresses": BY_TYPE, "conditions": BY_TYPE };
    NAMESPACE = { "metadata": OBJECT_META, "status": WITH_CONDITIONS };
    VOLUME_CLAIM = {
        "metadata": OBJECT_META,
        "spec": VOLUME_CLAIM_SPEC,
        "status": WITH_CONDITIONS,
    };
    VOLUME_CLAIM_SPEC = { "dataSource": ATOMIC, "selector": ATOMIC };
    VOLUME = { "metadata": OBJECT_META };
    RESOURCE_QUOTA = { "metadata": OBJECT_META, "spec": RESOURCE_QUOTA_SPEC };
    RESOURCE_QUOTA_SPEC = { "scopeSelector": ATOMIC };
    EVENT = { "metadata": OBJECT_META, "involvedObject": ATOMIC, "related": ATOMIC };
    NEW_EVENT = { "metadata": OBJECT_META, "regarding": ATOMIC, "related": ATOMIC };
    ENDPOINT_SLICE = { "metadata": OBJECT_META };
    DISRUPTION_BUDGET = {
        "metadata": OBJECT_META,
        "spec": DISRUPTION_BUDGET_SPEC,
        "status": WITH_CONDITIONS,
    };
    DISRUPTION_BUDGET_SPEC = { "selector": REPLACED };
    ROLE_BINDING = { "metadata": OBJECT_META, "roleRef": ATOMIC };
    DEFINITION = {
        "metadata": OBJECT_META,
        "status": DEFINITION_STATUS,
    };
    DEFINITION_STATUS = { "conditions": APPLIED_BY_TYPE };
}
