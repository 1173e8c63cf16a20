use proptest::prelude::*;
use rstest::rstest;

use super::*;

#[rstest]
#[case::zero("0", "0")]
#[case::zero_with_suffix("0Ki", "0")]
#[case::whole("4", "4")]
#[case::plus("+4", "4")]
#[case::negative("-1.5", "-1500m")]
#[case::half("0.5", "500m")]
#[case::no_whole_part(".5", "500m")]
#[case::no_fraction("5.", "5")]
#[case::leading_zeros("000.0100", "10m")]
#[case::milli("2500m", "2500m")]
#[case::milli_that_is_whole("3000m", "3")]
#[case::thousands("1500", "1500")]
#[case::thousands_with_suffix("1000", "1k")]
#[case::micro("1u", "1u")]
#[case::below_nano_rounds_up("0.1n", "1n")]
#[case::negative_below_nano_rounds_away("-0.1n", "-1n")]
#[case::binary("1.5Gi", "1536Mi")]
#[case::binary_kept("64Gi", "64Gi")]
#[case::binary_small_is_decimal("512Mi", "512Mi")]
#[case::binary_below_1024("0.5Ki", "512")]
#[case::binary_fraction_below_one("0.0001Ki", "102400u")]
#[case::binary_not_whole("1.0005Ki", "1024512m")]
#[case::binary_of_odd_bytes("1025Ki", "1025Ki")]
#[case::exa("1E", "1E")]
#[case::exbi("1Ei", "1Ei")]
#[case::exponent("1e3", "1e3")]
#[case::capital_exponent("12E6", "12e6")]
#[case::signed_exponent("5e-3", "5e-3")]
#[case::exponent_is_a_multiple_of_three("1e4", "10e3")]
#[case::exponent_zero("7e0", "7")]
#[case::plus_exponent("1e+3", "1e3")]
#[case::capped("100E", "9223372036854775807")]
#[case::capped_exponent("1e999999999999999999999999", "9223372036854775807")]
#[case::tiny_exponent("1e-999999999999999999999999", "1e-9")]
#[case::zero_exponent("0e999999999999999999999999", "0")]
#[case::long_fraction("0.0000000000000000000000000000000000000000000001Ei", "1n")]
#[case::long_number_small_exponent("1000000000000000000000000000000000000000000e-42", "1")]
fn prints_what_it_parses_in_canonical_form(#[case] text: &str, #[case] want: &str) {
    let amount: Amount = text.parse().unwrap();
    assert_eq!(amount.to_string(), want);
}

#[rstest]
fn refuses_what_is_not_a_quantity(
    #[values(
        "", " ", "+", "-", ".", "1..2", "1.2.3", "abc", "1 Gi", "1GB", "1gi", "1K", "0x10", "1e",
        "1e+", "1e1.5", "--1", "1Kii", "1_000", "NaN", "inf", "1m5"
    )]
    text: &str,
) {
    let error = text.parse::<Amount>().unwrap_err();
    assert!(error.to_string().contains("is not a quantity"));
}

#[test]
fn compares_by_value_across_forms() {
    let parse = |text: &str| text.parse::<Amount>().unwrap();
    assert_eq!(parse("1Ki"), parse("1024"));
    assert_eq!(parse("0.5"), parse("500m"));
    assert!(parse("1G") < parse("1Gi"));
    assert_eq!(parse("2500m").units_up(), 3);
    assert_eq!(parse("-2500m").units_up(), -2);
    assert_eq!(parse("1.0001").millis_up(), 1001);
    assert_eq!(parse("10").times(parse("3")), Some(3));
    assert_eq!(parse("10").times(Amount::ZERO), None);
}

#[test]
fn a_sum_keeps_the_form_of_its_parts() {
    let total: Amount = ["1Gi", "512Mi"]
        .iter()
        .map(|text| text.parse().unwrap())
        .sum();
    assert_eq!(total.to_string(), "1536Mi");
    assert_eq!((Amount::milli(500) + Amount::milli(500)).to_string(), "1");
}

fn form() -> impl Strategy<Value = Form> {
    prop_oneof![
        Just(Form::Decimal),
        Just(Form::Binary),
        Just(Form::Exponent)
    ]
}

proptest! {
    /// The printed form means the same value, and printing it again changes nothing.
    #[test]
    fn parsing_what_was_printed_gives_the_same(nanos in -CAP..=CAP, form in form()) {
        let amount = Amount { nanos, form };
        let printed = amount.to_string();
        let again: Amount = printed.parse().unwrap();
        prop_assert_eq!(again, amount);
        prop_assert_eq!(again.to_string(), printed);
    }

    #[test]
    fn whole_binary_amounts_round_trip(units in 0..=i64::MAX) {
        let amount = Amount::bytes(units);
        prop_assert_eq!(amount.to_string().parse::<Amount>().unwrap(), amount);
    }

    /// Moving the point by the suffix is the same as writing the zeros out.
    #[test]
    fn suffixes_agree_with_zeros(value in 0_u32..1_000_000, power in 0_usize..4) {
        let suffix = ["", "k", "M", "G"][power];
        let short: Amount = format!("{value}{suffix}").parse().unwrap();
        let long: Amount = format!("{value}{}", "000".repeat(power)).parse().unwrap();
        let exponent: Amount = format!("{value}e{}", power * 3).parse().unwrap();
        prop_assert_eq!(short, long);
        prop_assert_eq!(short, exponent);
    }

    #[test]
    fn any_text_is_answered(text in "[-+0-9.eEinumkKMGTP]{0,40}") {
        if let Ok(amount) = text.parse::<Amount>() {
            prop_assert_eq!(amount.to_string().parse::<Amount>().unwrap(), amount);
        }
    }
}
