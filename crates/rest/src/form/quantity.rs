//! What to say to a person whose quantity cannot be read.

use astrago_api::quantity::Amount;

use crate::model::Refusal;

/// Reads a quantity (`4`, `500m`, `16Gi`, `1.5G`, `2e3`).
///
/// The messages speak to a person: what is wrong and what would be right.
pub(crate) fn read(text: &str) -> Result<Amount, Refusal> {
    text.parse().map_err(|_| {
        let digits = text
            .find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-'))
            .unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits);
        wrong(text, number, suffix)
    })
}

/// The same, for amounts that must be more than nothing.
pub(crate) fn read_positive(text: &str) -> Result<Amount, Refusal> {
    let amount = read(text)?;
    if amount.is_positive() {
        Ok(amount)
    } else {
        Err("must be more than zero".into())
    }
}

fn wrong(text: &str, number: &str, suffix: &str) -> Refusal {
    let unit = suffix
        .trim()
        .trim_end_matches(['b', 'B'])
        .trim_end_matches('i');
    match unit.to_ascii_uppercase().as_str() {
        "G" | "M" | "K" | "T" if !number.is_empty() => {
            let unit = unit.to_ascii_uppercase();
            let decimal = if unit == "K" { "k" } else { unit.as_str() };
            Refusal::QuantityUnit {
                value: text.to_owned(),
                binary: format!("{number}{unit}i"),
                decimal: format!("{number}{decimal}"),
            }
        }
        _ => Refusal::Quantity {
            value: text.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("16GB", "16Gi")]
    #[case("512mb", "512Mi")]
    #[case("lots", "is not a quantity")]
    #[case("", "is not a quantity")]
    #[case("1.2.3", "is not a quantity")]
    #[case("--1", "is not a quantity")]
    #[case("1 Gi", "1Gi")]
    fn wrong_quantities_are_explained(#[case] text: &str, #[case] want: &str) {
        let message = read(text).unwrap_err().to_string();
        assert!(message.contains(want), "{message}");
    }
}
