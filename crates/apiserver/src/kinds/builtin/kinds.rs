//! The table of built-in kinds: all that sets them apart, one row each.

use k8s_openapi::api::{
    authentication, authorization, batch, coordination, core, discovery, events, policy, rbac,
    scheduling, storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope, Resource};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::{defaults, validate};
use crate::admission::{cluster_ip, limit_range, pod};
use crate::auth::escalation;
use crate::kinds::conversion;
use crate::kinds::registry::crd;
use crate::kinds::strategy::{Names, PLAIN, Strategy};
use crate::kinds::table::{self, Printer};
use crate::status::Result;
use crate::verbs::call::Call;
use crate::verbs::reviews;

/// One built-in kind as discovery, routing and admission need it.
#[derive(Debug)]
pub struct KindInfo {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub namespaced: bool,
    pub verbs: &'static [&'static str],
    pub subresources: &'static [Subresource],
    pub(crate) schema: fn(&mut SchemaGenerator) -> Schema,
    pub(crate) columns: Printer,
    pub(crate) strategy: Strategy,
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
        self.strategy.review.is_none()
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
pub(crate) fn find(group: &str, kind: &str) -> Option<&'static KindInfo> {
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
const CONNECT: &[&str] = &["create", "get"];

trait Scope {
    const NAMESPACED: bool;
}

impl Scope for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl Scope for ClusterResourceScope {
    const NAMESPACED: bool = false;
}

/// A kind with nothing special to it.
const fn kind<T: Resource<Scope: Scope> + JsonSchema>() -> KindInfo {
    KindInfo {
        group: T::GROUP,
        version: T::VERSION,
        kind: T::KIND,
        plural: T::URL_PATH_SEGMENT,
        short_names: &[],
        categories: &[],
        namespaced: T::Scope::NAMESPACED,
        verbs: ALL,
        subresources: &[],
        schema: SchemaGenerator::subschema_for::<T>,
        columns: table::PLAIN,
        strategy: PLAIN,
    }
}

/// A kind whose objects are questions.
const fn review<T: Resource<Scope: Scope> + JsonSchema>(
    review: fn(&Call, &Value) -> Result<Value>,
) -> KindInfo {
    KindInfo {
        verbs: CREATE,
        strategy: Strategy {
            review: Some(review),
            ..PLAIN
        },
        ..kind::<T>()
    }
}

const fn status<T: Resource>() -> Subresource {
    Subresource {
        name: "status",
        group: T::GROUP,
        version: T::VERSION,
        kind: T::KIND,
        verbs: &["get", "patch", "update"],
    }
}

const fn sub(
    name: &'static str,
    (group, version, kind): (&'static str, &'static str, &'static str),
    verbs: &'static [&'static str],
) -> Subresource {
    Subresource {
        name,
        group,
        version,
        kind,
        verbs,
    }
}

#[rustfmt::skip]
static KINDS: &[KindInfo] = &[
    KindInfo { short_names: &["cm"], columns: table::CONFIG_MAP,
        strategy: Strategy { validate: validate::config_map, ..PLAIN }, ..kind::<core::v1::ConfigMap>() },
    KindInfo { short_names: &["ep"], columns: table::network::ENDPOINTS,
        strategy: Strategy { default: defaults::endpoints, ..PLAIN }, ..kind::<core::v1::Endpoints>() },
    KindInfo { short_names: &["ev"], columns: table::event::PRINTER,
        strategy: Strategy { default: |event, _| defaults::set_top(event, "type", "Normal"), ..PLAIN },
        ..kind::<core::v1::Event>() },
    KindInfo { short_names: &["limits"], columns: table::CREATED,
        strategy: Strategy { default: defaults::limit_range, ..PLAIN }, ..kind::<core::v1::LimitRange>() },
    KindInfo { short_names: &["ns"], verbs: NO_COLLECTION, columns: table::NAMESPACE,
        subresources: &[sub("finalize", ("", "v1", "Namespace"), &["update"]), status::<core::v1::Namespace>()],
        strategy: Strategy {
            names: Names::Labels, default: defaults::namespace,
            is_in_use: |namespace| namespace["spec"]["finalizers"].as_array().is_some_and(|all| !all.is_empty()),
            terminate: |namespace| namespace["status"]["phase"] = json!("Terminating"), ..PLAIN
        }, ..kind::<core::v1::Namespace>() },
    KindInfo { short_names: &["no"], columns: table::node::PRINTER,
        subresources: &[
            sub("proxy", ("", "v1", "NodeProxyOptions"), &["create", "delete", "get", "patch", "update"]),
            status::<core::v1::Node>(),
        ], ..kind::<core::v1::Node>() },
    KindInfo { short_names: &["pvc"], columns: table::storage::CLAIM,
        subresources: &[status::<core::v1::PersistentVolumeClaim>()],
        strategy: Strategy {
            delete_answers_object: true, default: defaults::claim, validate: validate::claim,
            check: limit_range::admit_claim, ..PLAIN
        }, ..kind::<core::v1::PersistentVolumeClaim>() },
    KindInfo { short_names: &["pv"], columns: table::storage::VOLUME,
        subresources: &[status::<core::v1::PersistentVolume>()],
        strategy: Strategy { delete_answers_object: true, default: defaults::volume, ..PLAIN },
        ..kind::<core::v1::PersistentVolume>() },
    KindInfo { short_names: &["po"], categories: &["all"], columns: table::pod::PRINTER,
        subresources: &[
            sub("attach", ("", "v1", "PodAttachOptions"), CONNECT),
            sub("binding", ("", "v1", "Binding"), CREATE),
            sub("eviction", ("policy", "v1", "Eviction"), CREATE),
            sub("exec", ("", "v1", "PodExecOptions"), CONNECT), sub("log", ("", "v1", "Pod"), &["get"]),
            sub("portforward", ("", "v1", "PodPortForwardOptions"), CONNECT), status::<core::v1::Pod>(),
        ],
        strategy: Strategy {
            counts_generations: true, delete_answers_object: true, prepare: pod::prepare,
            default: defaults::pod, validate: validate::pod, check: limit_range::admit_pod,
            grace_period: pod::grace_period, ..PLAIN
        }, ..kind::<core::v1::Pod>() },
    KindInfo {
        strategy: Strategy {
            delete_answers_object: true, default: defaults::pod_template, validate: validate::pod_template,
            ..PLAIN
        }, ..kind::<core::v1::PodTemplate>() },
    KindInfo { short_names: &["quota"], columns: table::policy::QUOTA,
        subresources: &[status::<core::v1::ResourceQuota>()],
        strategy: Strategy { delete_answers_object: true, ..PLAIN }, ..kind::<core::v1::ResourceQuota>() },
    KindInfo { columns: table::SECRET,
        strategy: Strategy { default: defaults::secret, validate: validate::secret, ..PLAIN },
        ..kind::<core::v1::Secret>() },
    KindInfo { short_names: &["sa"], columns: table::SERVICE_ACCOUNT,
        subresources: &[sub("token", ("authentication.k8s.io", "v1", "TokenRequest"), CREATE)],
        strategy: Strategy { delete_answers_object: true, ..PLAIN }, ..kind::<core::v1::ServiceAccount>() },
    KindInfo { short_names: &["svc"], categories: &["all"], columns: table::network::SERVICE,
        subresources: &[status::<core::v1::Service>()],
        strategy: Strategy {
            names: Names::Hosts, delete_answers_object: true,
            takes_turns: Some(|service| service["spec"]["clusterIP"] != "None"), prepare: cluster_ip::assign,
            default: defaults::service, validate: validate::service, ..PLAIN
        }, ..kind::<core::v1::Service>() },
    KindInfo { short_names: &["crd", "crds"], categories: &["api-extensions"], columns: table::CREATED,
        subresources: &[status::<apiextensions::v1::CustomResourceDefinition>()],
        strategy: Strategy {
            counts_generations: true, default: |definition, _| crd::default(definition),
            validate: crd::validate, finish: crd::finish, finalizer: crd::finalizer, ..PLAIN
        }, ..kind::<apiextensions::v1::CustomResourceDefinition>() },
    review::<authentication::v1::SelfSubjectReview>(|call, _| Ok(reviews::own_identity(call))),
    review::<authentication::v1::TokenReview>(|call, spec| Ok(reviews::token(call, spec))),
    review::<authorization::v1::LocalSubjectAccessReview>(reviews::local_access),
    review::<authorization::v1::SelfSubjectAccessReview>(reviews::own_access),
    review::<authorization::v1::SelfSubjectRulesReview>(|call, spec| Ok(reviews::own_rules(call, spec))),
    review::<authorization::v1::SubjectAccessReview>(reviews::access),
    // Kubernetes promised this to the users of `batch/v1`.
    KindInfo { categories: &["all"], columns: table::job::PRINTER, subresources: &[status::<batch::v1::Job>()],
        strategy: Strategy {
            counts_generations: true, drops_status: true, orphans: true, default: defaults::job,
            validate: validate::job, ..PLAIN
        }, ..kind::<batch::v1::Job>() },
    KindInfo { columns: table::LEASE, ..kind::<coordination::v1::Lease>() },
    KindInfo { columns: table::network::SLICE, strategy: Strategy { counts_generations: true, ..PLAIN },
        ..kind::<discovery::v1::EndpointSlice>() },
    KindInfo { short_names: &["ev"], columns: table::event::PRINTER,
        strategy: Strategy { stored_as: Some(&conversion::EVENTS), ..PLAIN }, ..kind::<events::v1::Event>() },
    KindInfo { short_names: &["pdb"], columns: table::policy::BUDGET,
        subresources: &[status::<policy::v1::PodDisruptionBudget>()],
        strategy: Strategy { counts_generations: true, validate: validate::budget, ..PLAIN },
        ..kind::<policy::v1::PodDisruptionBudget>() },
    KindInfo { columns: table::rbac::BINDING, strategy: BINDING, ..kind::<rbac::v1::ClusterRoleBinding>() },
    KindInfo { columns: table::CREATED, strategy: ROLE, ..kind::<rbac::v1::ClusterRole>() },
    KindInfo { columns: table::rbac::BINDING, strategy: BINDING, ..kind::<rbac::v1::RoleBinding>() },
    KindInfo { columns: table::CREATED, strategy: ROLE, ..kind::<rbac::v1::Role>() },
    KindInfo { short_names: &["pc"], columns: table::policy::PRIORITY,
        strategy: Strategy {
            default: |class, _| { defaults::set_top(class, "preemptionPolicy", "PreemptLowerPriority"); },
            validate: validate::priority_class, ..PLAIN
        }, ..kind::<scheduling::v1::PriorityClass>() },
    KindInfo { short_names: &["sc"], columns: table::storage::CLASS,
        strategy: Strategy { delete_answers_object: true, default: defaults::storage_class, ..PLAIN },
        ..kind::<storage::v1::StorageClass>() },
];

const ROLE: Strategy = Strategy {
    names: Names::Segments,
    check: escalation::check_role,
    ..PLAIN
};

const BINDING: Strategy = Strategy {
    names: Names::Segments,
    default: defaults::role_binding,
    validate: validate::role_binding,
    check: escalation::check_binding,
    ..PLAIN
};
