//! Bits a second.

use std::fmt;
use std::str::FromStr;

/// Bits a second, as they are written: a number and bit/s, kbit/s, Mbit/s or Gbit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BitRate(f64);

impl BitRate {
    /// Bits a second.
    #[must_use]
    pub const fn bits_per_second(self) -> f64 {
        self.0
    }
}

impl FromStr for BitRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = UNITS.iter().find_map(|(unit, factor)| {
            let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
            Some(number * factor)
        });
        let rate = found.filter(|rate| rate.is_finite() && *rate > 0.0);
        rate.map(Self).ok_or_else(|| {
            "write a number above 0 and bit/s, kbit/s, Mbit/s or Gbit/s, as in 30Mbit/s".into()
        })
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_small_enough = |(_, factor): &&(&str, f64)| *factor <= self.0;
        let (unit, factor) = UNITS.iter().find(is_small_enough).unwrap_or(&UNITS[3]);
        write!(f, "{}{unit}", self.0 / factor)
    }
}

/// The largest first; `bit/s` ends the others.
const UNITS: [(&str, f64); 4] = [
    ("Gbit/s", 1e9),
    ("Mbit/s", 1e6),
    ("kbit/s", 1e3),
    ("bit/s", 1.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_nothing_is_no_rate() {
        for text in ["30Mbit/s", "2.5Gbit/s", "64kbit/s", "9bit/s"] {
            assert_eq!(text.parse::<BitRate>().unwrap().to_string(), text);
        }
        for text in ["0Mbit/s", "-1bit/s", "30", "30mb"] {
            assert!(text.parse::<BitRate>().is_err(), "{text}");
        }
    }
}
