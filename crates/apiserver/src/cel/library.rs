//! The functions that rules may call: CEL's own, its string, list and math extensions, and those
//! that Kubernetes adds.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cel::common::ast::{EntryExpr, Expr, operators};
use cel::common::types::{INT_TYPE, LIST_TYPE, STRING_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError, IdedExpr, Value, extensions};
use regex::Regex;

use super::Error;

/// `matches` as the standard library has it compiles its pattern on every call.
const MATCHES: &str = "@matches";

/// Names of functions besides those that this module declares itself.
const KNOWN: &[&str] = &[
    // The standard library.
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "type",
    "dyn",
    "int",
    "uint",
    "double",
    "string",
    "bool",
    "bytes",
    "has",
    "all",
    "exists",
    "exists_one",
    "existsOne",
    "map",
    "filter",
    // Optional values.
    "optional.of",
    "optional.none",
    "optional.ofNonZeroValue",
    "of",
    "none",
    "ofNonZeroValue",
    "hasValue",
    "value",
    "or",
    "orValue",
    "optMap",
    "optFlatMap",
    // Strings.
    "charAt",
    "indexOf",
    "lastIndexOf",
    "join",
    "lowerAscii",
    "upperAscii",
    "replace",
    "split",
    "substring",
    "trim",
    "reverse",
    "format",
    "quote",
    "strings.quote",
    // Lists.
    "slice",
    "flatten",
    "distinct",
    "sort",
    "sortBy",
    "range",
    "lists.range",
    "@sortByAssociatedKeys",
    // Math.
    "greatest",
    "least",
    "math.greatest",
    "math.least",
    "ceil",
    "floor",
    "round",
    "trunc",
    "abs",
    "sign",
    "sqrt",
    "isInf",
    "isNaN",
    "isFinite",
    "bitAnd",
    "bitOr",
    "bitXor",
    "bitNot",
    "bitShiftLeft",
    "bitShiftRight",
    "math.@max",
    "math.@min",
    "@math.greatest",
    "@math.least",
    // Ours, below.
    "isSorted",
    "sum",
    "min",
    "max",
    "find",
    "findAll",
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
    "equivalent",
    "intersects",
];

pub(super) fn environment() -> Arc<Env> {
    static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
        let mut env = Env::stdlib();
        let extended = env
            .add_extension(extensions::strings)
            .and_then(|()| env.add_extension(extensions::lists))
            .and_then(|()| env.add_extension(extensions::math))
            .and_then(|()| env.add_extension(kubernetes));
        if let Err(error) = extended {
            tracing::error!(%error, "a CEL library is declared twice");
        }
        Arc::new(env)
    });
    Arc::clone(&ENVIRONMENT)
}

/// Refuses what could only fail at run time: unknown variables and functions.
pub(super) fn check(program: &IdedExpr) -> Result<(), Error> {
    visit(program, &mut Vec::new())
}

fn visit(expr: &IdedExpr, bound: &mut Vec<String>) -> Result<(), Error> {
    match &expr.expr {
        Expr::Unspecified | Expr::Literal(_) => Ok(()),
        Expr::Ident(name) => {
            let is_known = name.starts_with('@')
                || ["self", "oldSelf"].contains(&name.as_str())
                || bound.contains(name)
                || is_type(name);
            if is_known {
                Ok(())
            } else {
                Err(Error::Variable { name: name.clone() })
            }
        }
        Expr::Select(select) => visit(&select.operand, bound),
        Expr::List(list) => list.elements.iter().try_for_each(|item| visit(item, bound)),
        Expr::Map(map) => map
            .entries
            .iter()
            .try_for_each(|entry| entry_of(&entry.expr, bound)),
        Expr::Struct(map) => map
            .entries
            .iter()
            .try_for_each(|entry| entry_of(&entry.expr, bound)),
        Expr::Call(call) => {
            let name = call.func_name.as_str();
            let is_operator = name.starts_with(|c: char| !c.is_ascii_alphanumeric())
                || operators::CONDITIONAL == name;
            let base = name.rsplit('.').next().unwrap_or(name);
            if !is_operator && !KNOWN.contains(&name) && !KNOWN.contains(&base) {
                return Err(Error::Function {
                    name: name.to_owned(),
                });
            }
            match &call.target {
                Some(target) if is_namespace(target) => {}
                Some(target) => visit(target, bound)?,
                None => {}
            }
            call.args
                .iter()
                .try_for_each(|argument| visit(argument, bound))
        }
        Expr::Comprehension(loops) => {
            visit(&loops.iter_range, bound)?;
            visit(&loops.accu_init, bound)?;
            let depth = bound.len();
            bound.push(loops.iter_var.clone());
            bound.extend(loops.iter_var2.clone());
            bound.push(loops.accu_var.clone());
            let inner = visit(&loops.loop_cond, bound)
                .and_then(|()| visit(&loops.loop_step, bound))
                .and_then(|()| visit(&loops.result, bound));
            bound.truncate(depth);
            inner
        }
    }
}

fn entry_of(entry: &EntryExpr, bound: &mut Vec<String>) -> Result<(), Error> {
    match entry {
        EntryExpr::StructField(field) => visit(&field.value, bound),
        EntryExpr::MapEntry(entry) => {
            visit(&entry.key, bound)?;
            visit(&entry.value, bound)
        }
    }
}

fn is_namespace(target: &IdedExpr) -> bool {
    matches!(&target.expr, Expr::Ident(name)
        if ["math", "strings", "lists", "sets", "optional"].contains(&name.as_str()))
}

fn is_type(name: &str) -> bool {
    [
        "int",
        "uint",
        "double",
        "string",
        "bool",
        "bytes",
        "list",
        "map",
        "null_type",
        "type",
    ]
    .contains(&name)
}

/// Sends calls of `matches` to the one that keeps its patterns.
pub(super) fn rename(expr: &mut IdedExpr) {
    match &mut expr.expr {
        Expr::Call(call) => {
            if call.func_name == "matches" {
                MATCHES.clone_into(&mut call.func_name);
                // One overload serves both ways of calling.
                if let Some(target) = call.target.take() {
                    call.args.insert(0, *target);
                }
            }
            if let Some(target) = &mut call.target {
                rename(target);
            }
            call.args.iter_mut().for_each(rename);
        }
        Expr::Comprehension(loops) => {
            rename(&mut loops.iter_range);
            rename(&mut loops.accu_init);
            rename(&mut loops.loop_cond);
            rename(&mut loops.loop_step);
            rename(&mut loops.result);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(rename),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    rename(&mut entry.key);
                    rename(&mut entry.value);
                }
            }
        }
        Expr::Select(select) => rename(&mut select.operand),
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
}

fn kubernetes(env: &mut Env) -> Result<(), DeclarationError> {
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
