//! The schemas of the built-in kinds, from the types of k8s-openapi.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use k8s_openapi::api::{
    authentication, authorization, batch, coordination, core, discovery, events, policy, rbac,
    scheduling, storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value};

use super::KindInfo;
use crate::schema::{Definitions, Structural};

type Generate = fn(&mut SchemaGenerator) -> Schema;

/// The compiled schema of a kind; made when first asked for.
pub(super) fn structural(info: &KindInfo) -> Option<Structural> {
    static COMPILED: LazyLock<RwLock<HashMap<(&str, &str), Structural>>> =
        LazyLock::new(RwLock::default);
    static SHARED: LazyLock<RwLock<Definitions>> = LazyLock::new(RwLock::default);

    let key = (info.group, info.kind);
    let compiled = COMPILED.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = compiled.get(&key) {
        return Some(found.clone());
    }
    drop(compiled);
    let (schema, definitions) = raw(info)?;
    let mut shared = SHARED.write().unwrap_or_else(PoisonError::into_inner);
    shared.raw = definitions;
    let made = Structural::from_definitions(&schema, &mut shared);
    shared.raw = Map::new();
    let mut compiled = COMPILED.write().unwrap_or_else(PoisonError::into_inner);
    compiled.insert(key, made.clone());
    Some(made)
}

/// The JSON schema of a kind and the definitions that it refers to, descriptions included.
pub(crate) fn raw(info: &KindInfo) -> Option<(Value, Map<String, Value>)> {
    let generate = generator(info)?;
    let mut generator = SchemaGenerator::default();
    let schema = generate(&mut generator).to_value();
    Some((schema, generator.take_definitions(false)))
}

fn generator(info: &KindInfo) -> Option<Generate> {
    Some(match (info.group, info.kind) {
        ("", "ConfigMap") => SchemaGenerator::subschema_for::<core::v1::ConfigMap>,
        ("", "Endpoints") => SchemaGenerator::subschema_for::<core::v1::Endpoints>,
        ("", "Event") => SchemaGenerator::subschema_for::<core::v1::Event>,
        ("", "LimitRange") => SchemaGenerator::subschema_for::<core::v1::LimitRange>,
        ("", "Namespace") => SchemaGenerator::subschema_for::<core::v1::Namespace>,
        ("", "Node") => SchemaGenerator::subschema_for::<core::v1::Node>,
        ("", "PersistentVolumeClaim") => {
            SchemaGenerator::subschema_for::<core::v1::PersistentVolumeClaim>
        }
        ("", "PersistentVolume") => SchemaGenerator::subschema_for::<core::v1::PersistentVolume>,
        ("", "Pod") => SchemaGenerator::subschema_for::<core::v1::Pod>,
        ("", "PodTemplate") => SchemaGenerator::subschema_for::<core::v1::PodTemplate>,
        ("", "ResourceQuota") => SchemaGenerator::subschema_for::<core::v1::ResourceQuota>,
        ("", "Secret") => SchemaGenerator::subschema_for::<core::v1::Secret>,
        ("", "Service") => SchemaGenerator::subschema_for::<core::v1::Service>,
        ("", "ServiceAccount") => SchemaGenerator::subschema_for::<core::v1::ServiceAccount>,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            SchemaGenerator::subschema_for::<apiextensions::v1::CustomResourceDefinition>
        }
        ("authentication.k8s.io", "SelfSubjectReview") => {
            SchemaGenerator::subschema_for::<authentication::v1::SelfSubjectReview>
        }
        ("authentication.k8s.io", "TokenReview") => {
            SchemaGenerator::subschema_for::<authentication::v1::TokenReview>
        }
        ("authorization.k8s.io", "LocalSubjectAccessReview") => {
            SchemaGenerator::subschema_for::<authorization::v1::LocalSubjectAccessReview>
        }
        ("authorization.k8s.io", "SelfSubjectAccessReview") => {
            SchemaGenerator::subschema_for::<authorization::v1::SelfSubjectAccessReview>
        }
        ("authorization.k8s.io", "SelfSubjectRulesReview") => {
            SchemaGenerator::subschema_for::<authorization::v1::SelfSubjectRulesReview>
        }
        ("authorization.k8s.io", "SubjectAccessReview") => {
            SchemaGenerator::subschema_for::<authorization::v1::SubjectAccessReview>
        }
        ("batch", "Job") => SchemaGenerator::subschema_for::<batch::v1::Job>,
        ("coordination.k8s.io", "Lease") => {
            SchemaGenerator::subschema_for::<coordination::v1::Lease>
        }
        ("discovery.k8s.io", "EndpointSlice") => {
            SchemaGenerator::subschema_for::<discovery::v1::EndpointSlice>
        }
        ("events.k8s.io", "Event") => SchemaGenerator::subschema_for::<events::v1::Event>,
        ("policy", "PodDisruptionBudget") => {
            SchemaGenerator::subschema_for::<policy::v1::PodDisruptionBudget>
        }
        ("rbac.authorization.k8s.io", "ClusterRole") => {
            SchemaGenerator::subschema_for::<rbac::v1::ClusterRole>
        }
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => {
            SchemaGenerator::subschema_for::<rbac::v1::ClusterRoleBinding>
        }
        ("rbac.authorization.k8s.io", "Role") => SchemaGenerator::subschema_for::<rbac::v1::Role>,
        ("rbac.authorization.k8s.io", "RoleBinding") => {
            SchemaGenerator::subschema_for::<rbac::v1::RoleBinding>
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            SchemaGenerator::subschema_for::<scheduling::v1::PriorityClass>
        }
        ("storage.k8s.io", "StorageClass") => {
            SchemaGenerator::subschema_for::<storage::v1::StorageClass>
        }
        _ => return None,
    })
}
