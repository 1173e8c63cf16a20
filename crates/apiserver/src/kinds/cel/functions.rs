//! The functions that Kubernetes adds to CEL: regular expressions, lists and sets.

#![expect(
    clippy::needless_pass_by_value,
    reason = "CEL calls its functions with a list of arguments of their own"
)]

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use cel::common::functions::Function;
use cel::common::types::{DYN_TYPE, INT_TYPE, LIST_TYPE, STRING_TYPE, Type};
use cel::{DeclarationError, Env, ExecutionError, Value};
use regex::{Regex, RegexBuilder};

use super::budget::spend;
use super::opaque::{Answer, Args, answer, failed, integer, list, string, truth, value};

/// `matches` as the standard library has it compiles its pattern on every call.
const MATCHES: &str = "@matches";
const REPLACE: &str = "@replace";
const JOIN: &str = "@join";
const DISTINCT: &str = "@distinct";
const RANGE: &str = "@range";

/// The function of ours that stands in for another.
pub(super) fn replacement(name: &str) -> Option<&'static str> {
    Some(match name {
        "matches" => MATCHES,
        "replace" => REPLACE,
        "join" => JOIN,
        "distinct" => DISTINCT,
        "range" | "lists.range" => RANGE,
        _ => return None,
    })
}

pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    let any = |count: usize| (0..count).map(|_| DYN_TYPE).collect();
    for count in 3..=4 {
        env.add_overload(REPLACE, &format!("replace_{count}"), any(count), replace)?;
    }
    for count in 1..=2 {
        env.add_overload(JOIN, &format!("join_{count}"), any(count), join)?;
    }
    let plain: [(&str, &str, Vec<Type>, Function); 6] = [
        (
            MATCHES,
            "kubernetes_matches",
            vec![STRING_TYPE, STRING_TYPE],
            |args| {
                let (text, pattern) = (string(&args, 0)?, string(&args, 1)?);
                with_regex(&pattern, |regex| truth(regex.is_match(&text)))
            },
        ),
        (DISTINCT, "distinct", vec![LIST_TYPE], distinct),
        (RANGE, "range", vec![INT_TYPE], range),
        (
            "sets.contains",
            "sets_contains",
            vec![LIST_TYPE, LIST_TYPE],
            |args| {
                let (all, some) = pair(&args)?;
                truth(some.iter().all(|item| all.contains(item)))
            },
        ),
        (
            "sets.equivalent",
            "sets_equivalent",
            vec![LIST_TYPE, LIST_TYPE],
            |args| {
                let (left, right) = pair(&args)?;
                let is_equal = left.iter().all(|item| right.contains(item))
                    && right.iter().all(|item| left.contains(item));
                truth(is_equal)
            },
        ),
        (
            "sets.intersects",
            "sets_intersects",
            vec![LIST_TYPE, LIST_TYPE],
            |args| {
                let (left, right) = pair(&args)?;
                truth(left.iter().any(|item| right.contains(item)))
            },
        ),
    ];
    for (name, id, types, function) in plain {
        env.add_overload(name, id, types, function)?;
    }
    let of_texts: [(&str, Vec<Type>, Function); 3] = [
        ("find", vec![STRING_TYPE], find),
        ("findAll", vec![STRING_TYPE], find_all),
        ("findAll", vec![STRING_TYPE, INT_TYPE], find_all),
    ];
    for (name, types, function) in of_texts {
        let id = format!("string_{name}_{}", types.len());
        env.add_member_overload(name, &id, STRING_TYPE, types, function)?;
    }
    let of_lists: [(&str, Vec<Type>, Function); 6] = [
        ("indexOf", vec![DYN_TYPE], |args| {
            let (list, wanted) = (list(&args, 0)?, value(&args, 1)?);
            position(list.iter().position(|item| *item == wanted))
        }),
        ("lastIndexOf", vec![DYN_TYPE], |args| {
            let (list, wanted) = (list(&args, 0)?, value(&args, 1)?);
            position(list.iter().rposition(|item| *item == wanted))
        }),
        ("isSorted", vec![], is_sorted),
        ("sum", vec![], sum),
        ("min", vec![], |args| extreme(&args, "min", Ordering::Less)),
        ("max", vec![], |args| {
            extreme(&args, "max", Ordering::Greater)
        }),
    ];
    for (name, types, function) in of_lists {
        env.add_member_overload(name, &format!("list_{name}"), LIST_TYPE, types, function)?;
    }
    Ok(())
}

fn replace<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (text, old, new) = (string(&args, 0)?, string(&args, 1)?, string(&args, 2)?);
    let limit = match args.len() {
        4 => usize::try_from(integer(&args, 3)?).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let found = text.matches(old.as_str()).take(limit).count();
    spend(units(
        text.len().saturating_add(found.saturating_mul(new.len())),
    ))?;
    answer(Value::from(text.replacen(old.as_str(), &new, limit)))
}

fn join<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let list = list(&args, 0)?;
    let separator = match args.len() {
        2 => string(&args, 1)?,
        _ => Arc::default(),
    };
    let mut size = list.len().saturating_mul(separator.len());
    let mut texts = Vec::with_capacity(list.len());
    for item in list.iter() {
        let Value::String(text) = item else {
            return Err(failed("join", "items are not strings"));
        };
        size = size.saturating_add(text.len());
        texts.push(text.as_str());
    }
    spend(units(size))?;
    answer(Value::from(texts.join(&separator)))
}

fn distinct<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let list = list(&args, 0)?;
    spend((list.len() as u64).saturating_mul(list.len() as u64) / 4)?;
    let mut found: Vec<Value> = Vec::new();
    for item in list.iter().filter(|item| !matches!(item, Value::Null)) {
        if !found.contains(item) {
            found.push(item.clone());
        }
    }
    answer(found)
}

fn range<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let end = integer(&args, 0)?;
    spend(u64::try_from(end).unwrap_or(0))?;
    answer(Value::List(Arc::new((0..end).map(Value::Int).collect())))
}

fn position<'b, 'v>(found: Option<usize>) -> Answer<'b, 'v> {
    let index = found.and_then(|index| i64::try_from(index).ok());
    answer(Value::Int(index.unwrap_or(-1)))
}

/// What a text of this length costs.
fn units(length: usize) -> u64 {
    (length / 16) as u64 + 1
}

type List = Arc<Vec<Value>>;

/// Two lists whose items are compared each with each.
fn pair(args: &Args<'_, '_>) -> Result<(List, List), ExecutionError> {
    let (left, right) = (list(args, 0)?, list(args, 1)?);
    spend((left.len() as u64).saturating_mul(right.len() as u64) / 4)?;
    Ok((left, right))
}

fn find<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (text, pattern) = (string(&args, 0)?, string(&args, 1)?);
    with_regex(&pattern, |regex| {
        answer(regex.find(&text).map_or("", |found| found.as_str()))
    })
}

fn find_all<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (text, pattern) = (string(&args, 0)?, string(&args, 1)?);
    let limit = match args.len() {
        3 => usize::try_from(integer(&args, 2)?).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    with_regex(&pattern, |regex| {
        let found = regex.find_iter(&text).take(limit);
        answer(found.map(|found| found.as_str()).collect::<Vec<_>>())
    })
}

fn is_sorted<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let list = list(&args, 0)?;
    let sorted = list.is_sorted_by(|left, right| {
        left.partial_cmp(right)
            .is_some_and(|order| order != Ordering::Greater)
    });
    truth(sorted)
}

fn sum<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let list = list(&args, 0)?;
    let mut total = match list.first() {
        Some(Value::Float(_)) => Value::Float(0.0),
        Some(Value::UInt(_)) => Value::UInt(0),
        _ => Value::Int(0),
    };
    for item in list.iter() {
        let overflow = || failed("sum", "integer overflow");
        total = match (total, item) {
            (Value::Int(left), Value::Int(right)) => {
                Value::Int(left.checked_add(*right).ok_or_else(overflow)?)
            }
            (Value::UInt(left), Value::UInt(right)) => {
                Value::UInt(left.checked_add(*right).ok_or_else(overflow)?)
            }
            (Value::Float(left), Value::Float(right)) => Value::Float(left + right),
            _ => {
                return Err(failed("sum", "items are not numbers"));
            }
        };
    }
    answer(total)
}

fn extreme<'b, 'v>(args: &Args<'b, 'v>, name: &str, wanted: Ordering) -> Answer<'b, 'v> {
    let list = list(args, 0)?;
    let mut items = list.iter();
    let Some(mut best) = items.next() else {
        return Err(failed(name, "the list is empty"));
    };
    for item in items {
        if item.partial_cmp(best) == Some(wanted) {
            best = item;
        }
    }
    answer(best.clone())
}

/// Patterns are few and stand in schemas, but a rule may also build them from an object's text.
const KEPT_PATTERNS: usize = 256;
/// In bytes, compiled.
const PATTERN_SIZE: usize = 1 << 20;
const COMPILATION: u64 = 1000;

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
        // A pattern may come from an object: it is not to cost much to compile.
        spend(COMPILATION + units(pattern.len()))?;
        let regex = RegexBuilder::new(pattern)
            .size_limit(PATTERN_SIZE)
            .build()
            .map_err(|_| failed("matches", "not a valid pattern"))?;
        if patterns.len() >= KEPT_PATTERNS {
            patterns.clear();
        }
        then(patterns.entry(pattern.to_owned()).or_insert(regex))
    })
}
