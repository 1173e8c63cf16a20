//! Structural schemas: what a custom resource may contain.
//!
//! A CustomResourceDefinition's `openAPIV3Schema` is compiled once into a tree of [`Structural`]
//! nodes, which then answers three questions about every object that comes in:
//!
//! ```text
//!   prune     which fields does nobody know?   dropped, and named for fieldValidation
//!   default   which fields have a default?     filled in where they are absent
//!   validate  what is wrong?                   Kubernetes' words, field by field
//! ```
//!
//! Subtrees are shared (`Arc`), so a pod template that stands in a schema a hundred times through
//! the same `$ref` is compiled once; the built-in kinds use that. Validation of an update skips
//! every subtree that has not changed, which is both Kubernetes' ratcheting and what makes a
//! status update of a large object cheap.

mod compile;
mod default;
mod error;
pub(crate) mod format;
pub(crate) mod node;
mod path;
mod prune;
#[cfg(test)]
mod tests;
mod validate;

use std::sync::Arc;

use serde_json::Value;

pub(crate) use compile::Definitions;
pub(crate) use compile::Error;
pub(crate) use error::{FieldError, Reason, summary};
pub(crate) use node::Node;
pub(crate) use path::Path;

#[derive(Clone, Debug)]
pub struct Structural {
    root: Arc<Node>,
}

impl Structural {
    /// Compiles a custom resource's `openAPIV3Schema`, its rules included. A schema that is not
    /// structural, or has a rule or pattern that cannot be compiled, is refused by name.
    pub fn compile(schema: &Value) -> Result<Self, Error> {
        let root = compile::structural(schema)?;
        Ok(Self {
            root: Arc::new(root),
        })
    }

    /// Compiles the schema of a built-in type, whose `$ref`s are taken from `definitions`.
    pub(crate) fn from_definitions(schema: &Value, definitions: &mut Definitions) -> Self {
        Self {
            root: compile::builtin(schema, definitions),
        }
    }

    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    /// Drops what the schema does not know and says where that was, in the form
    /// `spec.containers[0].foo`.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::object(&self.root, object)
    }

    /// Fills in the defaults of absent fields.
    pub fn default(&self, object: &mut Value) {
        default::fill(&self.root, object);
    }

    /// Everything that is wrong with `object`. With `old`, transition rules are checked too, and
    /// what was wrong before and is unchanged is let be.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        validate::object(&self.root, object, old, false)
    }

    /// The same for an object whose state before, `old`, has passed this very schema: rules of its root that look at
    /// nothing that has changed are not asked again.
    pub fn validate_change(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        validate::object(&self.root, object, Some(old), true)
    }
}
