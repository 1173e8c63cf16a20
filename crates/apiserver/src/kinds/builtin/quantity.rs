//! Quantities such as `500m` or `1.5Gi`, made canonical.
//!
//! Clients write them as strings in any form, and some as numbers; Kubernetes answers with the
//! one canonical string (`1000m` and `1.0` are `1`, `0.5` is `500m`, `1024Mi` is `1Gi`), which
//! clients then parse and compare.

use astrago_patch::quantity::{Amount, Form};
use serde_json::Value;

use crate::kinds::schema::node::Kind;
use crate::kinds::schema::{FieldError, Node, Path, Structural};

const PROBLEM: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

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
fn canonical(text: &str) -> Option<String> {
    let amount: Amount = text.parse().ok()?;
    Some(amount.to_string())
}

/// The amount in billionths, for comparisons.
pub(crate) fn nanos(text: &str) -> Option<i128> {
    text.parse().ok().map(Amount::nanos)
}

/// An amount in its canonical form, in powers of two if it is a size.
pub(crate) fn shown(nanos: i128, is_size: bool) -> String {
    let form = if is_size { Form::Binary } else { Form::Decimal };
    Amount::of_nanos(nanos, form).to_string()
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
    #[case("99999999999999999999999", "9223372036854775807")]
    #[case("1e400", "9223372036854775807")]
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
