//! A number of bytes, and an exact number of transactions.

use std::fmt;
use std::str::FromStr;

use crate::decimal::{Kind, ValueError, to_decimal};

/// A number of bytes.
///
/// As text: a whole number with a unit or without one, `64MiB`, `100kB`, `1000000`, `1_000_000`; the case of a unit does
/// not matter. It displays as a whole number of the largest unit with a power of 1,024, else of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Size(pub usize);

/// Units with their length in bytes.
const UNITS: [(&str, usize); 8] = [
    ("", 1),
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

const SIZE: Kind = Kind("a size", "write for instance 250, 100kB or 64MiB");

impl FromStr for Size {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let refuse = |reason| ValueError::not_a(&SIZE, text, reason);
        let trimmed = text.trim();
        let unit = trimmed.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
        let number = trimmed[..trimmed.len() - unit.len()].replace('_', "");
        if number.is_empty() {
            return Err(refuse("it begins with no number"));
        }
        let known = |(name, _): &&(&str, usize)| name.eq_ignore_ascii_case(unit.trim());
        let (_, bytes) = UNITS
            .iter()
            .find(known)
            .ok_or_else(|| refuse("its unit is unknown"))?;
        let number = number.parse::<usize>().ok();
        let size = number.and_then(|number| number.checked_mul(*bytes));
        size.map(Self).ok_or_else(|| refuse("it is too large"))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(name, unit): &&(&str, usize)| {
            name.ends_with("iB") && self.0 >= *unit && self.0.is_multiple_of(*unit)
        };
        match UNITS.iter().rev().find(fits) {
            Some((name, unit)) => write!(f, "{}{name}", self.0 / unit),
            None => self.0.fmt(f),
        }
    }
}

impl From<usize> for Size {
    fn from(bytes: usize) -> Self {
        Self(bytes)
    }
}

impl From<Size> for usize {
    fn from(size: Size) -> Self {
        size.0
    }
}

/// A number of transactions in units of 10⁻¹⁵: the area under a profile.
///
/// The unit is what one nanosecond at a millionth of a transaction per second amounts to, so that
/// the area under a constant rate is the plain product of two integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Count(u128);

/// Units of area per transaction.
pub(crate) const ONE: u128 = 1_000_000_000_000_000;

impl Count {
    pub(crate) const fn from_area(area: u128) -> Self {
        Self(area)
    }

    /// Whole transactions, rounded down.
    pub const fn whole(self) -> u64 {
        (self.0 / ONE) as u64
    }

    /// What is left above [`Count::whole`], in 10⁻¹⁵ transactions.
    pub const fn fraction(self) -> u64 {
        (self.0 % ONE) as u64
    }

    /// Whole transactions, rounded up: how many due times lie before the instant the integral was
    /// taken at.
    pub const fn rounded_up(self) -> u64 {
        self.0.div_ceil(ONE) as u64
    }

    /// All of it in 10⁻¹⁵ transactions.
    pub const fn as_femto(self) -> u128 {
        self.0
    }

    /// Transactions, for display and statistics only.
    pub fn as_f64(self) -> f64 {
        self.whole() as f64 + self.fraction() as f64 / ONE as f64
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = to_decimal(self.fraction(), 15);
        write!(f, "{}{}", self.whole(), &fraction[1..])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_are_those_of_1000_and_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("250", 250),
            ("250B", 250),
            ("1_000_000", 1_000_000),
            ("5 kB", 5_000),
            ("5KB", 5_000),
            ("1MB", 1_000_000),
            ("1KiB", 1_024),
            (" 64mib ", 64 << 20),
            ("2GiB", 2 << 30),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_what_is_one() {
        for text in [
            "",
            "MiB",
            "64 megs",
            "1.5MiB",
            "-1",
            "99999999999999999999",
            "18446744073709551615GiB",
        ] {
            let error = text.parse::<Size>().unwrap_err().to_string();
            assert!(
                error.contains("is not a size") && error.contains("64MiB"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_largest_unit_that_fits_is_written() {
        for (bytes, text) in [
            (0, "0"),
            (1_000_000, "1000000"),
            (64 << 20, "64MiB"),
            (1 << 10, "1KiB"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(bytes: usize) {
            prop_assert_eq!(Size(bytes).to_string().parse(), Ok(Size(bytes)));
        }
    }

    #[test]
    fn splits_into_whole_and_fraction() {
        let count = Count::from_area(2 * ONE + ONE / 4);
        assert_eq!(
            (count.whole(), count.fraction(), count.rounded_up()),
            (2, 250_000_000_000_000, 3)
        );
        assert_eq!(count.to_string(), "2.25");
        assert_eq!(Count::from_area(3 * ONE).rounded_up(), 3);
    }
}
