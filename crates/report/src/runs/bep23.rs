//! BEP-23's analysis (`analysis.py` of BigchainDB's benchmark), by its own rules.
//!
//! Time begins with the first send. *Accept* is send to answer, *finalize* is answer to block event.
//! Quantiles interpolate linearly between neighbours. An event belongs to the second it rounds to,
//! half to even; seconds run from 0 up to the last event's, which itself is left out when that event
//! rounds up. Mean and median of those counts are rounded.

use std::fmt;

use hashbrown::HashMap;
use serde::Serialize;

use measure::{RateStats, read::TxRow};

use crate::Table;

/// Gathers transactions, one by one.
#[derive(Debug)]
pub struct Bep23Collector {
    first_send_us: u64,
    accept: Delays,
    finalize: Delays,
    accepted: Seconds,
    finalized: Seconds,
}

/// What the analysis comes to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bep23 {
    /// From send to answer.
    pub accept: DelayFigures,
    /// From answer to block.
    pub finalize: DelayFigures,
    /// Answers in each second.
    pub accepted: SecondFigures,
    /// Transactions seen in blocks in each second.
    pub finalized: SecondFigures,
}

/// One delay, in seconds; empty when there was none.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DelayFigures {
    /// How many.
    pub count: u64,
    /// The .68 quantile.
    pub p68: Option<f64>,
    /// The .95 quantile.
    pub p95: Option<f64>,
    /// The .997 quantile.
    pub p99_7: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
    /// 25 equal bins from the shortest to the longest: left edge, right edge, count.
    pub histogram: Vec<(f64, f64, u64)>,
}

/// One count for each second.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SecondFigures {
    /// Mean, rounded.
    pub mean: f64,
    /// Median, rounded.
    pub median: f64,
    /// The counts.
    pub counts: Vec<u32>,
}

impl Bep23Collector {
    /// Of a run whose earliest transaction was sent at `first_send_us` since the Unix epoch.
    pub fn new(first_send_us: u64) -> Self {
        Self {
            first_send_us,
            accept: Delays::default(),
            finalize: Delays::default(),
            accepted: Seconds::default(),
            finalized: Seconds::default(),
        }
    }

    /// Takes one transaction.
    pub fn tx(&mut self, row: &TxRow<'_>) {
        self.stamps(row.send_unix_us, row.accept_unix_us, row.commit_unix_us);
    }

    /// Takes one transaction's stamps, microseconds since the Unix epoch.
    pub fn stamps(&mut self, send: u64, accept: Option<u64>, commit: Option<u64>) {
        let between = |from: u64, to: u64| to.cast_signed().wrapping_sub(from.cast_signed());
        if let Some(accept) = accept {
            self.accept.add(between(send, accept));
            self.accepted.add(accept.saturating_sub(self.first_send_us));
        }
        if let Some(commit) = commit {
            self.finalized
                .add(commit.saturating_sub(self.first_send_us));
            if let Some(accept) = accept {
                self.finalize.add(between(accept, commit));
            }
        }
    }

    /// The figures.
    #[must_use]
    pub fn finish(self) -> Bep23 {
        Bep23 {
            accept: self.accept.figures(),
            finalize: self.finalize.figures(),
            accepted: self.accepted.figures(),
            finalized: self.finalized.figures(),
        }
    }
}

/// How often each delay occurred: to the microsecond, and to the millisecond (the original's
/// resolution) once there are too many different ones.
#[derive(Debug, Default)]
struct Delays {
    counts: HashMap<i64, u64>,
    coarse: bool,
}

impl Delays {
    fn add(&mut self, micros: i64) {
        let key = if self.coarse {
            whole_millis(micros)
        } else {
            micros
        };
        *self.counts.entry(key).or_default() += 1;
        if !self.coarse && self.counts.len() > MAX_DIFFERENT {
            self.coarse = true;
            for (micros, count) in std::mem::take(&mut self.counts) {
                *self.counts.entry(whole_millis(micros)).or_default() += count;
            }
        }
    }

    fn figures(&self) -> DelayFigures {
        let mut sorted: Vec<(i64, u64)> = self.counts.iter().map(|(k, v)| (*k, *v)).collect();
        sorted.sort_unstable();
        let count: u64 = sorted.iter().map(|(_, count)| count).sum();
        DelayFigures {
            count,
            p68: quantile(&sorted, count, 0.68),
            p95: quantile(&sorted, count, 0.95),
            p99_7: quantile(&sorted, count, 0.997),
            max: sorted.last().map(|(micros, _)| *micros as f64 / 1e6),
            histogram: histogram(&sorted),
        }
    }
}

/// Linear interpolation between the two neighbours of place q·(n − 1).
fn quantile(sorted: &[(i64, u64)], count: u64, q: f64) -> Option<f64> {
    let place = q * count.checked_sub(1)? as f64;
    let at = |rank: u64| {
        let mut passed = 0;
        let found = sorted.iter().find(|(_, count)| {
            passed += count;
            passed > rank
        });
        found.map(|(micros, _)| *micros as f64 / 1e6)
    };
    let lower = at(place.floor() as u64)?;
    let upper = at(place.ceil() as u64)?;
    Some(lower + (upper - lower) * place.fract())
}

fn histogram(sorted: &[(i64, u64)]) -> Vec<(f64, f64, u64)> {
    let (Some((low, _)), Some((high, _))) = (sorted.first(), sorted.last()) else {
        return Vec::new();
    };
    let (low, high) = (*low as f64 / 1e6, *high as f64 / 1e6);
    // A single value gets a bin of its own width, as numpy gives it.
    let (low, high) = if high > low {
        (low, high)
    } else {
        (low - 0.5, high + 0.5)
    };
    let width = (high - low) / BINS as f64;
    let mut bins: Vec<(f64, f64, u64)> = (0..BINS)
        .map(|bin| (low + width * bin as f64, low + width * (bin + 1) as f64, 0))
        .collect();
    for (micros, count) in sorted {
        let bin = ((*micros as f64 / 1e6 - low) / width) as usize;
        bins[bin.min(BINS - 1)].2 += count;
    }
    bins
}

/// Events by the second they round to.
#[derive(Debug, Default)]
struct Seconds {
    counts: Vec<u32>,
    last_us: u64,
}

impl Seconds {
    fn add(&mut self, since_us: u64) {
        self.last_us = self.last_us.max(since_us);
        let second = rounded_to_even(since_us).min(MAX_SECONDS) as usize;
        if second >= self.counts.len() {
            self.counts.resize(second + 1, 0);
        }
        self.counts[second] += 1;
    }

    fn figures(mut self) -> SecondFigures {
        let seconds = self.last_us.div_ceil(SECOND_US).min(MAX_SECONDS + 1);
        self.counts.resize(seconds as usize, 0);
        SecondFigures::of(self.counts)
    }
}

impl SecondFigures {
    /// Of one count for each second.
    pub fn of(counts: Vec<u32>) -> Self {
        let stats = RateStats::of(counts.iter().map(|count| f64::from(*count)));
        let rounded = |of: fn(RateStats) -> f64| stats.map_or(0.0, of).round_ties_even();
        Self {
            mean: rounded(|stats| stats.mean),
            median: rounded(|stats| stats.median),
            counts,
        }
    }
}

/// Whole seconds, half to even.
const fn rounded_to_even(micros: u64) -> u64 {
    let (whole, rest) = (micros / SECOND_US, micros % SECOND_US);
    let up = rest > SECOND_US / 2 || (rest == SECOND_US / 2 && whole % 2 == 1);
    whole + up as u64
}

const fn whole_millis(micros: i64) -> i64 {
    micros.div_euclid(1_000) * 1_000
}

impl fmt::Display for Bep23 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |value: f64| format!("{value:.3}");
        let delays = Table::of([
            ("accept (send to answer)", &self.accept),
            ("finalize (answer to block)", &self.finalize),
        ])
        .text("seconds", |row| row.0)
        .number(".68", seconds, |row| row.1.p68)
        .number(".95", seconds, |row| row.1.p95)
        .number(".997", seconds, |row| row.1.p99_7)
        .number("longest", seconds, |row| row.1.max)
        .figure("count", |row| row.1.count.to_string());
        let zeros = |counts: &[u32]| counts.iter().filter(|count| **count == 0).count();
        let most = |counts: &[u32]| counts.iter().copied().max().unwrap_or(0);
        let counts = Table::of([("accepted", &self.accepted), ("finalized", &self.finalized)])
            .text("per second", |row| row.0)
            .figure("mean", |row| row.1.mean.to_string())
            .figure("median", |row| row.1.median.to_string())
            .figure("most", |row| most(&row.1.counts).to_string())
            .figure("zeros", |row| zeros(&row.1.counts).to_string())
            .figure("seconds", |row| row.1.counts.len().to_string());
        let [delays, counts] = [delays.table(), counts.table()].map(|it| it.at_least(&WIDTHS));
        write!(f, "{}\n{}", delays.text(), counts.text())
    }
}

/// Of the columns, without the two blanks between them.
const WIDTHS: [usize; 6] = [28, 8, 8, 8, 8, 10];
const BINS: usize = 25;
const SECOND_US: u64 = 1_000_000;
/// Twelve days; later events count in its last second.
const MAX_SECONDS: u64 = 1 << 20;
/// Different delays before they are taken to the millisecond: 64 MiB.
const MAX_DIFFERENT: usize = 1 << 21;
