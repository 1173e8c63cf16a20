//! Kubernetes quantities, as far as a form needs them: is it well written, and how much is it?

/// Reads a quantity (`4`, `500m`, `16Gi`, `1.5G`, `2e3`) into thousandths of its unit.
///
/// The messages speak to a person: what is wrong and what would be right.
pub(crate) fn parse_milli(text: &str) -> Result<i128, String> {
    let digits = text
        .find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let scale = scale_of(suffix).ok_or_else(|| wrong_suffix(text, number, suffix))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let negative = whole.starts_with('-');
    let whole = whole.strip_prefix(['+', '-']).unwrap_or(whole);
    let well_formed = |part: &str| part.bytes().all(|b| b.is_ascii_digit()) && part.len() <= 18;
    if whole.is_empty() && fraction.is_empty() || !well_formed(whole) || !well_formed(fraction) {
        return Err(format!(
            "{text:?} is not a quantity; write for example \"4\", \"500m\" or \"16Gi\""
        ));
    }
    let mantissa: i128 = format!("{whole}{fraction}")
        .parse()
        .map_err(|_| not_a_quantity(text))?;
    let divisor = 10_i128.pow(u32::try_from(fraction.len()).unwrap_or(18));
    let scaled = match scale {
        Scale::Milli => Some(mantissa),
        Scale::Times(factor) => mantissa
            .checked_mul(factor)
            .and_then(|n| n.checked_mul(1000)),
    }
    .ok_or_else(|| format!("{text:?} is too large"))?;
    // Round up, as Kubernetes does with what is finer than it can store.
    let milli = scaled / divisor + i128::from(scaled % divisor != 0);
    Ok(if negative { -milli } else { milli })
}

/// Whole units, rounded up: bytes of memory, whole devices.
pub(crate) fn whole(milli: i128) -> i128 {
    milli / 1000 + i128::from(milli % 1000 > 0)
}

enum Scale {
    Milli,
    Times(i128),
}

fn scale_of(suffix: &str) -> Option<Scale> {
    let factor = match suffix {
        "m" => return Some(Scale::Milli),
        "" => 1,
        "k" => 1000,
        "M" => 1000_i128.pow(2),
        "G" => 1000_i128.pow(3),
        "T" => 1000_i128.pow(4),
        "P" => 1000_i128.pow(5),
        "E" => 1000_i128.pow(6),
        "Ki" => 1024,
        "Mi" => 1024_i128.pow(2),
        "Gi" => 1024_i128.pow(3),
        "Ti" => 1024_i128.pow(4),
        "Pi" => 1024_i128.pow(5),
        "Ei" => 1024_i128.pow(6),
        exponent => {
            let power: u32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            10_i128.checked_pow(power).filter(|_| power <= 18)?
        }
    };
    Some(Scale::Times(factor))
}

fn wrong_suffix(text: &str, number: &str, suffix: &str) -> String {
    let unit = suffix
        .trim()
        .trim_end_matches(['b', 'B'])
        .trim_end_matches('i');
    match unit.to_ascii_uppercase().as_str() {
        "G" | "M" | "K" | "T" if !number.is_empty() => {
            let unit = unit.to_ascii_uppercase();
            let decimal = if unit == "K" { "k" } else { unit.as_str() };
            format!(
                "{text:?} is not a quantity; write \"{number}{unit}i\" (powers of 1024) or \
                 \"{number}{decimal}\" (powers of 1000)"
            )
        }
        _ => not_a_quantity(text),
    }
}

fn not_a_quantity(text: &str) -> String {
    format!("{text:?} is not a quantity; write for example \"4\", \"500m\" or \"16Gi\"")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("4", 4_000)]
    #[case("500m", 500)]
    #[case("0.5", 500)]
    #[case("1.5Gi", 1_610_612_736_000)]
    #[case("16G", 16_000_000_000_000)]
    #[case("2e3", 2_000_000)]
    #[case("0.0001", 1)]
    #[case("-1", -1_000)]
    fn quantities_are_read(#[case] text: &str, #[case] want: i128) {
        assert_eq!(parse_milli(text), Ok(want));
    }

    #[rstest]
    #[case("16GB", "16Gi")]
    #[case("512mb", "512Mi")]
    #[case("lots", "is not a quantity")]
    #[case("", "is not a quantity")]
    #[case("1.2.3", "is not a quantity")]
    #[case("--1", "is not a quantity")]
    #[case("9999999999999999999999", "is not a quantity")]
    #[case("1 Gi", "1Gi")]
    fn wrong_quantities_are_explained(#[case] text: &str, #[case] want: &str) {
        let message = parse_milli(text).unwrap_err();
        assert!(message.contains(want), "{message}");
    }
}
