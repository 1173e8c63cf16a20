//! Exact arithmetic on Kubernetes quantities.
//!
//! On the wire a quantity is a string (`k8s_openapi`'s `Quantity`): `500m`, `1.5Gi`, `2e3`. An
//! [`Amount`] is its value: a whole number of nano-units in 128 bits, never a floating point
//! number. As in Kubernetes an amount remembers which family of suffixes it was written with,
//! prints itself in canonical form (no fraction, the largest suffix that loses nothing), is rounded
//! away from zero below one nano-unit ("if you asked for some, you get some") and is capped at
//! 2^63-1 whole units.

use std::cmp::Ordering;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Sub};
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::{Deserialize, Serialize};

/// The value of a quantity. Two amounts are equal when their values are, however they were written.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Quantity", into = "Quantity")]
pub struct Amount {
    nanos: i128,
    form: Form,
}

/// Which family of suffixes an amount is printed with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// `m`, none, `k`, `M`, …
    #[default]
    Decimal,
    /// `Ki`, `Mi`, `Gi`, …
    Binary,
    /// `e3`, `e6`, …
    Exponent,
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a quantity: write a number with an optional suffix, such as 500m, 2, 1.5Gi or 1e3"
)]
pub struct Error {
    text: String,
}

const NANO: i128 = 1_000_000_000;
const CAP: i128 = i64::MAX as i128 * NANO;
const DECIMAL: [(&str, i64); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Amount {
    pub const ZERO: Self = Self {
        nanos: 0,
        form: Form::Decimal,
    };

    pub fn whole(units: i64) -> Self {
        Self::capped(i128::from(units) * NANO, Form::Decimal)
    }

    /// A whole number of thousandths.
    pub fn milli(thousandths: i64) -> Self {
        Self::capped(i128::from(thousandths) * 1_000_000, Form::Decimal)
    }

    /// A whole number of bytes, printed with binary suffixes.
    pub fn bytes(bytes: i64) -> Self {
        Self::capped(i128::from(bytes) * NANO, Form::Binary)
    }

    /// The given number of billionths of a unit.
    pub fn of_nanos(nanos: i128, form: Form) -> Self {
        Self::capped(nanos, form)
    }

    /// The same value, printed in another form.
    #[must_use]
    pub fn in_form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    /// The form that it is printed in.
    pub fn form(self) -> Form {
        self.form
    }

    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// Whether it is nothing.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is more than nothing.
    pub fn is_positive(self) -> bool {
        self.nanos > 0
    }

    /// Whole units, rounded up.
    pub fn units_up(self) -> i64 {
        clamp(div_ceil(self.nanos, NANO))
    }

    /// Thousandths, rounded up: the millicores of a CPU amount.
    pub fn millis_up(self) -> i64 {
        clamp(div_ceil(self.nanos, 1_000_000))
    }

    /// How many times `part` is contained in this amount; `None` when `part` is not positive.
    pub fn times(self, part: Self) -> Option<u64> {
        (part.nanos > 0).then(|| u64::try_from(self.nanos.max(0) / part.nanos).unwrap_or(u64::MAX))
    }

    /// A multiple of this amount.
    #[must_use]
    pub fn scaled(self, factor: u64) -> Self {
        Self::capped(self.nanos.saturating_mul(i128::from(factor)), self.form)
    }

    /// This amount, or nothing if it is negative.
    #[must_use]
    pub fn at_least_zero(self) -> Self {
        Self {
            nanos: self.nanos.max(0),
            ..self
        }
    }

    fn capped(nanos: i128, form: Form) -> Self {
        Self {
            nanos: nanos.clamp(-CAP, CAP),
            form,
        }
    }
}

/// The sum keeps the form of its first part that is not zero, so that adding to nothing changes
/// nothing.
impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let form = if self.is_zero() {
            other.form
        } else {
            self.form
        };
        Self::capped(self.nanos + other.nanos, form)
    }
}

impl Sub for Amount {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        let form = if self.is_zero() {
            other.form
        } else {
            self.form
        };
        Self::capped(self.nanos - other.nanos, form)
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::ZERO, Add::add)
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Amount {}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl FromStr for Amount {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).ok_or_else(|| Error {
            text: text.chars().take(64).collect(),
        })
    }
}

impl TryFrom<&Quantity> for Amount {
    type Error = Error;

    fn try_from(quantity: &Quantity) -> Result<Self, Error> {
        quantity.0.parse()
    }
}

impl TryFrom<Quantity> for Amount {
    type Error = Error;

    fn try_from(quantity: Quantity) -> Result<Self, Error> {
        quantity.0.parse()
    }
}

impl From<Amount> for Quantity {
    fn from(amount: Amount) -> Self {
        Self(amount.to_string())
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Small or fractional amounts would lose precision with binary suffixes.
        let binary =
            self.form == Form::Binary && self.nanos % NANO == 0 && self.nanos.abs() >= 1024 * NANO;
        if binary {
            let (mut value, mut power) = (self.nanos / NANO, 0);
            while value % 1024 == 0 && power + 1 < BINARY.len() {
                (value, power) = (value / 1024, power + 1);
            }
            return write!(f, "{value}{}", BINARY[power]);
        }
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let (mut value, mut power) = (self.nanos, 0);
        while value % 1000 == 0 && power + 1 < DECIMAL.len() {
            (value, power) = (value / 1000, power + 1);
        }
        let (suffix, exponent) = DECIMAL[power];
        match self.form {
            Form::Exponent if exponent != 0 => write!(f, "{value}e{exponent}"),
            _ => write!(f, "{value}{suffix}"),
        }
    }
}

fn parse(text: &str) -> Option<Amount> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let number_end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || fraction.contains('.') {
        return None;
    }
    // The number is kept as decimal digits, most significant first, until it is known how many of
    // them count: neither a long fraction nor a large suffix can lose anything on the way.
    let mut digits: Vec<u32> = whole
        .bytes()
        .chain(fraction.bytes())
        .map(|byte| u32::from(byte - b'0'))
        .collect();
    let fraction = i64::try_from(fraction.len()).ok()?;
    let (exponent, mut form) = suffix_of(suffix, &mut digits)?;
    let nanos = nanos_of(&digits, exponent.saturating_add(9).saturating_sub(fraction));
    if form == Form::Binary && nanos < NANO {
        form = Form::Decimal;
    }
    Some(Amount {
        nanos: if negative { -nanos } else { nanos },
        form,
    })
}

/// The power of ten that a suffix means. A binary suffix is multiplied into the digits instead.
fn suffix_of(suffix: &str, digits: &mut Vec<u32>) -> Option<(i64, Form)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((*exponent, Form::Decimal));
    }
    if let Some(power) = BINARY.iter().position(|name| *name == suffix) {
        for _ in 0..power {
            multiply(digits, 1024);
        }
        return Some((0, Form::Binary));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let bare = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if bare.is_empty() || !bare.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let far = if exponent.starts_with('-') {
        i64::MIN / 2
    } else {
        i64::MAX / 2
    };
    let exponent = exponent
        .parse::<i64>()
        .unwrap_or(far)
        .clamp(i64::MIN / 2, i64::MAX / 2);
    Some((exponent, Form::Exponent))
}

fn multiply(digits: &mut Vec<u32>, factor: u32) {
    let mut carry = 0;
    for digit in digits.iter_mut().rev() {
        let product = *digit * factor + carry;
        *digit = product % 10;
        carry = product / 10;
    }
    while carry > 0 {
        digits.insert(0, carry % 10);
        carry /= 10;
    }
}

/// `digits × 10^scale`, rounded up and capped.
fn nanos_of(digits: &[u32], scale: i64) -> i128 {
    let leading = digits.iter().take_while(|digit| **digit == 0).count();
    let digits = &digits[leading..];
    if digits.is_empty() {
        return 0;
    }
    let dropped = usize::try_from(scale.saturating_neg().max(0)).unwrap_or(usize::MAX);
    let kept = digits.len().saturating_sub(dropped);
    let rounds_up = digits[kept..].iter().any(|digit| *digit != 0);
    let mut value: i128 = 0;
    for digit in &digits[..kept] {
        value = value.saturating_mul(10).saturating_add(i128::from(*digit));
    }
    for _ in 0..scale.clamp(0, 40) {
        value = value.saturating_mul(10);
    }
    value.saturating_add(i128::from(rounds_up)).min(CAP)
}

fn div_ceil(value: i128, by: i128) -> i128 {
    value.div_euclid(by) + i128::from(value.rem_euclid(by) != 0)
}

fn clamp(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests;
