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

/// What is fixed about a metric: itself, as a condition would name it, its unit.
type Row = (Metric, &'static str, &'static str);

pub(super) const METRICS: [Row; 9] = [
    (Metric::Committed, "rate.committed_tps", "/s"),
    (Metric::Accepted, "rate.accepted_tps", "/s"),
    (Metric::Lost, "lost.share", ""),
    (Metric::Accept(Quantile::P50), "accept.p50", "ms"),
    (Metric::Accept(Quantile::P95), "accept.p95", "ms"),
    (Metric::Accept(Quantile::P99), "accept.p99", "ms"),
    (Metric::Commit(Quantile::P50), "commit.p50", "ms"),
    (Metric::Commit(Quantile::P95), "commit.p95", "ms"),
    (Metric::Commit(Quantile::P99), "commit.p99", "ms"),
];

impl Metric {
    /// All of them, in the order of a table.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        METRICS.into_iter().map(|(metric, ..)| metric)
    }

    /// As a condition would name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        METRICS[self.place()].1
    }

    /// Its unit: `/s`, `ms`, or nothing for a share.
    #[must_use]
    pub fn unit(self) -> &'static str {
        METRICS[self.place()].2
    }

    /// Whether more of it is better.
    #[must_use]
    pub const fn is_gain(self) -> bool {
        matches!(self, Self::Committed | Self::Accepted)
    }

    /// Where it stands in [`METRICS`].
    pub(super) fn place(self) -> usize {
        let place = METRICS.iter().position(|(metric, ..)| *metric == self);
        place.expect("every metric has a row")
    }

    /// What it is compared on.
    pub(super) const fn scale(self) -> Scale {
        Scale {
            is_gain: self.is_gain(),
            is_share: matches!(self, Self::Lost),
        }
    }

    /// What a figure near `value` is known to, on the scale of the comparison, where blocks were seen
    /// to `block_ms`.
    pub(super) fn resolution(self, value: f64, block_ms: f64) -> f64 {
        let latency = |stamp_ms: f64| DIGITS.max((stamp_ms / value.max(stamp_ms)).ln_1p());
        match self {
            Self::Lost => SHARE_RESOLUTION,
            Self::Committed | Self::Accepted => DIGITS,
            Self::Accept(_) => latency(STAMP_MS),
            Self::Commit(_) => latency(block_ms.max(STAMP_MS)),
        }
    }

    /// The largest change without relevance when that of a rate is `margin`.
    pub(super) fn margin(self, margin: f64) -> f64 {
        match self {
            Self::Lost => margin.min(crate::limits::LOST_LIMIT),
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
        match self.is_share {
            true => value,
            false => value.max(SMALLEST).ln(),
        }
    }

    /// The value at a place on the scale.
    pub(super) fn unscaled(self, place: f64) -> f64 {
        match self.is_share {
            true => place,
            false => place.exp(),
        }
    }

    /// A difference on the scale as a change: a share of the first side, or the difference of two
    /// shares.
    pub(super) fn change(self, difference: f64) -> f64 {
        match self.is_share {
            true => difference,
            false => difference.exp_m1(),
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
pub(super) const DIGITS: f64 = 1e-3;
/// A sender wakes within 0.1 ms of what it waits for (`benches/peers/generate`): its stamps are no
/// finer.
const STAMP_MS: f64 = 0.1;
/// A tenth of the loss that a search allows.
const SHARE_RESOLUTION: f64 = 1e-3;
