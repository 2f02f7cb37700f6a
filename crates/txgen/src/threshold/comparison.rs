//! The signs of thresholds.

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
