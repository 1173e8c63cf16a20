//! `quantity('1.5Gi')` and its functions.

#![expect(
    clippy::needless_pass_by_value,
    reason = "the interpreter hands arguments over by value"
)]

use std::cmp::Ordering;

use cel::common::types::{INT_TYPE, STRING_TYPE, Type};
use cel::{DeclarationError, Env, ExecutionError, Value};

use super::opaque::{Answer, Args, Custom, answer, custom, failed, integer, own, string};
use crate::kinds::builtin::quantity;

static TYPE: Type = Type::new_unspecified_type("kubernetes.Quantity");
const ONE: i128 = 1_000_000_000;

/// In billionths.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Quantity(i128);

impl Custom for Quantity {
    fn cel_type() -> &'static Type {
        &TYPE
    }
}

pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload("quantity", "string_to_quantity", vec![STRING_TYPE], parse)?;
    env.add_overload("isQuantity", "is_quantity", vec![STRING_TYPE], is_quantity)?;
    let own = || TYPE.to_owned();
    for (name, id, function) in [
        (
            "sign",
            "quantity_sign",
            sign as cel::common::functions::Function,
        ),
        ("isInteger", "quantity_is_integer", is_integer),
        ("asInteger", "quantity_as_integer", as_integer),
        ("asApproximateFloat", "quantity_as_float", as_float),
    ] {
        env.add_member_overload(name, id, own(), vec![], function)?;
    }
    for (name, id, function) in [
        (
            "isLessThan",
            "quantity_less",
            less as cel::common::functions::Function,
        ),
        ("isGreaterThan", "quantity_greater", greater),
        ("compareTo", "quantity_compare", compare),
        ("add", "quantity_add", add),
        ("sub", "quantity_sub", sub),
    ] {
        env.add_member_overload(name, id, own(), vec![own()], function)?;
    }
    env.add_member_overload("add", "quantity_add_int", own(), vec![INT_TYPE], add)?;
    env.add_member_overload("sub", "quantity_sub_int", own(), vec![INT_TYPE], sub)
}

fn parse<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let text = string(&args, 0)?;
    let nanos = quantity::nanos(&text).ok_or_else(|| failed("quantity", "not a quantity"))?;
    custom(Quantity(nanos))
}

fn is_quantity<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    answer(Value::Bool(quantity::nanos(&string(&args, 0)?).is_some()))
}

fn sign<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    answer(Value::Int(match own::<Quantity>(&args, 0)?.0.cmp(&0) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }))
}

fn is_integer<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let nanos = own::<Quantity>(&args, 0)?.0;
    answer(Value::Bool(nanos % ONE == 0))
}

fn as_integer<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let nanos = own::<Quantity>(&args, 0)?.0;
    let whole = i64::try_from(nanos / ONE).ok().filter(|_| nanos % ONE == 0);
    let whole = whole.ok_or_else(|| failed("asInteger", "cannot convert value to integer"))?;
    answer(Value::Int(whole))
}

fn as_float<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    #[expect(clippy::cast_precision_loss, reason = "it says approximate")]
    let float = own::<Quantity>(&args, 0)?.0 as f64 / ONE as f64;
    answer(Value::Float(float))
}

fn less<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (left, right) = both(&args)?;
    answer(Value::Bool(left < right))
}

fn greater<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (left, right) = both(&args)?;
    answer(Value::Bool(left > right))
}

fn compare<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (left, right) = both(&args)?;
    answer(Value::Int(left.cmp(&right) as i64))
}

fn add<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (left, right) = both(&args)?;
    custom(Quantity(left.saturating_add(right)))
}

fn sub<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (left, right) = both(&args)?;
    custom(Quantity(left.saturating_sub(right)))
}

/// Two quantities, of which the second may be an integer.
fn both(args: &Args<'_, '_>) -> Result<(i128, i128), ExecutionError> {
    let left = own::<Quantity>(args, 0)?.0;
    let right = match own::<Quantity>(args, 1) {
        Ok(right) => right.0,
        Err(_) => i128::from(integer(args, 1)?) * ONE,
    };
    Ok((left, right))
}
