//! `quantity('1.5Gi')` and its functions.

use cel::common::functions::Function;
use cel::common::types::{INT_TYPE, STRING_TYPE, Type};
use cel::{DeclarationError, Env, ExecutionError, Value};

use super::opaque::{Args, Custom, answer, custom, failed, integer, members, own, string, truth};
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
    env.add_overload(
        "quantity",
        "string_to_quantity",
        vec![STRING_TYPE],
        |args| {
            let nanos = quantity::nanos(&string(&args, 0)?);
            custom(Quantity(
                nanos.ok_or_else(|| failed("quantity", "not a quantity"))?,
            ))
        },
    )?;
    env.add_overload("isQuantity", "is_quantity", vec![STRING_TYPE], |args| {
        truth(quantity::nanos(&string(&args, 0)?).is_some())
    })?;
    members(
        env,
        &TYPE,
        "quantity",
        [
            ("sign", |args| {
                answer(Value::Int(own::<Quantity>(&args, 0)?.0.cmp(&0) as i64))
            }),
            ("isInteger", |args| {
                truth(own::<Quantity>(&args, 0)?.0 % ONE == 0)
            }),
            ("asInteger", |args| {
                let nanos = own::<Quantity>(&args, 0)?.0;
                let whole = i64::try_from(nanos / ONE).ok().filter(|_| nanos % ONE == 0);
                let refused = || failed("asInteger", "cannot convert value to integer");
                answer(Value::Int(whole.ok_or_else(refused)?))
            }),
            ("asApproximateFloat", |args| {
                #[expect(clippy::cast_precision_loss, reason = "it says approximate")]
                let float = own::<Quantity>(&args, 0)?.0 as f64 / ONE as f64;
                answer(Value::Float(float))
            }),
        ],
    )?;
    let add: Function = |args| {
        let (left, right) = both(&args)?;
        custom(Quantity(left.saturating_add(right)))
    };
    let sub: Function = |args| {
        let (left, right) = both(&args)?;
        custom(Quantity(left.saturating_sub(right)))
    };
    let pairs: [(&str, Function); 5] = [
        ("isLessThan", |args| {
            both(&args).and_then(|(left, right)| truth(left < right))
        }),
        ("isGreaterThan", |args| {
            both(&args).and_then(|(left, right)| truth(left > right))
        }),
        ("compareTo", |args| {
            let (left, right) = both(&args)?;
            answer(Value::Int(left.cmp(&right) as i64))
        }),
        ("add", add),
        ("sub", sub),
    ];
    let own = || TYPE.to_owned();
    for (name, function) in pairs {
        env.add_member_overload(
            name,
            &format!("quantity_{name}"),
            own(),
            vec![own()],
            function,
        )?;
    }
    env.add_member_overload("add", "quantity_add_int", own(), vec![INT_TYPE], add)?;
    env.add_member_overload("sub", "quantity_sub_int", own(), vec![INT_TYPE], sub)
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
