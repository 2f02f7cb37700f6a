//! Time since the run's origin, or a span of it.

use std::{fmt, str::FromStr, time::Duration};

use crate::decimal::{Decimal, Kind, ValueError, split_unit, to_decimal};

/// Nanoseconds since the run's origin, or a span of nanoseconds. 0 to about 584 years.
///
/// As text: numbers with a unit, `30s`, `1.5s`, `100ms`, `250us`, `2m`, `1h30m`; it displays as the
/// shortest such text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(u64);

const PER_SECOND: u64 = 1_000_000_000;

/// Units from the longest to the shortest, with their length in nanoseconds.
const UNITS: [(&str, u64); 9] = [
    ("d", 86_400 * PER_SECOND),
    ("h", 3_600 * PER_SECOND),
    ("min", 60 * PER_SECOND),
    ("m", 60 * PER_SECOND),
    ("s", PER_SECOND),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];

impl Nanos {
    /// The origin, or no time at all.
    pub const ZERO: Self = Self(0);
    /// The last instant that can be expressed, about 584 years.
    pub const MAX: Self = Self(u64::MAX);

    /// So many nanoseconds.
    pub const fn new(nanos: u64) -> Self {
        Self(nanos)
    }

    /// So many nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// So many microseconds; [`Nanos::MAX`] when that is too many.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// So many milliseconds; [`Nanos::MAX`] when that is too many.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// So many seconds; [`Nanos::MAX`] when that is too many.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(PER_SECOND))
    }

    /// The number of nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Whole seconds, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / PER_SECOND
    }

    /// Seconds, for display and statistics only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PER_SECOND as f64
    }

    /// Milliseconds, for display and statistics only.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Whether this is the origin or an empty span.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The sum, at most [`Nanos::MAX`].
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, zero when `other` is later.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The multiple, at most [`Nanos::MAX`].
    pub const fn saturating_mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    /// The same span as the standard library's type.
    pub const fn as_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl From<Duration> for Nanos {
    /// [`Nanos::MAX`] when the duration is longer than that.
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        nanos.as_duration()
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_duration().fmt(f)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = shortest(self.0);
        f.pad(&text)
    }
}

/// The shortest of the whole number of hours, minutes or seconds and the decimal number of seconds,
/// milliseconds, microseconds or nanoseconds; of equally short ones the longest unit.
fn shortest(nanos: u64) -> String {
    if nanos == 0 {
        return "0s".to_owned();
    }
    let mut best: Option<String> = None;
    for (unit, places) in [
        ("h", None),
        ("m", None),
        ("s", Some(9)),
        ("ms", Some(6)),
        ("us", Some(3)),
        ("ns", Some(0)),
    ] {
        let text = match places {
            Some(places) => format!("{}{unit}", to_decimal(nanos, places)),
            None => {
                let length = if unit == "h" { 3_600 } else { 60 } * PER_SECOND;
                if !nanos.is_multiple_of(length) {
                    continue;
                }
                format!("{}{unit}", nanos / length)
            }
        };
        if best.as_ref().is_none_or(|best| text.len() < best.len()) {
            best = Some(text);
        }
    }
    best.unwrap_or_default()
}

const DURATION: Kind = Kind(
    "a duration",
    "write a number and a unit, such as 30s, 1.5s, 100ms, 2m or 1h",
);

impl FromStr for Nanos {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let trimmed = text.trim();
        let refuse = |reason: String| ValueError::not_a(&DURATION, text, reason);
        if trimmed.is_empty() {
            return Err(refuse("it is empty".to_owned()));
        }
        if trimmed.starts_with('-') {
            return Err(refuse("it is negative".to_owned()));
        }
        let mut rest = trimmed;
        let mut total = 0_u128;
        let mut longest_left = u64::MAX;
        while !rest.is_empty() {
            let (number, tail) = split_unit(rest);
            let unit_end = tail
                .find(|c: char| c.is_ascii_digit() || c == '.')
                .unwrap_or(tail.len());
            let (unit, after) = tail.split_at(unit_end);
            let decimal = Decimal::parse(number).map_err(|error| refuse(error.to_string()))?;
            if unit.is_empty() {
                return Err(refuse(format!("`{number}` has no unit")));
            }
            let Some((_, length)) = UNITS.iter().find(|(name, _)| *name == unit) else {
                return Err(refuse(format!(
                    "`{unit}` is not one of d, h, m, s, ms, us, ns"
                )));
            };
            if *length >= longest_left {
                return Err(refuse("its units must go from long to short".to_owned()));
            }
            longest_left = *length;
            total = total.saturating_add(decimal.scaled(*length, 1));
            rest = after;
        }
        u64::try_from(total).map(Self).map_err(|_| {
            ValueError::new(format!(
                "duration `{text}` is too long: at most 213503 days can be counted in nanoseconds"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_every_unit() {
        let read = |text: &str| text.parse::<Nanos>().unwrap().as_nanos();
        assert_eq!(read("30s"), 30 * PER_SECOND);
        assert_eq!(read("1.5s"), 1_500_000_000);
        assert_eq!(read("100ms"), 100_000_000);
        assert_eq!(read("2m"), 120 * PER_SECOND);
        assert_eq!(read("1h"), 3_600 * PER_SECOND);
        assert_eq!(read("250us"), 250_000);
        assert_eq!(read("250µs"), 250_000);
        assert_eq!(read("1h30m"), 5_400 * PER_SECOND);
        assert_eq!(read(" 1d "), 86_400 * PER_SECOND);
        assert_eq!(read("0s"), 0);
    }

    #[test]
    fn displays_the_shortest_text() {
        let shown = |nanos| Nanos::new(nanos).to_string();
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(1_500_000_000), "1.5s");
        assert_eq!(shown(90 * PER_SECOND), "90s");
        assert_eq!(shown(60 * PER_SECOND), "1m");
        assert_eq!(shown(5_400 * PER_SECOND), "90m");
        assert_eq!(shown(100_000_000), "0.1s");
        assert_eq!(shown(250_000), "250us");
        assert_eq!(shown(1), "1ns");
    }

    #[test]
    fn refuses_with_a_reason() {
        let refused = |text: &str| text.parse::<Nanos>().unwrap_err().to_string();
        assert!(refused("30").contains("`30` has no unit"));
        assert!(refused("-1s").contains("negative"));
        assert!(refused("3 parsecs").contains("not one of"));
        assert!(refused("1s1h").contains("long to short"));
        assert!(refused("").contains("empty"));
        assert!(refused("NaN").contains("no digits"));
        assert!(refused("999999999h").contains("too long"));
    }

    proptest! {
        #[test]
        fn text_and_back(nanos: u64) {
            let nanos = Nanos::new(nanos);
            prop_assert_eq!(nanos.to_string().parse::<Nanos>().unwrap(), nanos);
        }
    }
}
