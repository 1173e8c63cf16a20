//! What an expression is made of, for whoever walks through a rule.

use cel::IdedExpr;
use cel::common::ast::{EntryExpr, Expr};

macro_rules! parts {
    ($name:ident, $iter:ident, $target:ident $(, $mutable:tt)?) => {
        pub(super) fn $name(expr: &$($mutable)? IdedExpr) -> Vec<&$($mutable)? IdedExpr> {
            let entries = match &$($mutable)? expr.expr {
                Expr::Call(call) => {
                    return call.target.$target().into_iter().chain(call.args.$iter()).collect();
                }
                Expr::Comprehension(loops) => {
                    return vec![
                        &$($mutable)? loops.iter_range,
                        &$($mutable)? loops.accu_init,
                        &$($mutable)? loops.loop_cond,
                        &$($mutable)? loops.loop_step,
                        &$($mutable)? loops.result,
                    ];
                }
                Expr::List(list) => return list.elements.$iter().collect(),
                Expr::Select(select) => return vec![&$($mutable)? *select.operand],
                Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => return Vec::new(),
                Expr::Map(map) => &$($mutable)? map.entries,
                Expr::Struct(map) => &$($mutable)? map.entries,
            };
            let parts = entries.$iter().flat_map(|entry| match &$($mutable)? entry.expr {
                EntryExpr::MapEntry(entry) => vec![&$($mutable)? entry.key, &$($mutable)? entry.value],
                EntryExpr::StructField(field) => vec![&$($mutable)? field.value],
            });
            parts.collect()
        }
    };
}

parts!(of, iter, as_deref);
parts!(of_mut, iter_mut, as_deref_mut, mut);
