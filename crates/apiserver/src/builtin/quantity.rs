//! Quantities such as `500m` or `1.5Gi`, made canonical.
//!
//! Clients write them as strings in any form, and some as numbers; Kubernetes answers with the
//! one canonical string (`1000m` and `1.0` are `1`, `0.5` is `500m`, `1024Mi` is `1Gi`), which
//! clients then parse and compare.

use serde_json::Value;

use crate::schema::node::Kind;
use crate::schema::{FieldError, Node, Path, Structural};

const PROBLEM: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// From 10⁻⁹ on, in steps of a thousand.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const NANO: i128 = 1_000_000_000;

/// Makes all quantities of an object canonical, and names those that are none.
pub(super) fn normalise(structural: &Structural, object: &mut Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    visit(structural.root(), object, Path::ROOT, &mut errors);
    errors
}

fn visit(node: &Node, value: &mut Value, path: Path<'_>, errors: &mut Vec<FieldError>) {
    if node.kind == Kind::Quantity {
        let text = match &*value {
            Value::String(text) => text.trim().to_owned(),
            Value::Number(number) => number.to_string(),
            // The wrong type is what validation complains about.
            _ => return,
        };
        match canonical(&text) {
            Some(canonical) => *value = Value::String(canonical),
            None => errors.push(FieldError::invalid(path.to_string(), value, PROBLEM)),
        }
        return;
    }
    if !node.has_quantities {
        return;
    }
    match value {
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for (index, item) in list.iter_mut().enumerate() {
                    visit(items, item, path.index(index), errors);
                }
            }
        }
        Value::Object(map) => {
            for (name, value) in map.iter_mut() {
                if let Some(child) = node.properties.get(name.as_str()) {
                    visit(child, value, path.field(name), errors);
                } else if let Some(child) = &node.items {
                    visit(child, value, path.key(name), errors);
                }
            }
        }
        _ => {}
    }
}

/// The canonical form; `None` if it is no quantity.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let (nanos, form) = parse(text)?;
    Some(match form {
        // Nothing is rounded away: what is no whole number is written with a decimal suffix.
        Form::Binary if nanos.abs() >= 1024 * NANO && nanos % NANO == 0 => binary(nanos),
        Form::Exponent => exponent(nanos),
        Form::Binary | Form::Decimal => decimal(nanos),
    })
}

/// The amount in billionths, for comparisons.
pub(crate) fn nanos(text: &str) -> Option<i128> {
    parse(text).map(|(nanos, _)| nanos)
}

/// An amount in its canonical form, in powers of two if it is a size.
pub(crate) fn shown(nanos: i128, is_size: bool) -> String {
    if is_size && nanos.abs() >= 1024 * NANO && nanos % NANO == 0 {
        binary(nanos)
    } else {
        decimal(nanos)
    }
}

#[derive(Clone, Copy)]
enum Form {
    Binary,
    Decimal,
    Exponent,
}

fn parse(text: &str) -> Option<(i128, Form)> {
    let end = text
        .char_indices()
        .position(|(at, c)| !(c.is_ascii_digit() || c == '.' || (at == 0 && "+-".contains(c))))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (numerator, decimals) = digits(number)?;
    let (multiplier, form) = if let Some(step) = BINARY.iter().position(|one| *one == suffix) {
        let form = if step == 0 {
            Form::Decimal
        } else {
            Form::Binary
        };
        (
            NANO.checked_mul(1024_i128.checked_pow(u32::try_from(step).ok()?)?)?,
            form,
        )
    } else if let Some(step) = DECIMAL.iter().position(|one| *one == suffix) {
        (
            1000_i128.checked_pow(u32::try_from(step).ok()?)?,
            Form::Decimal,
        )
    } else {
        let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
        let power = u32::try_from(power.checked_add(9)?).ok()?;
        (10_i128.checked_pow(power)?, Form::Exponent)
    };
    // What is smaller than a billionth is rounded up, away from zero.
    let scaled = numerator.checked_mul(multiplier)?;
    let divisor = 10_i128.checked_pow(decimals)?;
    let (mut nanos, rest) = (scaled / divisor, scaled % divisor);
    nanos += rest.signum();
    (nanos.abs() <= i128::from(i64::MAX) * NANO).then_some((nanos, form))
}

/// The digits of a decimal number as an integer, and how many of them are behind the point.
fn digits(number: &str) -> Option<(i128, u32)> {
    let (sign, unsigned) = match number.as_bytes().first()? {
        b'-' => (-1, &number[1..]),
        b'+' => (1, &number[1..]),
        _ => (1, number),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("0{whole}{fraction}");
    let value: i128 = digits.parse().ok()?;
    Some((sign * value, u32::try_from(fraction.len()).ok()?))
}

fn binary(nanos: i128) -> String {
    let mut value = nanos / NANO;
    let mut step = 0;
    while step + 1 < BINARY.len() && value % 1024 == 0 && value != 0 {
        value /= 1024;
        step += 1;
    }
    format!("{value}{}", BINARY[step])
}

fn decimal(nanos: i128) -> String {
    let (value, step) = reduced(nanos);
    format!("{value}{}", DECIMAL[step])
}

fn exponent(nanos: i128) -> String {
    let (value, step) = reduced(nanos);
    match i32::try_from(step).unwrap_or(0) * 3 - 9 {
        0 => value.to_string(),
        power => format!("{value}e{power}"),
    }
}

fn reduced(nanos: i128) -> (i128, usize) {
    if nanos == 0 {
        return (0, 3);
    }
    let (mut value, mut step) = (nanos, 0);
    while step + 1 < DECIMAL.len() && value % 1000 == 0 {
        value /= 1000;
        step += 1;
    }
    (value, step)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("2", "2")]
    #[case("2.0", "2")]
    #[case("0.5", "500m")]
    #[case("1000m", "1")]
    #[case("1500m", "1500m")]
    #[case("1.5Gi", "1536Mi")]
    #[case("1024Mi", "1Gi")]
    #[case("512Mi", "512Mi")]
    #[case("1000", "1k")]
    #[case("1000k", "1M")]
    #[case("0", "0")]
    #[case("0Mi", "0")]
    #[case("100Ki", "100Ki")]
    #[case("0.5Ki", "512")]
    #[case("1.1Ki", "1126400m")]
    #[case("1e3", "1e3")]
    #[case("12E2", "1200")]
    #[case("-1.5", "-1500m")]
    #[case("+1", "1")]
    #[case(".5", "500m")]
    #[case("0.1n", "1n")]
    fn is_canonical(#[case] text: &str, #[case] want: &str) {
        assert_eq!(canonical(text).as_deref(), Some(want));
    }

    #[rstest]
    #[case("")]
    #[case("abc")]
    #[case("1 Gi")]
    #[case("1gi")]
    #[case("1.2.3")]
    #[case("--1")]
    #[case("1e")]
    #[case("e3")]
    #[case("99999999999999999999999")]
    #[case("1e400")]
    fn is_none(#[case] text: &str) {
        assert_eq!(canonical(text), None);
    }

    proptest! {
        #[test]
        fn canonical_twice_is_once(text in "[-+]?[0-9]{1,6}(\\.[0-9]{1,4})?(m|k|M|Ki|Mi|Gi|e2|)") {
            let once = canonical(&text).unwrap();
            prop_assert_eq!(canonical(&once), Some(once.clone()));
            prop_assert_eq!(nanos(&once), nanos(&text));
        }

        #[test]
        fn any_text_is_refused_or_read(text in ".{0,12}") {
            let _ = canonical(&text);
        }
    }
}
