//! Where Kubernetes treats one kind otherwise than the others. `builtin/kinds.rs` has a row for each of its own kinds.

use serde_json::Value;

use super::schema::FieldError;
use crate::status::Result;
use crate::store::Store;
use crate::verbs::call::Call;

/// Found once, when a kind is registered. Functions get the new object, and the old one unless it is being created.
#[derive(Debug)]
pub(crate) struct Strategy {
    /// What objects may be called.
    pub names: Names,
    /// `generation` counts the changes of what the user asked for.
    pub counts_generations: bool,
    /// A new object has no status, whatever the request says.
    pub drops_status: bool,
    /// A delete answers with the object that is gone, not with a Status.
    pub delete_answers_object: bool,
    /// Dependents outlive an object that is deleted without a word about them.
    pub orphans: bool,
    /// Where objects are stored that are another view of another kind's.
    pub stored_as: Option<&'static StoredAs>,
    /// The status of an object that is answered and not stored.
    pub review: Option<fn(&Call, &Value) -> Result<Value>>,
    /// Present if a change must be written before another object of the kind is decided upon; says whether that goes for
    /// a new object, too.
    pub takes_turns: Option<fn(&Value) -> bool>,
    /// Before admission: completes an object by others.
    pub prepare: fn(&Call, &mut Value, Option<&Value>) -> Result<()>,
    pub default: fn(&mut Value, Option<&Value>),
    /// Says what is wrong beyond the schema.
    pub validate: fn(&Value, Option<&Value>, &mut Vec<FieldError>),
    /// After admission: whether this caller may, here and now.
    pub check: fn(&Call, &Value, Option<&Value>) -> Result<()>,
    /// What follows from an admitted object.
    pub finish: fn(&Call, &mut Value, Option<&Value>),
    /// How many seconds an object has to end, given what the delete asks for.
    pub grace_period: fn(&Value, Option<i64>) -> i64,
    /// The finalizer that a delete adds.
    pub finalizer: fn(&Store, &Value) -> Option<&'static str>,
    /// Whether something other than finalizers and grace keeps a deleted object.
    pub is_in_use: fn(&Value) -> bool,
    /// Says in the object that it is being deleted.
    pub terminate: fn(&mut Value),
}

/// What the names of a kind's objects look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// DNS subdomains (RFC 1123): `a.b-c`.
    Subdomains,
    /// DNS labels (RFC 1123): `1-a`.
    Labels,
    /// DNS labels that begin with a letter (RFC 1035), as names of hosts once did.
    Hosts,
    /// Whatever fits into a path: `system:masters`.
    Segments,
}

/// The kind whose objects these are, and its names of fields beside the ones here.
#[derive(Debug)]
pub(crate) struct StoredAs {
    pub resource: &'static str,
    pub api_version: &'static str,
    pub fields: &'static [(&'static str, &'static str)],
}

/// Nothing special.
pub(crate) const PLAIN: Strategy = Strategy {
    names: Names::Subdomains,
    counts_generations: false,
    drops_status: false,
    delete_answers_object: false,
    orphans: false,
    stored_as: None,
    review: None,
    takes_turns: None,
    prepare: |_, _, _| Ok(()),
    default: |_, _| {},
    validate: |_, _, _| {},
    check: |_, _, _| Ok(()),
    finish: |_, _, _| {},
    grace_period: |_, _| 0,
    finalizer: |_, _| None,
    is_in_use: |_| false,
    terminate: |_| {},
};

/// Of kinds that are registered by a definition.
pub(crate) static CUSTOM: Strategy = Strategy {
    counts_generations: true,
    drops_status: true,
    ..PLAIN
};
