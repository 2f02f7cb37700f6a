//! Decimal text read as scaled integers, without floating point; and the error for a value that is not acceptable.

use std::fmt::Display;

/// A non-negative decimal number: `digits / 10^places`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal {
    digits: u128,
    places: u32,
}

impl Decimal {
    /// Parses `12`, `12.5` or `.5`. No sign, no exponent, no separators.
    ///
    /// The error is what is wrong with the text.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        if whole.is_empty() && fraction.is_empty() {
            return Err("it has no digits");
        }
        let fraction = fraction.trim_end_matches('0');
        let whole = if whole.len() > 1 {
            whole.trim_start_matches('0')
        } else {
            whole
        };
        let mut digits = 0_u128;
        for byte in whole.bytes().chain(fraction.bytes()) {
            if !byte.is_ascii_digit() {
                return Err("it is not a plain decimal number");
            }
            // Room for the greatest factor of `scaled`, the nanoseconds of a day.
            if digits >= 10_u128.pow(23) {
                return Err(TOO_LONG);
            }
            digits = digits * 10 + u128::from(byte - b'0');
        }
        let places = u32::try_from(fraction.len()).unwrap_or(u32::MAX);
        if places > 24 {
            return Err(TOO_LONG);
        }
        Ok(Self { digits, places })
    }

    pub(crate) fn is_zero(self) -> bool {
        self.digits == 0
    }

    /// The number times `numerator` by `denominator`, to the nearest integer, saturating.
    pub(crate) fn scaled(self, numerator: u64, denominator: u64) -> u128 {
        let Some(product) = self.digits.checked_mul(u128::from(numerator)) else {
            return u128::MAX;
        };
        let divisor = 10_u128.pow(self.places) * u128::from(denominator);
        let rounded_up = product % divisor >= divisor - divisor / 2;
        product / divisor + u128::from(rounded_up)
    }
}

const TOO_LONG: &str = "it has too many digits";

/// Splits `12.5ms` into `12.5` and `ms`.
pub(crate) fn split_unit(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    text.split_at(end)
}

/// `value / 10^places` without trailing zeros.
pub(crate) fn to_decimal(value: u64, places: u32) -> String {
    let one = 10_u64.pow(places);
    let (whole, fraction) = (value / one, value % one);
    if fraction == 0 {
        return whole.to_string();
    }
    let padded = format!("{fraction:0width$}", width = places as usize);
    format!("{whole}.{}", padded.trim_end_matches('0'))
}

/// A single value (a rate, a duration, an arrivals or catch-up policy) that is not acceptable.
///
/// Displays as one lower-case line that names the value, what is wrong with it and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(String);

/// The name of a kind of value, and an example of how to write it.
pub(crate) struct Kind(pub(crate) &'static str, pub(crate) &'static str);

impl ValueError {
    /// The whole message.
    pub(crate) const fn new(message: String) -> Self {
        Self(message)
    }

    /// `text` is not a value of this kind.
    pub(crate) fn not_a(kind: &Kind, text: &str, reason: impl Display) -> Self {
        let Kind(name, advice) = kind;
        Self(format!("`{text}` is not {name}: {reason}; {advice}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_and_rounds_to_the_nearest() {
        let scaled = |text, n, d| Decimal::parse(text).unwrap().scaled(n, d);
        assert_eq!(scaled("1.5", 1_000, 1), 1_500);
        assert_eq!(scaled(".5", 10, 1), 5);
        assert_eq!(scaled("2", 1_000_000, 3600), 556);
        assert_eq!(scaled("0.0000004", 1_000_000, 1), 0);
        assert_eq!(scaled("0.0000005", 1_000_000, 1), 1);
        assert_eq!(scaled("0007.50", 2, 1), 15);
        assert_eq!(scaled("999999999999999999999999", u64::MAX, 1), u128::MAX);
    }

    #[test]
    fn refuses_what_is_not_plain() {
        assert_eq!(Decimal::parse(""), Err("it has no digits"));
        assert_eq!(Decimal::parse("."), Err("it has no digits"));
        assert_eq!(
            Decimal::parse("1.2.3"),
            Err("it is not a plain decimal number")
        );
        assert_eq!(
            Decimal::parse("1e3"),
            Err("it is not a plain decimal number")
        );
        assert_eq!(Decimal::parse(&"9".repeat(40)), Err(TOO_LONG));
        assert_eq!(
            Decimal::parse(&format!("0.{}1", "0".repeat(40))),
            Err(TOO_LONG)
        );
    }
}
