//! The rules of `x-kubernetes-validations`, in the Common Expression Language.
//!
//! A rule is parsed once, when its CustomResourceDefinition is stored, and refused there if it
//! does not parse, names a variable other than `self` and `oldSelf`, or calls a function that
//! this server does not have; its types are checked when it runs. At run time it sees `self` (and `oldSelf`) converted from JSON by
//! the schema. The most common rule of all, `self == oldSelf`, is compared as JSON without any
//! of that.

pub(crate) mod budget;
mod convert;
mod depth;
mod functions;
mod library;
mod named;
mod network;
mod opaque;
mod parts;
mod quantity;
#[cfg(test)]
mod tests;
mod url;

use cel::common::types::CelOptional;
use cel::common::value::Val;
use cel::{Context, ExecutionError, IdedExpr};
use serde_json::Value;

use crate::kinds::schema::{Node, Reason};

#[derive(Debug)]
pub(crate) struct Rule {
    source: String,
    program: IdedExpr,
    message: Option<String>,
    message_program: Option<IdedExpr>,
    reason: Reason,
    field_path: Option<String>,
    /// The type of the value the rule stands at, which is what an error shows of it.
    kind: &'static str,
    uses_old: bool,
    optional_old: bool,
    is_equality: bool,
    /// The fields of `self` that the rule looks at; `None` for all of them.
    wanted: Option<Vec<String>>,
    depth: usize,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Failure<'a> {
    pub(crate) reason: Reason,
    pub(crate) detail: String,
    pub(crate) field_path: Option<&'a str>,
    pub(crate) kind: &'static str,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("compilation failed: {detail}")]
    Parse { detail: String },
    #[error("undeclared reference to '{name}'")]
    Variable { name: String },
    #[error("undeclared reference to the function '{name}', which this server does not have")]
    Function { name: String },
    #[error("a rule may have at most {limit} characters")]
    TooLong { limit: usize },
    #[error("a rule may be nested at most {limit} times")]
    TooDeep { limit: usize },
    #[error("a rule must have the field rule")]
    Empty,
    #[error(
        "the reason {reason:?} is not one of FieldValueInvalid, FieldValueForbidden, FieldValueRequired, FieldValueDuplicate"
    )]
    Reason { reason: String },
}

impl Rule {
    pub(crate) fn compile(rule: &Value, kind: &'static str) -> Result<Self, Error> {
        let text = |name: &str| rule.get(name).and_then(Value::as_str);
        let source = text("rule")
            .filter(|rule| !rule.trim().is_empty())
            .ok_or(Error::Empty)?;
        let program = parse(source)?;
        let message_program = text("messageExpression").map(parse).transpose()?;
        let uses_old = program.references().has_variable("oldSelf")
            || message_program
                .as_ref()
                .is_some_and(|message| message.references().has_variable("oldSelf"));
        let reason = match text("reason") {
            None | Some("FieldValueInvalid") => Reason::Invalid,
            Some("FieldValueForbidden") => Reason::Forbidden,
            Some("FieldValueRequired") => Reason::Required,
            Some("FieldValueDuplicate") => Reason::Duplicate,
            Some(other) => {
                return Err(Error::Reason {
                    reason: other.to_owned(),
                });
            }
        };
        let is_equality = matches!(
            source.split_whitespace().collect::<String>().as_str(),
            "self==oldSelf" | "oldSelf==self"
        );
        let (mut wanted, mut depth) = (Some(Vec::new()), 0);
        for program in std::iter::once(&program).chain(&message_program) {
            library::fields(program, &mut wanted);
            depth = depth.max(depth::of(program));
        }
        Ok(Self {
            source: source.to_owned(),
            depth,
            wanted,
            program,
            message: text("message").map(str::to_owned),
            message_program,
            reason,
            field_path: text("fieldPath").map(|path| path.trim_start_matches('.').to_owned()),
            kind,
            uses_old,
            optional_old: rule
                .get("optionalOldSelf")
                .and_then(Value::as_bool)
                .unwrap_or(false),
            is_equality,
        })
    }

    /// Whether the rule may fail although the value is the same as before, so that ratcheting
    /// must not skip it.
    pub(crate) fn may_fail_unchanged(&self) -> bool {
        self.uses_old && !self.is_equality
    }

    /// Whether nothing in an object has changed that the rule, which stands at its root, looks at: of a status that
    /// changes, rules about the spec know nothing. To show them the spec was a sixth of the work of such a write.
    pub(crate) fn sees_the_same(&self, value: &Value, old: &Value) -> bool {
        let (Some(wanted), false) = (&self.wanted, self.uses_old) else {
            return false;
        };
        convert::shows_the_same(value, old, wanted)
    }

    /// Whether the rule is about a change, and so not checked without an old value.
    fn is_transition(&self) -> bool {
        self.uses_old && !self.optional_old
    }

    /// Evaluates the rule; `None` means that it holds or does not apply.
    pub(crate) fn check(
        &self,
        value: &Value,
        old: Option<&Value>,
        node: &Node,
        is_root: bool,
    ) -> Option<Failure<'_>> {
        if self.is_transition() && old.is_none() {
            return None;
        }
        if self.is_equality && !self.optional_old {
            return (Some(value) != old).then(|| self.failure(self.text()));
        }
        if !budget::begin() {
            return None;
        }
        let run = || self.evaluate(value, old, node, is_root);
        depth::with_room(self.depth <= depth::RUN_ANYWHERE, run).unwrap_or_else(|| {
            Some(self.failure("there is no room to evaluate the rule".to_owned()))
        })
    }

    fn evaluate(
        &self,
        value: &Value,
        old: Option<&Value>,
        node: &Node,
        is_root: bool,
    ) -> Option<Failure<'_>> {
        let mut context = Context::with_env(library::environment());
        let convert = |value| convert::value(value, node, is_root, self.wanted.as_deref());
        context.add_variable_from_value("self", convert(value));
        if self.uses_old {
            let old = old.map(convert);
            if self.optional_old {
                let old = old.and_then(|old| Box::<dyn Val>::try_from(old).ok());
                let old = old.map_or_else(CelOptional::none, CelOptional::of);
                context.add_variable_as_val("oldSelf", Box::new(old));
            } else if let Some(old) = old {
                context.add_variable_from_value("oldSelf", old);
            }
        }
        match context.resolve(&self.program) {
            Ok(cel::Value::Bool(true)) => None,
            Ok(cel::Value::Bool(false)) => {
                let said = self.message_program.as_ref().and_then(|message| {
                    match context.resolve(message) {
                        Ok(cel::Value::String(text))
                            if !text.trim().is_empty() && !text.contains('\n') =>
                        {
                            Some(text.trim().to_owned())
                        }
                        _ => None,
                    }
                });
                Some(self.failure(said.unwrap_or_else(|| self.text())))
            }
            Ok(other) => Some(self.failure(format!(
                "rule returned {:?}, not a boolean",
                other.type_of()
            ))),
            Err(_) if budget::is_overspent() => Some(self.failure(format!(
                "call cost exceeds limit for rule: {}; no further validation rules will be run",
                self.source.trim()
            ))),
            Err(error) => {
                let rule = self.message.as_deref().unwrap_or(&self.source);
                Some(self.failure(format!("{} evaluating rule: {rule}", problem(&error))))
            }
        }
    }

    fn failure(&self, detail: String) -> Failure<'_> {
        Failure {
            reason: self.reason,
            detail,
            field_path: self.field_path.as_deref(),
            kind: self.kind,
        }
    }

    fn text(&self) -> String {
        self.message
            .clone()
            .unwrap_or_else(|| format!("failed rule: {}", self.source.trim()))
    }
}

fn problem(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(name) => format!("no such key: {name}"),
        other => other.to_string(),
    }
}

fn parse(source: &str) -> Result<IdedExpr, Error> {
    depth::check_length(source)?;
    let parsing = || -> Result<IdedExpr, Error> {
        let mut program = library::environment()
            .parser()
            .parse(source)
            .map_err(|errors| {
                let detail = errors
                    .to_string()
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ");
                Error::Parse { detail }
            })?;
        depth::check(&program)?;
        library::check(&program)?;
        library::rename(&mut program);
        budget::meter(&mut program);
        Ok(program)
    };
    let small = depth::estimate(source) <= depth::PARSED_ANYWHERE;
    depth::with_room(small, parsing).unwrap_or_else(|| {
        Err(Error::Parse {
            detail: "there is no room to parse the rule".to_owned(),
        })
    })
}
