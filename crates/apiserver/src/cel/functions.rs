//! The functions that Kubernetes adds to CEL: regular expressions, lists and sets.

#![expect(
    clippy::needless_pass_by_value,
    reason = "CEL calls its functions with a list of arguments of their own"
)]

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use cel::common::types::{INT_TYPE, LIST_TYPE, STRING_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError, Value};
use regex::Regex;

/// `matches` as the standard library has it compiles its pattern on every call.
pub(super) const MATCHES: &str = "@matches";

/// Adds the functions to an environment.
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    let text = || vec![STRING_TYPE];
    env.add_overload(
        MATCHES,
        "kubernetes_matches",
        vec![STRING_TYPE, STRING_TYPE],
        matches,
    )?;
    env.add_member_overload("find", "string_find", STRING_TYPE, text(), find)?;
    env.add_member_overload("findAll", "string_find_all", STRING_TYPE, text(), find_all)?;
    env.add_member_overload(
        "findAll",
        "string_find_all_limit",
        STRING_TYPE,
        vec![STRING_TYPE, INT_TYPE],
        find_all,
    )?;
    env.add_member_overload("isSorted", "list_is_sorted", LIST_TYPE, vec![], is_sorted)?;
    env.add_member_overload("sum", "list_sum", LIST_TYPE, vec![], sum)?;
    env.add_member_overload("min", "list_min", LIST_TYPE, vec![], min)?;
    env.add_member_overload("max", "list_max", LIST_TYPE, vec![], max)?;
    env.add_overload(
        "sets.contains",
        "sets_contains",
        vec![LIST_TYPE, LIST_TYPE],
        set_contains,
    )?;
    env.add_overload(
        "sets.equivalent",
        "sets_equivalent",
        vec![LIST_TYPE, LIST_TYPE],
        set_equal,
    )?;
    env.add_overload(
        "sets.intersects",
        "sets_intersects",
        vec![LIST_TYPE, LIST_TYPE],
        set_meets,
    )?;
    Ok(())
}

type Args<'b, 'v> = Vec<CowVal<'b, 'v>>;
type Answer<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

fn matches<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (text, pattern) = (string(&args, 0)?, string(&args, 1)?);
    with_regex(&pattern, |regex| answer(Value::Bool(regex.is_match(&text))))
}

fn find<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (text, pattern) = (string(&args, 0)?, string(&args, 1)?);
    with_regex(&pattern, |regex| {
        let found = regex.find(&text).map_or("", |found| found.as_str());
        answer(Value::from(found))
    })
}

fn find_all<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (text, pattern) = (string(&args, 0)?, string(&args, 1)?);
    let limit = match args
        .get(2)
        .map(|limit| Value::try_from(&**limit))
        .transpose()?
    {
        Some(Value::Int(limit)) => usize::try_from(limit).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    with_regex(&pattern, |regex| {
        let found: Vec<_> = regex
            .find_iter(&text)
            .take(limit)
            .map(|found| Value::from(found.as_str()))
            .collect();
        answer(Value::List(Arc::new(found)))
    })
}

fn is_sorted<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let list = list(&args, 0)?;
    let sorted = list.is_sorted_by(|left, right| {
        left.partial_cmp(right)
            .is_some_and(|order| order != Ordering::Greater)
    });
    answer(Value::Bool(sorted))
}

fn sum<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let list = list(&args, 0)?;
    let mut total = match list.first() {
        Some(Value::Float(_)) => Value::Float(0.0),
        Some(Value::UInt(_)) => Value::UInt(0),
        _ => Value::Int(0),
    };
    for item in list.iter() {
        let overflow = || ExecutionError::function_error("sum", "integer overflow");
        total = match (total, item) {
            (Value::Int(left), Value::Int(right)) => {
                Value::Int(left.checked_add(*right).ok_or_else(overflow)?)
            }
            (Value::UInt(left), Value::UInt(right)) => {
                Value::UInt(left.checked_add(*right).ok_or_else(overflow)?)
            }
            (Value::Float(left), Value::Float(right)) => Value::Float(left + right),
            _ => {
                return Err(ExecutionError::function_error(
                    "sum",
                    "items are not numbers",
                ));
            }
        };
    }
    answer(total)
}

fn min<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    extreme(&args, "min", Ordering::Less)
}

fn max<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    extreme(&args, "max", Ordering::Greater)
}

fn extreme<'b, 'v>(args: &Args<'b, 'v>, name: &str, wanted: Ordering) -> Answer<'b, 'v> {
    let list = list(args, 0)?;
    let mut items = list.iter();
    let Some(mut best) = items.next() else {
        return Err(ExecutionError::function_error(name, "the list is empty"));
    };
    for item in items {
        if item.partial_cmp(best) == Some(wanted) {
            best = item;
        }
    }
    answer(best.clone())
}

fn set_contains<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (all, some) = (list(&args, 0)?, list(&args, 1)?);
    answer(Value::Bool(some.iter().all(|item| all.contains(item))))
}

fn set_equal<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (left, right) = (list(&args, 0)?, list(&args, 1)?);
    let is_equal = left.iter().all(|item| right.contains(item))
        && right.iter().all(|item| left.contains(item));
    answer(Value::Bool(is_equal))
}

fn set_meets<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (left, right) = (list(&args, 0)?, list(&args, 1)?);
    answer(Value::Bool(left.iter().any(|item| right.contains(item))))
}

fn answer<'b, 'v>(value: Value) -> Answer<'b, 'v> {
    let value: Box<dyn Val> = value.try_into()?;
    Ok(CowVal::Owned(value))
}

fn string(args: &Args<'_, '_>, index: usize) -> Result<Arc<String>, ExecutionError> {
    match args
        .get(index)
        .map(|value| Value::try_from(&**value))
        .transpose()?
    {
        Some(Value::String(text)) => Ok(text),
        _ => Err(ExecutionError::missing_argument_or_target()),
    }
}

fn list(args: &Args<'_, '_>, index: usize) -> Result<Arc<Vec<Value>>, ExecutionError> {
    match args
        .get(index)
        .map(|value| Value::try_from(&**value))
        .transpose()?
    {
        Some(Value::List(list)) => Ok(list),
        _ => Err(ExecutionError::missing_argument_or_target()),
    }
}

/// Patterns are few and stand in schemas, but a rule may also build them from an object's text.
const KEPT_PATTERNS: usize = 256;

thread_local! {
    static PATTERNS: RefCell<HashMap<String, Regex>> = RefCell::new(HashMap::new());
}

fn with_regex<T>(
    pattern: &str,
    then: impl FnOnce(&Regex) -> Result<T, ExecutionError>,
) -> Result<T, ExecutionError> {
    PATTERNS.with_borrow_mut(|patterns| {
        if let Some(regex) = patterns.get(pattern) {
            return then(regex);
        }
        let regex = Regex::new(pattern)
            .map_err(|_| ExecutionError::function_error("matches", "not a valid pattern"))?;
        if patterns.len() >= KEPT_PATTERNS {
            patterns.clear();
        }
        then(patterns.entry(pattern.to_owned()).or_insert(regex))
    })
}
