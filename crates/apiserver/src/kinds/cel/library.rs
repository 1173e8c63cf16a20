//! The functions that rules may call: CEL's own, its string, list and math extensions, and those
//! that Kubernetes adds.

use std::sync::{Arc, LazyLock};

use cel::common::ast::{Expr, operators};
use cel::common::types::DYN_TYPE;
use cel::{Env, IdedExpr, extensions};

use super::{Error, budget, functions, named, network, parts, quantity, url};

/// The names of all functions that there are, with spaces between.
const KNOWN: [&str; 10] = [
    // The standard library.
    "size contains startsWith endsWith matches type dyn int uint double string bool bytes",
    // Times.
    "duration timestamp getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear getHours \
     getMilliseconds getMinutes getMonth getSeconds",
    // Optional values.
    "optional.of optional.none optional.ofNonZeroValue of none ofNonZeroValue hasValue value or \
     orValue",
    // Strings.
    "charAt indexOf lastIndexOf join lowerAscii upperAscii replace split substring trim reverse \
     format quote strings.quote",
    // Lists.
    "slice flatten distinct sort sortBy range lists.range @sortByAssociatedKeys",
    // Math.
    "greatest least math.greatest math.least ceil floor round trunc abs sign sqrt isInf isNaN \
     isFinite bitAnd bitOr bitXor bitNot bitShiftLeft bitShiftRight math.@max math.@min \
     @math.greatest @math.least",
    // Those that Kubernetes adds.
    "isSorted sum min max find findAll sets.contains sets.equivalent sets.intersects equivalent \
     intersects",
    // Quantities, and what they have in common with others.
    "quantity isQuantity isInteger asInteger asApproximateFloat add sub isLessThan isGreaterThan \
     compareTo",
    // Addresses.
    "ip isIP isCanonical cidr isCIDR family isUnspecified isLoopback isLinkLocalMulticast \
     isLinkLocalUnicast isGlobalUnicast masked prefixLength containsIP containsCIDR url isURL \
     getScheme getHost getHostname getPort getEscapedPath getQuery",
    // Named formats.
    "named validate",
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
        Expr::Ident(name) => {
            let is_known = name.starts_with('@')
                || ["self", "oldSelf"].contains(&name.as_str())
                || bound.contains(name)
                || is_type(name);
            let unknown = || Error::Variable { name: name.clone() };
            is_known.then_some(()).ok_or_else(unknown)
        }
        Expr::Call(call) => {
            let name = call.func_name.as_str();
            let is_operator = name.starts_with(|c: char| !c.is_ascii_alphanumeric())
                || operators::CONDITIONAL == name;
            let base = name.rsplit('.').next().unwrap_or(name);
            let mut known = KNOWN
                .iter()
                .flat_map(|names| names.split(' '))
                .chain(named::names());
            if !is_operator && !known.any(|one| one == name || one == base) {
                let name = name.to_owned();
                return Err(Error::Function { name });
            }
            let target = call
                .target
                .as_deref()
                .filter(|target| !is_namespace(target));
            let mut parts = target.into_iter().chain(&call.args);
            parts.try_for_each(|part| visit(part, bound))
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
        _ => parts::of(expr)
            .into_iter()
            .try_for_each(|part| visit(part, bound)),
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
        Expr::Struct(_) => *found = None,
        Expr::Ident(_) if is_self(expr) => *found = None,
        _ => parts::of(expr)
            .into_iter()
            .for_each(|part| fields(part, found)),
    }
}

fn is_namespace(target: &IdedExpr) -> bool {
    matches!(&target.expr, Expr::Ident(name) if NAMESPACES.contains(&name.as_str()))
}

fn is_type(name: &str) -> bool {
    "int uint double string bool bytes list map null_type type"
        .split(' ')
        .any(|one| one == name)
}

/// Sends calls of some functions to those of ours: `matches` keeps its patterns, the others could make more of little
/// than there is memory.
pub(super) fn rename(expr: &mut IdedExpr) {
    if let Expr::Call(call) = &mut expr.expr
        && let Some(name) = functions::replacement(&call.func_name)
    {
        name.clone_into(&mut call.func_name);
        // One overload serves both ways of calling.
        if let Some(target) = call.target.take()
            && !is_namespace(&target)
        {
            call.args.insert(0, *target);
        }
    }
    parts::of_mut(expr).into_iter().for_each(rename);
}
