//! How the parts of a kind merge: which lists are atomic, sets or maps, and by which keys.
//!
//! Kubernetes says it twice. Strategic merge patch reads `patchStrategy` and `patchMergeKey` of
//! the Go structs, one key per list. Server-side apply reads `x-kubernetes-list-type` and
//! `-list-map-keys` of the OpenAPI schema, several keys per list, and knows atomic maps besides.
//! They do not always agree (a Job's conditions merge by `type` in the one and are atomic in the
//! other), so a [`Keys`] node holds both.
//!
//! The tree names only what differs from the default: a field that is not mentioned merges as
//! maps do if it is a map, and is replaced whole if it is a list. For Kubernetes' own kinds the
//! tree is a static table ([`table`]); for custom kinds it comes from the schema
//! ([`Keys::from_schema`]).

mod schema;
mod table;

use std::borrow::Cow;
use std::sync::Arc;

/// One node of the tree: the merge rules of a value, and the way to those of its parts.
#[derive(Clone, Debug)]
pub struct Keys {
    fields: Cow<'static, [(Cow<'static, str>, Child)]>,
    /// Of a list's items, or of a map's values where those have no field of their own.
    items: Option<Child>,
    list: List,
    strategy: Strategy,
    atomic: bool,
}

/// How server-side apply treats a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum List {
    /// One owner for the whole list; replaced whole.
    Atomic,
    /// Scalars, each once.
    Set,
    /// Maps that are told apart by these fields.
    Map(Cow<'static, [Cow<'static, str>]>),
}

/// How strategic merge patch treats a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Maps merge, lists are replaced.
    Default,
    /// Maps are replaced too.
    Replace,
    /// A list of scalars; the patch adds.
    MergeScalars,
    /// A list of maps that are told apart by this field.
    MergeBy(Cow<'static, str>),
}

#[derive(Clone, Debug)]
enum Child {
    Static(&'static Keys),
    Shared(Arc<Keys>),
}

impl Child {
    fn get(&self) -> &Keys {
        match self {
            Self::Static(keys) => keys,
            Self::Shared(keys) => keys,
        }
    }
}

/// Nothing is known: maps merge, lists are atomic.
pub static UNKNOWN: Keys = Keys::fields(&[]);

impl Keys {
    /// The rules of a built-in kind, or those of any object's metadata when the kind is not
    /// known here.
    pub fn builtin(group: &str, kind: &str) -> &'static Self {
        table::find(group, kind)
    }

    /// Rules of a `PodTemplateSpec`.
    pub fn pod_template_spec() -> &'static Self {
        &table::POD_TEMPLATE
    }

    /// Rules of the `spec` of a JobSet (`jobset.x-k8s.io/v1alpha2`), which is also the template
    /// of a training runtime.
    pub fn job_set_spec() -> &'static Self {
        &table::JOB_SET_SPEC
    }

    pub fn field(&self, name: &str) -> &Self {
        let found = self.fields.iter().find(|(field, _)| field == name);
        match (found, &self.items) {
            (Some((_, child)), _) | (None, Some(child)) => child.get(),
            (None, None) => &UNKNOWN,
        }
    }

    pub fn items(&self) -> &Self {
        self.items.as_ref().map_or(&UNKNOWN, Child::get)
    }

    pub fn list(&self) -> &List {
        &self.list
    }

    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// Whether a map is owned and replaced as one in server-side apply.
    pub fn is_atomic(&self) -> bool {
        self.atomic
    }

    const fn fields(fields: &'static [(Cow<'static, str>, Child)]) -> Self {
        Self {
            fields: Cow::Borrowed(fields),
            items: None,
            list: List::Atomic,
            strategy: Strategy::Default,
            atomic: false,
        }
    }
}
