//! Sent against plan in windows of 10 ms and of one second, and statistics of per-second values.
//!
//! Windows are aligned at the origin. A window is compared once every source is past it, so its
//! count is exact; the plan of a window is what fell due in it.

use std::collections::VecDeque;

use pacing::Nanos;
use serde::{Deserialize, Serialize};

/// The short window.
pub(crate) const SHORT: Nanos = Nanos::from_nanos(10_000_000);
const SHORT_PER_LONG: u64 = 100;

/// A ratio is only meaningful where one transaction more or less is not the whole of it: windows
/// with fewer planned transactions count in `most_over` and `most_under` alone.
pub const RATIO_MIN_PLANNED: u64 = 10;

/// The windows that deviate most from the plan. Empty in a closed loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorstWindows {
    /// Windows of 10 ms.
    pub ms_10: WorstOf,
    /// Windows of one second.
    pub s_1: WorstOf,
}

/// The worst of one size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorstOf {
    /// Highest sent ÷ planned among windows with at least [`RATIO_MIN_PLANNED`] planned.
    pub highest_ratio: Option<Window>,
    /// Lowest sent ÷ planned among the same.
    pub lowest_ratio: Option<Window>,
    /// Most sent above plan; none when no window was above.
    pub most_over: Option<Window>,
    /// Most sent below plan; none when no window was below.
    pub most_under: Option<Window>,
}

/// One window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Its begin, milliseconds since the origin.
    pub start_ms: u64,
    /// Due in it.
    pub planned: u64,
    /// Sent in it.
    pub sent: u64,
}

impl Window {
    /// sent ÷ planned; infinite when nothing was planned.
    pub fn ratio(&self) -> f64 {
        self.sent as f64 / self.planned as f64
    }

    const fn over(&self) -> u64 {
        self.sent.saturating_sub(self.planned)
    }

    const fn under(&self) -> u64 {
        self.planned.saturating_sub(self.sent)
    }

    /// `self.ratio() > other.ratio()`, in integers.
    fn is_above(&self, other: &Self) -> bool {
        u128::from(self.sent) * u128::from(other.planned)
            > u128::from(other.sent) * u128::from(self.planned)
    }
}

impl WorstOf {
    fn take(&mut self, window: Window) {
        if window.planned >= RATIO_MIN_PLANNED {
            if self.highest_ratio.is_none_or(|w| window.is_above(&w)) {
                self.highest_ratio = Some(window);
            }
            if self.lowest_ratio.is_none_or(|w| w.is_above(&window)) {
                self.lowest_ratio = Some(window);
            }
        }
        if window.over() > self.most_over.map_or(0, |w| w.over()) {
            self.most_over = Some(window);
        }
        if window.under() > self.most_under.map_or(0, |w| w.under()) {
            self.most_under = Some(window);
        }
    }
}

/// Counts what was sent in every open window.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    /// Number of the first open short window.
    first: u64,
    sent: VecDeque<u32>,
    planned_before: u64,
    long: Window,
    worst: WorstWindows,
}

impl Windows {
    /// Counts one, in the first open window when its own is closed already.
    pub(crate) fn sent(&mut self, at: Nanos) {
        let number = at.as_nanos() / SHORT.as_nanos();
        let open = number.saturating_sub(self.first) as usize;
        if open >= self.sent.len() {
            self.sent.resize(open + 1, 0);
        }
        self.sent[open] += 1;
    }

    /// Where the first open window ends.
    pub(crate) const fn next_end(&self) -> Nanos {
        Nanos::from_nanos((self.first + 1).saturating_mul(SHORT.as_nanos()))
    }

    /// Closes the first open window; `due_before` is the plan's count at its end, if there is a
    /// plan to compare with.
    pub(crate) fn close(&mut self, due_before: Option<u64>) {
        let sent = u64::from(self.sent.pop_front().unwrap_or(0));
        let start_ms = self.first * SHORT.as_millis();
        self.first += 1;
        let Some(due_before) = due_before else {
            return;
        };
        let window = Window {
            start_ms,
            planned: due_before.saturating_sub(self.planned_before),
            sent,
        };
        self.planned_before = due_before;
        self.worst.ms_10.take(window);
        self.long.planned += window.planned;
        self.long.sent += window.sent;
        if self.first.is_multiple_of(SHORT_PER_LONG) {
            self.worst.s_1.take(self.long);
            self.long = Window {
                start_ms: self.first * SHORT.as_millis(),
                ..Window::default()
            };
        }
    }

    pub(crate) const fn worst(&self) -> WorstWindows {
        self.worst
    }
}

/// Mean, median, standard deviation and maximum of one value a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RateStats {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median; the mean of the middle two when there is an even number.
    pub median: f64,
    /// Standard deviation of these values (divided by their number).
    pub stddev: f64,
    /// Highest.
    pub max: f64,
    /// How many seconds.
    pub seconds: u64,
}

impl RateStats {
    /// Of one value for each second; `None` without any.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        let max = *values.last()?;
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let (lower, upper) = ((values.len() - 1) / 2, values.len() / 2);
        Some(Self {
            mean,
            median: f64::midpoint(values[lower], values[upper]),
            stddev: (squares / count).sqrt(),
            max,
            seconds: values.len() as u64,
        })
    }
}

/// One value for each second of a run: four bytes a second.
#[derive(Debug, Clone, Default)]
pub(crate) struct PerSecond {
    values: Vec<u32>,
}

impl PerSecond {
    pub(crate) fn push(&mut self, value: u64) {
        self.values.push(u32::try_from(value).unwrap_or(u32::MAX));
    }

    /// The mean between two instants, of which the seconds at the edges count in part; `None` when they are one.
    pub(crate) fn rate(&self, from_s: f64, until_s: f64) -> Option<f64> {
        let seconds = (0_u32..).zip(&self.values);
        let within = seconds.map(|(second, value)| {
            let second = f64::from(second);
            let covered = (second + 1.0).min(until_s) - second.max(from_s);
            f64::from(*value) * covered.max(0.0)
        });
        (until_s > from_s).then(|| within.sum::<f64>() / (until_s - from_s))
    }

    /// Statistics of the values with an index in `seconds`; `None` when there are none.
    pub(crate) fn stats(&self, seconds: std::ops::Range<usize>) -> Option<RateStats> {
        let end = seconds.end.min(self.values.len());
        let values = self.values.get(seconds.start..end)?;
        RateStats::of(values.iter().map(|&value| f64::from(value)))
    }
}
