//! One node of a compiled schema.

use std::collections::HashMap;
use std::sync::Arc;

use regex::Regex;
use serde_json::Value;

use super::format::Format;
use crate::kinds::cel::Rule;

/// What is known about one value. Most nodes of real schemas have a type and nothing else, so
/// everything rarer is boxed away.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub(crate) preserve: bool,
    /// `x-kubernetes-embedded-resource`: has `apiVersion`, `kind` and `metadata`.
    pub(crate) embedded: bool,
    /// Whether a rule here or below looks at the old value in a way that an unchanged value may
    /// fail, so that unchanged subtrees must be visited too.
    pub(crate) has_transitions: bool,
    /// Whether there is a default here or below.
    pub(crate) has_defaults: bool,
    /// Whether there is a quantity below.
    pub(crate) has_quantities: bool,
    /// Whether there is a rule here or below.
    pub(crate) has_rules: bool,
    pub(crate) list: List,
    pub(crate) properties: HashMap<Box<str>, Arc<Self>>,
    /// Of lists the items, of maps the values.
    pub(crate) items: Option<Arc<Self>>,
    /// `additionalProperties: true`.
    pub(crate) open: bool,
    pub(crate) default: Option<Box<Value>>,
    pub(crate) checks: Option<Box<Checks>>,
    pub(crate) rules: Vec<Rule>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
    /// A quantity of a built-in type; always a string once it is normalised.
    Quantity,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Object => "object",
            Self::Array => "array",
            Self::String | Self::Quantity => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::IntOrString => "integer,string",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum List {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// The value validations of a node.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) required: Vec<String>,
    pub(crate) choices: Vec<Value>,
    pub(crate) pattern: Option<Regex>,
    pub(crate) format: Option<Format>,
    pub(crate) minimum: Option<Bound>,
    pub(crate) maximum: Option<Bound>,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) unique_items: bool,
    pub(crate) all_of: Vec<Node>,
    pub(crate) any_of: Vec<Node>,
    pub(crate) one_of: Vec<Node>,
    pub(crate) not: Option<Node>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) value: f64,
    pub(crate) exclusive: bool,
}
