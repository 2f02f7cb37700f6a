//! What is compared, and on which scale.

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Committed per second.
    Committed,
    /// Accepted per second.
    Accepted,
    /// Not accepted, or accepted and in no block by the end, as a share of planned.
    Lost,
    /// A quantile of accepted − due, in milliseconds.
    Accept(Quantile),
    /// A quantile of committed − due, in milliseconds.
    Commit(Quantile),
    /// A figure above zero of another kind of run.
    Other(OtherMetric),
}

/// A figure of runs that are not a load on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherMetric {
    /// Its name.
    pub name: &'static str,
    /// Its unit: `/s`, `ms`, or nothing.
    pub unit: &'static str,
    /// Whether more of it is better.
    pub is_gain: bool,
}

/// Which part of the transactions took no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantile {
    /// Half.
    P50,
    /// 95 %.
    P95,
    /// 99 %.
    P99,
}

impl Metric {
    /// Those of a load on a node, in the order of a table.
    pub const OF_LOADS: [Self; 9] = [
        Self::Committed,
        Self::Accepted,
        Self::Lost,
        Self::Accept(Quantile::P50),
        Self::Accept(Quantile::P95),
        Self::Accept(Quantile::P99),
        Self::Commit(Quantile::P50),
        Self::Commit(Quantile::P95),
        Self::Commit(Quantile::P99),
    ];

    /// As a condition would name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Committed => "rate.committed_tps",
            Self::Accepted => "rate.accepted_tps",
            Self::Lost => "lost.share",
            Self::Accept(Quantile::P50) => "accept.p50",
            Self::Accept(Quantile::P95) => "accept.p95",
            Self::Accept(Quantile::P99) => "accept.p99",
            Self::Commit(Quantile::P50) => "commit.p50",
            Self::Commit(Quantile::P95) => "commit.p95",
            Self::Commit(Quantile::P99) => "commit.p99",
            Self::Other(other) => other.name,
        }
    }

    /// Its unit: `/s`, `ms`, or nothing for a share.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Committed | Self::Accepted => "/s",
            Self::Lost => "",
            Self::Accept(_) | Self::Commit(_) => "ms",
            Self::Other(other) => other.unit,
        }
    }

    /// The metric of a load with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::OF_LOADS
            .into_iter()
            .find(|metric| metric.name() == name)
    }

    /// Whether more of it is better.
    #[must_use]
    pub const fn is_gain(self) -> bool {
        match self {
            Self::Other(other) => other.is_gain,
            _ => matches!(self, Self::Committed | Self::Accepted),
        }
    }

    /// What it is compared on.
    pub(super) const fn scale(self) -> Scale {
        Scale {
            is_gain: self.is_gain(),
            is_share: matches!(self, Self::Lost),
        }
    }

    /// What a figure near `value` is known to, on the scale of the comparison, where what it was made of is
    /// known to `known_to_ms`.
    pub(super) fn resolution(self, value: f64, known_to_ms: f64) -> f64 {
        match self {
            Self::Lost => SHARE_RESOLUTION,
            Self::Committed | Self::Accepted | Self::Other(_) => DIGITS,
            Self::Accept(_) | Self::Commit(_) => {
                let stamp_ms = known_to_ms.max(STAMP_MS);
                DIGITS.max((stamp_ms / value.max(stamp_ms)).ln_1p())
            }
        }
    }

    /// The margin or limit when that of a rate is `margin`, for figures near `value`. What loses one in a hundred is no
    /// good, however much slower it might be; a latency that the stamps cannot tell from another is not worse.
    pub(super) fn margin(self, margin: f64, value: Option<f64>) -> f64 {
        match (self, value) {
            (Self::Lost, _) => margin.min(crate::limits::LOST_LIMIT),
            (Self::Accept(_) | Self::Commit(_), Some(value)) => {
                margin.max(STAMP_MS / value.max(STAMP_MS))
            }
            _ => margin,
        }
    }
}

/// The scale on which figures of one kind are compared, and which way is for the better.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) is_gain: bool,
    pub(super) is_share: bool,
}

impl Scale {
    /// A value on the scale: rates and latencies are multiplied by what changes them, so their
    /// logarithms are compared, which are also nearer to normal; shares as they are.
    pub(super) fn scaled(self, value: f64) -> f64 {
        if self.is_share {
            value
        } else {
            value.max(SMALLEST).ln()
        }
    }

    /// The value at a place on the scale.
    pub(super) fn unscaled(self, place: f64) -> f64 {
        if self.is_share { place } else { place.exp() }
    }

    /// A difference on the scale as a change: a share of the first side, or the difference of two
    /// shares.
    pub(super) fn change(self, difference: f64) -> f64 {
        if self.is_share {
            difference
        } else {
            difference.exp_m1()
        }
    }

    /// The difference, on the scale, of a change to the worse by this much.
    pub(super) fn difference(self, worse_by: f64) -> f64 {
        match (self.is_share, self.is_gain) {
            (true, _) => worse_by,
            (false, true) => -(-worse_by).ln_1p(),
            (false, false) => worse_by.ln_1p(),
        }
    }

    /// The sign of a difference for the worse.
    pub(super) fn worse(self) -> f64 {
        if self.is_gain { -1.0 } else { 1.0 }
    }
}

/// Stands for zero where a logarithm is taken: far below every rate and latency that is measured.
const SMALLEST: f64 = 1e-6;
/// Three significant digits, as the histograms have ([`SIGNIFICANT_DIGITS`](crate::SIGNIFICANT_DIGITS)).
const DIGITS: f64 = 1e-3;
/// A sender wakes within 0.1 ms of what it waits for (`benches/peers/generate`): its stamps are no
/// finer.
const STAMP_MS: f64 = 0.1;
/// A tenth of the loss that a search allows.
const SHARE_RESOLUTION: f64 = 1e-3;
