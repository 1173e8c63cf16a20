//! Values of the types that Kubernetes adds to CEL, and how functions take and give them.

#![expect(
    clippy::unnecessary_wraps,
    reason = "what functions give is what the interpreter takes"
)]

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use cel::common::functions::Function;
use cel::common::types::{CelOptional, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError, Value};

pub(super) type Args<'b, 'v> = Vec<CowVal<'b, 'v>>;
pub(super) type Answer<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// A type that CEL does not have.
pub(super) trait Custom: Clone + Debug + PartialEq + Send + Sync + 'static {
    fn cel_type() -> &'static Type;
}

#[derive(Clone, Debug)]
pub(super) struct Opaque<T>(pub(super) T);

impl<T: Custom> Val for Opaque<T> {
    fn get_type(&self) -> &Type {
        T::cel_type()
    }

    fn cel_type() -> &'static Type {
        T::cel_type()
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other
            .downcast_ref::<Self>()
            .is_some_and(|other| other.0 == self.0)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl<T: Custom> StaticVal for Opaque<T> {}

pub(super) fn answer<'b, 'v>(value: impl Into<Value>) -> Answer<'b, 'v> {
    let value: Box<dyn Val> = value.into().try_into()?;
    Ok(CowVal::Owned(value))
}

pub(super) fn truth<'b, 'v>(flag: bool) -> Answer<'b, 'v> {
    answer(Value::Bool(flag))
}

pub(super) fn custom<'b, 'v, T: Custom>(value: T) -> Answer<'b, 'v> {
    Ok(CowVal::owned(Opaque(value)))
}

pub(super) fn optional<'b, 'v>(value: Option<Box<dyn Val>>) -> Answer<'b, 'v> {
    Ok(CowVal::owned(
        value.map_or_else(CelOptional::none, CelOptional::of),
    ))
}

/// Declares functions of a type of ours that take nothing else.
pub(super) fn members<const N: usize>(
    env: &mut Env,
    of: &Type,
    prefix: &str,
    functions: [(&str, Function); N],
) -> Result<(), DeclarationError> {
    functions.into_iter().try_for_each(|(name, function)| {
        let id = format!("{prefix}_{name}");
        env.add_member_overload(name, &id, of.to_owned(), vec![], function)
    })
}

/// The argument of a type of ours.
pub(super) fn own<'a, T: Custom>(
    args: &'a Args<'_, '_>,
    index: usize,
) -> Result<&'a T, ExecutionError> {
    args.get(index)
        .and_then(|value| value.downcast_ref::<Opaque<T>>())
        .map(|value| &value.0)
        .ok_or_else(ExecutionError::missing_argument_or_target)
}

pub(super) fn value(args: &Args<'_, '_>, index: usize) -> Result<Value, ExecutionError> {
    match args.get(index) {
        Some(value) => Value::try_from(&**value),
        None => Err(ExecutionError::missing_argument_or_target()),
    }
}

pub(super) fn string(args: &Args<'_, '_>, index: usize) -> Result<Arc<String>, ExecutionError> {
    match value(args, index)? {
        Value::String(text) => Ok(text),
        _ => Err(ExecutionError::missing_argument_or_target()),
    }
}

pub(super) fn integer(args: &Args<'_, '_>, index: usize) -> Result<i64, ExecutionError> {
    match value(args, index)? {
        Value::Int(number) => Ok(number),
        _ => Err(ExecutionError::missing_argument_or_target()),
    }
}

pub(super) fn list(args: &Args<'_, '_>, index: usize) -> Result<Arc<Vec<Value>>, ExecutionError> {
    match value(args, index)? {
        Value::List(list) => Ok(list),
        _ => Err(ExecutionError::missing_argument_or_target()),
    }
}

pub(super) fn failed(function: &str, problem: impl ToString) -> ExecutionError {
    ExecutionError::function_error(function, problem)
}
