//! A part of a whole.

use std::fmt;
use std::str::FromStr;

/// A part of one: `5%` or `0.05`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(f64);

impl Share {
    /// The part, between 0 and 1.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (digits, factor) = match text.trim().strip_suffix('%') {
            Some(digits) => (digits.trim(), 0.01),
            None => (text.trim(), 1.0),
        };
        match digits.parse::<f64>() {
            Ok(number) if number > 0.0 && number * factor < 1.0 => Ok(Self(number * factor)),
            _ => Err(format!(
                "{text:?} is no share; write for instance 5% or 0.05, above 0 and below 1"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percentages_or_fractions() {
        assert_eq!("5%".parse(), Ok(Share(0.05)));
        assert_eq!("0.25".parse(), Ok(Share(0.25)));
        for text in ["0", "100%", "1", "-5%", "much"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }
}
