//! One kind in one version, as routing, admission, discovery and storage need it.

use std::sync::{Arc, OnceLock};

use astrago_patch::Keys;
use serde_json::{Value, json};

use crate::kinds::builtin::KindInfo;
use crate::kinds::conversion::stored_path;
use crate::kinds::metadata;
use crate::kinds::schema::Structural;
use crate::kinds::strategy::Strategy;
use crate::kinds::table::Columns;
use crate::status::Subject;
use crate::store::{Object, fields};

#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "they are Kubernetes' names")]
pub(crate) struct Kind {
    pub group: Arc<str>,
    pub version: Arc<str>,
    pub kind: Arc<str>,
    pub list_kind: String,
    pub plural: Arc<str>,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    pub subresources: Vec<Subresource>,
    /// `v1` or `group/version`.
    pub api_version: String,
    /// Where objects of this kind are stored; shared by all its versions.
    pub resource: Arc<str>,
    /// The `apiVersion` in which they are stored.
    pub storage_api_version: String,
    /// What `kubectl get` shows of it.
    pub columns: Columns,
    /// What a definition says beyond this; absent for built-in kinds.
    pub custom: Option<Box<Custom>>,
    pub builtin: Option<&'static KindInfo>,
    pub strategy: &'static Strategy,
    /// Its definition is being deleted: no new objects.
    pub terminating: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Subresource {
    pub name: String,
    pub group: String,
    pub version: String,
    pub kind: String,
    pub verbs: Vec<String>,
}

/// The parts of a definition's version that shape its objects.
///
/// Schemas are large and most are never used in a run, so they stay in the definition's JSON and are
/// compiled when the first object comes.
#[derive(Debug)]
pub(crate) struct Custom {
    pub(super) definition: Arc<Object>,
    pub(super) version: String,
    /// The definition has no other version.
    pub(super) is_alone: bool,
    pub(super) structural: OnceLock<Structural>,
    pub(super) keys: OnceLock<Keys>,
    pub scale: Option<Scale>,
    pub selectable_fields: Vec<String>,
    /// Sent as a warning with every answer when the version is deprecated.
    pub deprecation: Option<String>,
}

impl Custom {
    /// `openAPIV3Schema` as written.
    pub(crate) fn schema(&self) -> Value {
        let mut definition = self.definition.value();
        let versions = definition["spec"]["versions"].as_array_mut();
        let version = versions
            .into_iter()
            .flatten()
            .find(|one| one["name"] == *self.version);
        version
            .map(|version| version["schema"]["openAPIV3Schema"].take())
            .unwrap_or_default()
    }

    /// Whether a stored object was last written under this very schema.
    pub(crate) fn has_passed(&self, object: &Value) -> bool {
        let revision = metadata::text(object, "resourceVersion").parse::<u64>();
        self.is_alone && revision.is_ok_and(|revision| revision > self.revision())
    }

    pub(crate) fn revision(&self) -> u64 {
        self.definition.revision
    }

    pub(crate) fn structural(&self) -> &Structural {
        self.structural.get_or_init(|| {
            // Admission refuses definitions whose schema cannot be compiled.
            Structural::compile(&self.schema()).unwrap_or_else(|error| {
                tracing::error!(%error, "a stored definition cannot be compiled; its objects are not checked");
                let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
                Structural::compile(&anything).expect("a schema that allows everything compiles")
            })
        })
    }
}

/// JSON paths of the `/scale` subresource, such as `.spec.replicas`.
#[derive(Debug, Clone)]
pub(crate) struct Scale {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

impl Kind {
    pub(super) fn builtin(info: &'static KindInfo) -> Self {
        let subresources = info.subresources.iter().map(|one| Subresource {
            name: one.name.to_owned(),
            group: one.group.to_owned(),
            version: one.version.to_owned(),
            kind: one.kind.to_owned(),
            verbs: owned(one.verbs),
        });
        let (resource, storage) = match info.strategy.stored_as {
            Some(other) => (other.resource.into(), other.api_version.to_owned()),
            None => (resource(info.group, info.plural), info.api_version()),
        };
        Self {
            group: info.group.into(),
            version: info.version.into(),
            kind: info.kind.into(),
            list_kind: format!("{}List", info.kind),
            plural: info.plural.into(),
            singular: info.kind.to_lowercase(),
            short_names: owned(info.short_names),
            categories: owned(info.categories),
            namespaced: info.namespaced,
            verbs: owned(info.verbs),
            subresources: subresources.collect(),
            api_version: info.api_version(),
            resource,
            storage_api_version: storage,
            columns: Columns::builtin(&info.columns),
            custom: None,
            builtin: Some(info),
            strategy: &info.strategy,
            terminating: false,
        }
    }

    /// How its parts merge.
    pub(crate) fn keys(&self) -> &Keys {
        match &self.custom {
            Some(custom) => custom
                .keys
                .get_or_init(|| Keys::from_schema(&custom.schema())),
            None => Keys::builtin(&self.group, &self.kind),
        }
    }

    pub(crate) fn has_subresource(&self, name: &str) -> bool {
        self.subresources.iter().any(|one| one.name == name)
    }

    pub(crate) fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|one| one == verb)
    }

    /// For errors that name the plural.
    pub(crate) fn subject(&self, name: &str) -> Subject {
        Subject {
            group: self.group.to_string(),
            resource: self.plural.to_string(),
            name: name.to_owned(),
        }
    }

    /// For errors that name the kind.
    pub(crate) fn kind_subject(&self, name: &str) -> Subject {
        Subject {
            group: self.group.to_string(),
            resource: self.kind.to_string(),
            name: name.to_owned(),
        }
    }

    /// Whether a field selector may name this path.
    pub(crate) fn selectable(&self, path: &str) -> bool {
        match path {
            "metadata.name" => true,
            "metadata.namespace" => self.namespaced,
            _ => {
                let custom = self.custom.as_ref();
                let stored = stored_path(self, path);
                stored.is_some_and(|path| fields::paths(&self.resource).contains(&&*path))
                    || custom.is_some_and(|custom| {
                        custom.selectable_fields.iter().any(|one| one == path)
                    })
            }
        }
    }
}

/// `pods`, `jobs.batch`: the name of a resource across versions.
pub(crate) fn resource(group: &str, plural: &str) -> Arc<str> {
    if group.is_empty() {
        plural.into()
    } else {
        format!("{plural}.{group}").into()
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
