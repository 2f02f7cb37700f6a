//! What a metric is measured in, how a bound on it is written, and how the two are compared.

use report::text;

/// The unit of a metric in `summary.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// A duration, in units of so many milliseconds.
    Duration(u32),
    /// Per second.
    Rate,
    /// A share of a whole.
    Share,
    /// A number of things.
    Count,
}

impl Unit {
    /// Reads a bound, in the unit of the summary; 0 needs no unit.
    ///
    /// # Errors
    /// The kind of bound that is wanted.
    pub(super) fn parse(self, bound: &str) -> Result<f64, &'static str> {
        let (units, divisor): (&[(&str, f64)], f64) = match self {
            Self::Duration(millis) => (&DURATIONS, f64::from(millis)),
            Self::Rate => (&[("/s", 1.0)], 1.0),
            Self::Share => (&[("%", 1.0)], 100.0),
            Self::Count => (&[("", 1.0)], 1.0),
        };
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
        let in_unit = |(unit, factor): &(&str, f64)| {
            let limit = number(bound.strip_suffix(unit)?.trim_end())? * factor / divisor;
            Some(limit).filter(|limit| limit.is_finite())
        };
        let zero = || number(bound).filter(|number| *number == 0.0);
        let found = units.iter().find_map(in_unit).or_else(zero);
        found.ok_or_else(|| self.wanted())
    }

    /// The lowest and the highest value that a metric of this unit can have.
    pub(super) const fn range(self) -> (f64, f64) {
        match self {
            Self::Share => (0.0, 1.0),
            Self::Duration(_) | Self::Rate | Self::Count => (0.0, f64::INFINITY),
        }
    }

    /// The range in words.
    pub(super) const fn range_text(self) -> &'static str {
        match self {
            Self::Share => "from 0 % to 100 %",
            Self::Duration(_) | Self::Rate | Self::Count => "never below 0",
        }
    }

    const fn wanted(self) -> &'static str {
        match self {
            Self::Duration(_) => "a duration with its unit (5s, 250ms, 80us)",
            Self::Rate => "a rate (500/s)",
            Self::Share => "a percentage (0.5%)",
            Self::Count => "a count, a number without a unit (10)",
        }
    }

    /// A value with its unit.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Self::Duration(millis) => text::millis(value * f64::from(millis)),
            Self::Rate => text::rate(value),
            Self::Share => text::percent(value),
            Self::Count => text::number(value),
        }
    }
}

/// In milliseconds.
const DURATIONS: [(&str, f64); 5] = [
    ("ns", 1e-6),
    ("us", 1e-3),
    ("ms", 1.0),
    ("s", 1e3),
    ("m", 60e3),
];

/// How a value is compared with a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

impl Comparison {
    /// Whether it holds for every value from the lowest to the highest.
    pub(super) fn holds(self, (low, high): (f64, f64), limit: f64) -> bool {
        let is = |value: f64| (value - limit).abs() < f64::EPSILON;
        match self {
            Self::Less => high < limit,
            Self::LessOrEqual => high <= limit,
            Self::Greater => low > limit,
            Self::GreaterOrEqual => low >= limit,
            Self::Equal => is(low) && is(high),
            Self::NotEqual => (high < limit || low > limit) && !is(low) && !is(high),
        }
    }

    /// Whether it holds for every value of a range (`true`) or for none (`false`); nothing where it depends.
    pub(super) fn is_settled(self, range: (f64, f64), limit: f64) -> Option<bool> {
        let always = self.holds(range, limit);
        (always || self.opposite().holds(range, limit)).then_some(always)
    }

    pub(super) const fn opposite(self) -> Self {
        match self {
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
        }
    }

    /// Two-character signs first, so that `<=` is not read as `<`.
    pub(super) const ALL: [(&'static str, Self); 6] = [
        ("<=", Self::LessOrEqual),
        (">=", Self::GreaterOrEqual),
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("<", Self::Less),
        (">", Self::Greater),
    ];
}
