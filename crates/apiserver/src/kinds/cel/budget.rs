//! What a rule may cost.
//!
//! A rule without loops costs at most its length times the size of the object, which are both bounded. With loops the
//! cost multiplies, and texts can be doubled over and over, so such a rule is rewritten when it is compiled: what goes
//! into a loop, a function or a list passes through [`SPEND`], which charges for its size. A rule that has spent its
//! budget fails, and so does the object, in about a second at the worst.

use std::cell::Cell;

use cel::common::ast::{CallExpr, EntryExpr, Expr, operators};
use cel::common::types::{CelBytes, CelList, CelMap, CelOptional, CelString};
use cel::common::value::Val;
use cel::{ExecutionError, IdedExpr};

use super::opaque::{Answer, Args, failed};
use super::parts;

/// The function that charges for its argument and answers it.
pub(super) const SPEND: &str = "@spend";

/// Kubernetes' limits. A unit is one value, or 16 bytes of text.
const PER_RULE: u64 = 1_000_000;
const PER_OBJECT: u64 = 10_000_000;
const TEXT_UNIT: usize = 16;

/// What is left for the rules of an object.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    rule: u64,
    object: u64,
    overspent: bool,
}

const FULL: Budget = Budget {
    rule: PER_RULE,
    object: PER_OBJECT,
    overspent: false,
};

thread_local! {
    static BUDGET: Cell<Budget> = const { Cell::new(FULL) };
}

/// Begins the rules of another object.
pub(crate) fn renew() {
    BUDGET.set(FULL);
}

/// What is left on this thread, to be taken to another.
pub(super) fn lend() -> Budget {
    BUDGET.get()
}

pub(super) fn take(budget: Budget) {
    BUDGET.set(budget);
}

/// Begins another rule; `false` if nothing is left for this object.
pub(super) fn begin() -> bool {
    let budget = BUDGET.get();
    BUDGET.set(Budget {
        rule: PER_RULE.min(budget.object),
        ..budget
    });
    !budget.overspent
}

/// Whether the rule under way had to stop. No further ones are run then.
pub(super) fn is_overspent() -> bool {
    BUDGET.get().overspent
}

pub(super) fn spend(amount: u64) -> Result<(), ExecutionError> {
    let mut budget = BUDGET.get();
    budget.overspent |= amount > budget.rule || amount > budget.object;
    budget.rule = budget.rule.saturating_sub(amount);
    budget.object = budget.object.saturating_sub(amount);
    BUDGET.set(budget);
    if budget.overspent {
        Err(failed("rule", "call cost exceeds limit for rule"))
    } else {
        Ok(())
    }
}

/// See [`SPEND`].
pub(super) fn spend_on<'b, 'v>(mut args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let value = args
        .pop()
        .ok_or_else(ExecutionError::missing_argument_or_target)?;
    let mut room = BUDGET.get().rule.saturating_add(1);
    let before = room;
    weigh(&*value, &mut room);
    spend(before - room)?;
    Ok(value)
}

/// Takes the weight of a value from `room`, as far as that goes.
fn weigh(value: &dyn Val, room: &mut u64) {
    if *room == 0 {
        return;
    }
    let text = |length: usize| (length / TEXT_UNIT) as u64 + 1;
    let own = if let Some(value) = value.downcast_ref::<CelString<'_>>() {
        text(value.inner().len())
    } else if let Some(value) = value.downcast_ref::<CelBytes<'_>>() {
        text(value.inner().len())
    } else {
        1
    };
    *room = room.saturating_sub(own);
    if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        list.inner().iter().for_each(|item| weigh(&**item, room));
    } else if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        map.inner().values().for_each(|item| weigh(&**item, room));
    } else if let Some(optional) = value.downcast_ref::<CelOptional<'_>>()
        && let Some(inner) = optional.inner()
    {
        weigh(inner, room);
    }
}

/// Makes a rule with loops pay for what it does.
pub(super) fn meter(program: &mut IdedExpr) {
    if has_loop(program) {
        charge(program);
    }
}

fn has_loop(expr: &IdedExpr) -> bool {
    matches!(expr.expr, Expr::Comprehension(_)) || parts::of(expr).into_iter().any(has_loop)
}

fn charge(expr: &mut IdedExpr) {
    parts::of_mut(expr).into_iter().for_each(charge);
    match &mut expr.expr {
        Expr::Call(call) if !is_free(&call.func_name) => {
            let parts = call.target.as_deref_mut().into_iter().chain(&mut call.args);
            parts.for_each(wrap);
        }
        Expr::Comprehension(loops) => wrap(&mut loops.iter_range),
        Expr::List(list) => list.elements.iter_mut().for_each(wrap),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    wrap(&mut entry.value);
                }
            }
        }
        _ => {}
    }
}

/// What costs the same however large its arguments are.
fn is_free(function: &str) -> bool {
    [
        operators::CONDITIONAL,
        operators::LOGICAL_AND,
        operators::LOGICAL_OR,
        operators::LOGICAL_NOT,
        operators::NOT_STRICTLY_FALSE,
        operators::INDEX,
        operators::OPT_INDEX,
        operators::OPT_SELECT,
        "size",
    ]
    .contains(&function)
}

/// Puts a call of [`SPEND`] around a part, unless it is a constant or belongs to the machinery of a loop.
fn wrap(expr: &mut IdedExpr) {
    let is_plain = match &expr.expr {
        Expr::Literal(_) | Expr::List(_) | Expr::Map(_) | Expr::Unspecified => true,
        // The variables of loops, and the names of libraries such as `math`.
        Expr::Ident(name) => {
            name.starts_with('@') || super::library::NAMESPACES.contains(&name.as_str())
        }
        _ => false,
    };
    if is_plain {
        return;
    }
    let inner = std::mem::replace(&mut expr.expr, Expr::Unspecified);
    let inner = IdedExpr {
        id: expr.id,
        expr: inner,
    };
    expr.expr = Expr::Call(CallExpr {
        func_name: SPEND.to_owned(),
        target: None,
        args: vec![inner],
    });
}
