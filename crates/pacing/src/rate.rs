//! Transactions per second, exact to a millionth.

use std::{fmt, str::FromStr};

use crate::decimal::{Decimal, Kind, ValueError, split_unit, to_decimal};

/// A rate in millionths of a transaction per second: 0/s to 10,000,000/s.
///
/// Zero is legal inside a profile (a pause), but a profile must offer something somewhere.
/// As text: `1000`, `1000/s`, `0.5/s`, `30k/m`, `1M/s`, `2/h`, rounded to the nearest millionth
/// per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

/// Millionths per transaction.
const MICROS: u64 = 1_000_000;

impl Rate {
    /// No transactions: a pause.
    pub const ZERO: Self = Self(0);
    /// 10,000,000 transactions per second.
    pub const MAX: Self = Self(10_000_000 * MICROS);

    /// So many transactions per second.
    ///
    /// # Errors
    /// Above 10,000,000/s.
    pub fn per_second(rate: u64) -> Result<Self, ValueError> {
        rate.checked_mul(MICROS)
            .filter(|&micros| micros <= Self::MAX.0)
            .map(Self)
            .ok_or_else(|| too_high(&format!("{rate}/s")))
    }

    /// So many millionths of a transaction per second.
    ///
    /// # Errors
    /// Above 10,000,000/s.
    pub fn from_micros(micros: u64) -> Result<Self, ValueError> {
        if micros > Self::MAX.0 {
            return Err(too_high(&format!("{}/s", micros / MICROS)));
        }
        Ok(Self(micros))
    }

    /// Transactions per second, rounded to the nearest millionth.
    ///
    /// # Errors
    /// Negative, not a number, infinite, above 10,000,000/s, or so small that it rounds to zero.
    pub fn from_f64(rate: f64) -> Result<Self, ValueError> {
        // sentinel sets its pace with each grant; the text is for errors only.
        let text = || format!("{rate}/s");
        if !rate.is_finite() {
            return Err(ValueError::not_a(&RATE, &text(), "it is not finite"));
        }
        if rate < 0.0 {
            return Err(negative(&text()));
        }
        let micros = (rate * MICROS as f64).round();
        if micros > Self::MAX.0 as f64 {
            return Err(too_high(&text()));
        }
        if micros == 0.0 && rate > 0.0 {
            return Err(too_low(&text()));
        }
        Ok(Self(micros as u64))
    }

    /// A rate that internal arithmetic keeps in range.
    pub(crate) const fn clamped(micros: u64) -> Self {
        if micros > Self::MAX.0 {
            Self::MAX
        } else {
            Self(micros)
        }
    }

    /// Millionths of a transaction per second.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Transactions per second, for display and statistics only.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / MICROS as f64
    }

    /// Whether this is a pause.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/s", to_decimal(self.0, 6)))
    }
}

impl FromStr for Rate {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text.trim_start().starts_with('-') {
            return Err(negative(text));
        }
        let trimmed = text.trim();
        parse(text, trimmed.strip_prefix('+').unwrap_or(trimmed))
    }
}

/// Reads the unsigned text of a rate; `shown` is what was given, for messages.
fn parse(shown: &str, unsigned: &str) -> Result<Rate, ValueError> {
    let refuse = |reason: String| ValueError::not_a(&RATE, shown, reason);
    let (amount, unit) = match unsigned.split_once('/') {
        Some((amount, unit)) => (amount.trim(), unit.trim()),
        None => (unsigned.trim(), "s"),
    };
    let seconds = match unit {
        "s" | "sec" => 1,
        "m" | "min" => 60,
        "h" => 3_600,
        other => return Err(refuse(format!("`/{other}` is not one of /s, /m, /h"))),
    };
    let (number, suffix) = split_unit(amount);
    let factor = match suffix {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        _ if number.is_empty() => return Err(refuse("it is not a number".to_owned())),
        other => return Err(refuse(format!("`{other}` is not one of the suffixes k, M"))),
    };
    let decimal = Decimal::parse(number).map_err(|error| refuse(error.to_string()))?;
    match u64::try_from(decimal.scaled(factor * MICROS, seconds)) {
        Ok(0) if !decimal.is_zero() => Err(too_low(shown)),
        Ok(micros) if micros <= Rate::MAX.0 => Ok(Rate(micros)),
        _ => Err(too_high(shown)),
    }
}

const RATE: Kind = Kind(
    "a rate",
    "write a number and a unit, such as 1000/s, 0.5/s, 30k/m or 2/h",
);

fn negative(text: &str) -> ValueError {
    ValueError::new(format!(
        "rate `{text}` is negative: a rate is 0/s to 10000000/s"
    ))
}

fn too_high(text: &str) -> ValueError {
    ValueError::new(format!("rate `{text}` is too high: at most 10000000/s"))
}

fn too_low(text: &str) -> ValueError {
    ValueError::new(format!(
        "rate `{text}` is too low: the smallest rate above zero is 0.000001/s"
    ))
}

/// A change of rate: -10,000,000/s to +10,000,000/s, in millionths.
///
/// As text like [`Rate`], with an optional sign: `500/s`, `+500/s`, `-0.5/s`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SignedRate(i64);

impl SignedRate {
    /// A rise by `rate`.
    pub fn rise(rate: Rate) -> Self {
        Self(rate.0.cast_signed())
    }

    /// A fall by `rate`.
    pub fn fall(rate: Rate) -> Self {
        Self(-rate.0.cast_signed())
    }

    /// So many millionths of a transaction per second.
    ///
    /// # Errors
    /// Beyond 10,000,000/s in either direction.
    pub fn from_micros(micros: i64) -> Result<Self, ValueError> {
        Rate::from_micros(micros.unsigned_abs()).map(|_| Self(micros))
    }

    /// Millionths of a transaction per second.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The size of the change.
    pub fn magnitude(self) -> Rate {
        Rate(self.0.unsigned_abs())
    }

    /// Whether the rate falls.
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Whether nothing changes.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for SignedRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SignedRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative() { '-' } else { '+' };
        f.pad(&format!("{sign}{}", self.magnitude()))
    }
}

impl FromStr for SignedRate {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let trimmed = text.trim();
        match trimmed.strip_prefix('-') {
            Some(unsigned) => parse(text, unsigned).map(Self::fall),
            None => parse(text, trimmed.strip_prefix('+').unwrap_or(trimmed)).map(Self::rise),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_every_form() {
        let read = |text: &str| text.parse::<Rate>().unwrap().as_micros();
        assert_eq!(read("1000"), 1_000_000_000);
        assert_eq!(read("1000/s"), 1_000_000_000);
        assert_eq!(read("0.5/s"), 500_000);
        assert_eq!(read("30k/m"), 500_000_000);
        assert_eq!(read("1M/s"), 1_000_000_000_000);
        assert_eq!(read("10M"), Rate::MAX.as_micros());
        assert_eq!(read("2/h"), 556);
        assert_eq!(read("0"), 0);
        assert_eq!(read(" +3 / s "), 3_000_000);
    }

    #[test]
    fn refuses_with_what_is_allowed() {
        let refused = |text: &str| text.parse::<Rate>().unwrap_err().to_string();
        assert_eq!(
            refused("-5/s"),
            "rate `-5/s` is negative: a rate is 0/s to 10000000/s"
        );
        assert_eq!(refused("11M"), "rate `11M` is too high: at most 10000000/s");
        assert_eq!(
            refused("10000000.000001"),
            "rate `10000000.000001` is too high: at most 10000000/s"
        );
        assert!(refused("0.0000001").contains("too low"));
        assert!(refused("NaN").contains("not a number"));
        assert!(refused("inf").contains("not a number"));
        assert!(refused("").contains("no digits"));
        assert!(refused("5/fortnight").contains("`/fortnight` is not one of"));
        assert!(refused("1e3").contains("`e3` is not one of the suffixes"));
        assert!(refused("5G").contains("suffixes k, M"));
    }

    #[test]
    fn floats_are_checked() {
        assert_eq!(Rate::from_f64(0.1).unwrap().as_micros(), 100_000);
        assert!(Rate::from_f64(f64::NAN).is_err());
        assert!(Rate::from_f64(f64::INFINITY).is_err());
        assert!(Rate::from_f64(-1.0).is_err());
        assert!(Rate::from_f64(1e-9).is_err());
        assert!(Rate::from_f64(10_000_001.0).is_err());
    }

    #[test]
    fn signed_rates_carry_their_sign() {
        assert_eq!(
            "-0.5/s".parse::<SignedRate>().unwrap().as_micros(),
            -500_000
        );
        assert_eq!(
            "+500/s".parse::<SignedRate>().unwrap().to_string(),
            "+500/s"
        );
        assert!("--5".parse::<SignedRate>().is_err());
        assert!(SignedRate::from_micros(i64::MIN).is_err());
    }

    proptest! {
        #[test]
        fn text_and_back(micros in 0..=Rate::MAX.as_micros()) {
            let rate = Rate::from_micros(micros).unwrap();
            prop_assert_eq!(rate.to_string().parse::<Rate>().unwrap(), rate);
        }
    }
}
