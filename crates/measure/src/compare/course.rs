//! A run cut into stretches of time, each with what is needed to compute any metric anew.

use pacing::{Nanos, Random};

use super::{Metric, Quantile, below};
use crate::read::TxRow;
use crate::rows::SeriesRow;
use crate::summary::TimeSpans;

/// The course of one run between the end of its warm-up and the end of its offering, in at most
/// a hundred stretches of whole seconds: a megabyte, however long the run was.
///
/// Rates are counted where the events happened, latencies and losses where their transactions were
/// due.
#[derive(Debug, Clone)]
pub struct RunCourse {
    first_second: u64,
    seconds_each: u64,
    until: Nanos,
    stretches: Vec<Stretch>,
}

#[derive(Debug, Clone, Default)]
struct Stretch {
    seconds: f64,
    accepted: u64,
    committed: u64,
    sent: u64,
    lost: u64,
    accept: Counts,
    commit: Counts,
}

impl RunCourse {
    /// Of a run with these spans; empty until it is given rows.
    #[must_use]
    pub fn new(time: &TimeSpans) -> Self {
        let first_second = time.warmup_s.ceil() as u64;
        let until_s = time.offered_s.min(time.ended_s);
        let seconds = (until_s as u64).saturating_sub(first_second);
        let seconds_each = seconds.div_ceil(MAX_STRETCHES).max(1);
        Self {
            first_second,
            seconds_each,
            until: Nanos::from_nanos((until_s * 1e9).round() as u64),
            stretches: vec![Stretch::default(); seconds.div_ceil(seconds_each) as usize],
        }
    }

    /// Takes a second.
    pub fn second(&mut self, row: &SeriesRow) {
        // A second that the offering ends in is no whole one.
        let end = Nanos::from_secs(row.second.saturating_add(1));
        if end > self.until {
            return;
        }
        if let Some(stretch) = self.stretch(row.second) {
            stretch.seconds += row.span_s;
            stretch.accepted += row.counts.accepted;
            stretch.committed += row.counts.committed;
        }
    }

    /// Takes a transaction.
    pub fn tx(&mut self, row: &TxRow<'_>) {
        let Some(stretch) = self.stretch(row.due.as_secs()) else {
            return;
        };
        stretch.sent += 1;
        match row.accepted {
            Some(accepted) => stretch.accept.add(accepted.saturating_sub(row.due)),
            None => stretch.lost += 1,
        }
        if let Some(committed) = row.committed {
            stretch.commit.add(committed.saturating_sub(row.due));
        }
    }

    /// How often each stretch is drawn when as many are drawn as there are.
    pub(super) fn draw(&self, random: &mut Random) -> Vec<u32> {
        let mut weights = vec![0; self.stretches.len()];
        for _ in 0..weights.len() {
            weights[below(random, self.stretches.len())] += 1;
        }
        weights
    }

    fn stretch(&mut self, second: u64) -> Option<&mut Stretch> {
        let place = second.checked_sub(self.first_second)? / self.seconds_each;
        self.stretches.get_mut(usize::try_from(place).ok()?)
    }
}

/// Every metric over the stretches of all runs, each as often as its weight (once without).
pub(super) fn metrics(runs: &[&RunCourse], weights: Option<&[Vec<u32>]>) -> Vec<Option<f64>> {
    let mut sums = Sums::default();
    for (place, run) in runs.iter().enumerate() {
        let weights = weights.and_then(|weights| weights.get(place));
        for (place, stretch) in run.stretches.iter().enumerate() {
            let weight = weights.map_or(1, |weights| weights[place]);
            sums.add(stretch, weight);
        }
    }
    Metric::all().map(|metric| sums.metric(metric)).collect()
}

#[derive(Default)]
struct Sums {
    seconds: f64,
    accepted: f64,
    committed: f64,
    sent: f64,
    lost: f64,
    accept: Vec<u64>,
    commit: Vec<u64>,
}

impl Sums {
    fn add(&mut self, stretch: &Stretch, weight: u32) {
        if weight == 0 {
            return;
        }
        let times = f64::from(weight);
        self.seconds += times * stretch.seconds;
        self.accepted += times * stretch.accepted as f64;
        self.committed += times * stretch.committed as f64;
        self.sent += times * stretch.sent as f64;
        self.lost += times * stretch.lost as f64;
        stretch.accept.add_to(&mut self.accept, weight);
        stretch.commit.add_to(&mut self.commit, weight);
    }

    fn metric(&self, metric: Metric) -> Option<f64> {
        let per_second = |count: f64| (self.seconds > 0.0).then(|| count / self.seconds);
        match metric {
            Metric::Committed => per_second(self.committed),
            Metric::Accepted => per_second(self.accepted),
            Metric::Lost => (self.sent > 0.0).then(|| self.lost / self.sent),
            Metric::Accept(quantile) => quantile_of(&self.accept, quantile),
            Metric::Commit(quantile) => quantile_of(&self.commit, quantile),
        }
    }
}

/// Latencies in buckets of half a percent.
#[derive(Debug, Clone, Default)]
struct Counts {
    /// The bucket of the first count.
    first: usize,
    counts: Vec<u32>,
}

impl Counts {
    fn add(&mut self, latency: Nanos) {
        let micros = latency.as_nanos() as f64 / 1e3;
        let bucket = (micros.max(1.0).ln() / BUCKET) as usize;
        if self.counts.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let missing = self.first - bucket;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.first = bucket;
        }
        let place = bucket - self.first;
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] = self.counts[place].saturating_add(1);
    }

    fn add_to(&self, sums: &mut Vec<u64>, weight: u32) {
        let end = self.first + self.counts.len();
        if sums.len() < end {
            sums.resize(end, 0);
        }
        for (sum, count) in sums[self.first..end].iter_mut().zip(&self.counts) {
            *sum += u64::from(*count) * u64::from(weight);
        }
    }
}

/// In milliseconds, the middle of its bucket.
fn quantile_of(counts: &[u64], quantile: Quantile) -> Option<f64> {
    let total: u64 = counts.iter().sum();
    let rank = (quantile.share() * total as f64).ceil().max(1.0) as u64;
    let mut below = 0;
    let bucket = counts.iter().position(|count| {
        below += count;
        below >= rank
    })?;
    Some(((bucket as f64 + 0.5) * BUCKET).exp() / 1e3)
}

/// A hundred stretches are enough for an interval and few enough to be quick.
const MAX_STRETCHES: u64 = 100;
/// Width of a bucket in the logarithm of the latency.
const BUCKET: f64 = 0.005;
