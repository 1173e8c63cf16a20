//! The functions that rules may call: CEL's own, its string, list and math extensions, and those
//! that Kubernetes adds.

use std::sync::{Arc, LazyLock};

use cel::common::ast::{EntryExpr, Expr, operators};
use cel::common::types::DYN_TYPE;
use cel::{Env, IdedExpr, extensions};

use super::{Error, budget, functions, named, network, quantity, url};

/// The names of all functions that there are.
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
    // Times.
    "duration",
    "timestamp",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
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
    // Those that Kubernetes adds.
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
    // Quantities, and what they have in common with others.
    "quantity",
    "isQuantity",
    "isInteger",
    "asInteger",
    "asApproximateFloat",
    "add",
    "sub",
    "isLessThan",
    "isGreaterThan",
    "compareTo",
    // Addresses.
    "ip",
    "isIP",
    "isCanonical",
    "cidr",
    "isCIDR",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "masked",
    "prefixLength",
    "containsIP",
    "containsCIDR",
    "url",
    "isURL",
    "getScheme",
    "getHost",
    "getHostname",
    "getPort",
    "getEscapedPath",
    "getQuery",
    // Named formats.
    "named",
    "validate",
];

/// What stands before the dot of functions that belong to no value.
pub(super) const NAMESPACES: [&str; 7] = [
    "math", "strings", "lists", "sets", "optional", "ip", "format",
];

pub(super) fn environment() -> Arc<Env> {
    static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
        let mut env = Env::stdlib();
        let extended = env
            .add_extension(extensions::strings)
            .and_then(|()| env.add_extension(extensions::lists))
            .and_then(|()| env.add_extension(extensions::math))
            .and_then(|()| env.add_extension(functions::declare))
            .and_then(|()| env.add_extension(quantity::declare))
            .and_then(|()| env.add_extension(network::declare))
            .and_then(|()| env.add_extension(url::declare))
            .and_then(|()| env.add_extension(named::declare))
            .and_then(|()| {
                env.add_overload(budget::SPEND, "spend", vec![DYN_TYPE], budget::spend_on)
            });
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
            let is_known =
                |name: &str| KNOWN.contains(&name) || named::names().any(|one| one == name);
            if !is_operator && !is_known(name) && !is_known(base) {
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

/// Adds the fields of `self` and `oldSelf` that a program looks at; `None` is all, and stays so.
pub(super) fn fields(expr: &IdedExpr, found: &mut Option<Vec<String>>) {
    let is_self = |expr: &IdedExpr| matches!(&expr.expr, Expr::Ident(name) if ["self", "oldSelf"].contains(&name.as_str()));
    match &expr.expr {
        Expr::Select(select) if is_self(&select.operand) => {
            if let Some(found) = found
                && !found.contains(&select.field)
            {
                found.push(select.field.clone());
            }
        }
        Expr::Ident(_) => {
            if is_self(expr) {
                *found = None;
            }
        }
        Expr::Select(select) => fields(&select.operand, found),
        Expr::Call(call) => {
            let parts = call.target.as_deref().into_iter().chain(&call.args);
            parts.for_each(|part| fields(part, found));
        }
        Expr::List(list) => list.elements.iter().for_each(|item| fields(item, found)),
        Expr::Map(map) => map.entries.iter().for_each(|entry| {
            if let EntryExpr::MapEntry(entry) = &entry.expr {
                fields(&entry.key, found);
                fields(&entry.value, found);
            }
        }),
        Expr::Comprehension(loops) => {
            for part in [
                &loops.iter_range,
                &loops.accu_init,
                &loops.loop_cond,
                &loops.loop_step,
                &loops.result,
            ] {
                fields(part, found);
            }
        }
        Expr::Struct(_) => *found = None,
        Expr::Literal(_) | Expr::Unspecified => {}
    }
}

fn is_namespace(target: &IdedExpr) -> bool {
    matches!(&target.expr, Expr::Ident(name) if NAMESPACES.contains(&name.as_str()))
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

/// Sends calls of some functions to those of ours: `matches` keeps its patterns, the others could make more of little
/// than there is memory.
pub(super) fn rename(expr: &mut IdedExpr) {
    match &mut expr.expr {
        Expr::Call(call) => {
            if let Some(name) = functions::replacement(&call.func_name) {
                name.clone_into(&mut call.func_name);
                // One overload serves both ways of calling.
                if let Some(target) = call.target.take()
                    && !is_namespace(&target)
                {
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
