//! The table of built-in kinds: what discovery says about each of them.

/// One built-in kind as discovery, routing and admission need it.
#[derive(Debug)]
pub struct KindInfo {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub list_kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub namespaced: bool,
    pub verbs: &'static [&'static str],
    pub subresources: &'static [Subresource],
}

/// A path below an object, and the kind that is sent to or answered by it.
#[derive(Debug)]
pub struct Subresource {
    pub name: &'static str,
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub verbs: &'static [&'static str],
}

impl KindInfo {
    /// `v1` or `batch/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether objects of this kind are stored; the reviews are answered and forgotten.
    pub fn is_stored(&self) -> bool {
        self.verbs.contains(&"get")
    }

    pub fn has_subresource(&self, name: &str) -> bool {
        self.subresources.iter().any(|one| one.name == name)
    }
}

/// All built-in kinds, in the order in which discovery lists them.
pub fn kinds() -> &'static [KindInfo] {
    KINDS
}

/// The built-in kind of that group and kind name.
pub fn find(group: &str, kind: &str) -> Option<&'static KindInfo> {
    KINDS
        .iter()
        .find(|info| info.group == group && info.kind == kind)
}

const ALL: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
const NO_COLLECTION: &[&str] = &[
    "create", "delete", "get", "list", "patch", "update", "watch",
];
const CREATE: &[&str] = &["create"];
const STATUS: &[&str] = &["get", "patch", "update"];

/// `kind!(group, version, Kind, plural, singular, short names, scope; verbs; subresources…)`.
macro_rules! kind {
    ($group:literal $version:literal $kind:literal $plural:literal $singular:literal
     $short:expr, $scope:ident, $verbs:expr, $categories:expr, $subresources:expr) => {
        KindInfo {
            group: $group,
            version: $version,
            kind: $kind,
            list_kind: concat!($kind, "List"),
            plural: $plural,
            singular: $singular,
            short_names: $short,
            categories: $categories,
            namespaced: scope!($scope),
            verbs: $verbs,
            subresources: $subresources,
        }
    };
}

macro_rules! scope {
    (Namespaced) => {
        true
    };
    (Cluster) => {
        false
    };
}

const fn own(name: &'static str, of: (&'static str, &'static str, &'static str)) -> Subresource {
    Subresource {
        name,
        group: of.0,
        version: of.1,
        kind: of.2,
        verbs: STATUS,
    }
}

const fn sub(
    name: &'static str,
    of: (&'static str, &'static str, &'static str),
    verbs: &'static [&'static str],
) -> Subresource {
    Subresource {
        name,
        group: of.0,
        version: of.1,
        kind: of.2,
        verbs,
    }
}

const POD: (&str, &str, &str) = ("", "v1", "Pod");
const NODE: (&str, &str, &str) = ("", "v1", "Node");
const NAMESPACE: (&str, &str, &str) = ("", "v1", "Namespace");
const NONE: &[&str] = &[];
const CATEGORY_ALL: &[&str] = &["all"];

#[rustfmt::skip]
static KINDS: &[KindInfo] = &[
    kind!("" "v1" "ConfigMap" "configmaps" "configmap" &["cm"], Namespaced, ALL, NONE, &[]),
    kind!("" "v1" "Endpoints" "endpoints" "endpoints" &["ep"], Namespaced, ALL, NONE, &[]),
    kind!("" "v1" "Event" "events" "event" &["ev"], Namespaced, ALL, NONE, &[]),
    kind!("" "v1" "LimitRange" "limitranges" "limitrange" &["limits"], Namespaced, ALL, NONE, &[]),
    kind!("" "v1" "Namespace" "namespaces" "namespace" &["ns"], Cluster, NO_COLLECTION, NONE, &[
        sub("finalize", NAMESPACE, &["update"]),
        own("status", NAMESPACE),
    ]),
    kind!("" "v1" "Node" "nodes" "node" &["no"], Cluster, ALL, NONE, &[
        sub("proxy", ("", "v1", "NodeProxyOptions"), &["create", "delete", "get", "patch", "update"]),
        own("status", NODE),
    ]),
    kind!("" "v1" "PersistentVolumeClaim" "persistentvolumeclaims" "persistentvolumeclaim" &["pvc"], Namespaced, ALL, NONE, &[
        own("status", ("", "v1", "PersistentVolumeClaim")),
    ]),
    kind!("" "v1" "PersistentVolume" "persistentvolumes" "persistentvolume" &["pv"], Cluster, ALL, NONE, &[
        own("status", ("", "v1", "PersistentVolume")),
    ]),
    kind!("" "v1" "Pod" "pods" "pod" &["po"], Namespaced, ALL, CATEGORY_ALL, &[
        sub("attach", ("", "v1", "PodAttachOptions"), &["create", "get"]),
        sub("binding", ("", "v1", "Binding"), CREATE),
        sub("eviction", ("policy", "v1", "Eviction"), CREATE),
        sub("exec", ("", "v1", "PodExecOptions"), &["create", "get"]),
        sub("log", POD, &["get"]),
        sub("portforward", ("", "v1", "PodPortForwardOptions"), &["create", "get"]),
        own("status", POD),
    ]),
    kind!("" "v1" "PodTemplate" "podtemplates" "podtemplate" &[], Namespaced, ALL, NONE, &[]),
    kind!("" "v1" "ResourceQuota" "resourcequotas" "resourcequota" &["quota"], Namespaced, ALL, NONE, &[
        own("status", ("", "v1", "ResourceQuota")),
    ]),
    kind!("" "v1" "Secret" "secrets" "secret" &[], Namespaced, ALL, NONE, &[]),
    kind!("" "v1" "ServiceAccount" "serviceaccounts" "serviceaccount" &["sa"], Namespaced, ALL, NONE, &[
        sub("token", ("authentication.k8s.io", "v1", "TokenRequest"), CREATE),
    ]),
    kind!("" "v1" "Service" "services" "service" &["svc"], Namespaced, ALL, CATEGORY_ALL, &[
        own("status", ("", "v1", "Service")),
    ]),
    kind!("apiextensions.k8s.io" "v1" "CustomResourceDefinition" "customresourcedefinitions" "customresourcedefinition" &["crd", "crds"], Cluster, ALL, &["api-extensions"], &[
        own("status", ("apiextensions.k8s.io", "v1", "CustomResourceDefinition")),
    ]),
    kind!("authentication.k8s.io" "v1" "SelfSubjectReview" "selfsubjectreviews" "selfsubjectreview" &[], Cluster, CREATE, NONE, &[]),
    kind!("authentication.k8s.io" "v1" "TokenReview" "tokenreviews" "tokenreview" &[], Cluster, CREATE, NONE, &[]),
    kind!("authorization.k8s.io" "v1" "LocalSubjectAccessReview" "localsubjectaccessreviews" "localsubjectaccessreview" &[], Namespaced, CREATE, NONE, &[]),
    kind!("authorization.k8s.io" "v1" "SelfSubjectAccessReview" "selfsubjectaccessreviews" "selfsubjectaccessreview" &[], Cluster, CREATE, NONE, &[]),
    kind!("authorization.k8s.io" "v1" "SelfSubjectRulesReview" "selfsubjectrulesreviews" "selfsubjectrulesreview" &[], Cluster, CREATE, NONE, &[]),
    kind!("authorization.k8s.io" "v1" "SubjectAccessReview" "subjectaccessreviews" "subjectaccessreview" &[], Cluster, CREATE, NONE, &[]),
    kind!("batch" "v1" "Job" "jobs" "job" &[], Namespaced, ALL, CATEGORY_ALL, &[
        own("status", ("batch", "v1", "Job")),
    ]),
    kind!("coordination.k8s.io" "v1" "Lease" "leases" "lease" &[], Namespaced, ALL, NONE, &[]),
    kind!("discovery.k8s.io" "v1" "EndpointSlice" "endpointslices" "endpointslice" &[], Namespaced, ALL, NONE, &[]),
    kind!("events.k8s.io" "v1" "Event" "events" "event" &["ev"], Namespaced, ALL, NONE, &[]),
    kind!("policy" "v1" "PodDisruptionBudget" "poddisruptionbudgets" "poddisruptionbudget" &["pdb"], Namespaced, ALL, NONE, &[
        own("status", ("policy", "v1", "PodDisruptionBudget")),
    ]),
    kind!("rbac.authorization.k8s.io" "v1" "ClusterRoleBinding" "clusterrolebindings" "clusterrolebinding" &[], Cluster, ALL, NONE, &[]),
    kind!("rbac.authorization.k8s.io" "v1" "ClusterRole" "clusterroles" "clusterrole" &[], Cluster, ALL, NONE, &[]),
    kind!("rbac.authorization.k8s.io" "v1" "RoleBinding" "rolebindings" "rolebinding" &[], Namespaced, ALL, NONE, &[]),
    kind!("rbac.authorization.k8s.io" "v1" "Role" "roles" "role" &[], Namespaced, ALL, NONE, &[]),
    kind!("scheduling.k8s.io" "v1" "PriorityClass" "priorityclasses" "priorityclass" &["pc"], Cluster, ALL, NONE, &[]),
    kind!("storage.k8s.io" "v1" "StorageClass" "storageclasses" "storageclass" &["sc"], Cluster, ALL, NONE, &[]),
];
