//! Throughput over time, and how full everything was.

use super::RunReport;
use crate::report::Page;
use crate::report::chart::{Axis, Chart, Tone, Unit};
use crate::report::text;
use crate::rows::{BlockRow, SeriesRow};

/// Several seconds in one.
pub(super) struct Stretch<'a> {
    rows: &'a [SeriesRow],
}

impl<'a> Stretch<'a> {
    /// The series in at most [`MAX_POINTS`] stretches of equal numbers of seconds. The last second of a
    /// run is shorter, and a rate over a fraction of it would mean nothing: it is joined to the one
    /// before.
    pub(super) fn all(series: &'a [SeriesRow]) -> Vec<Self> {
        let size = series.len().div_ceil(MAX_POINTS).max(1);
        let whole = series.iter().rposition(|row| row.span_s > 0.999);
        let whole = whole.map_or(series.len(), |last| last + 1);
        let mut stretches: Vec<Self> = series[..whole]
            .chunks(size)
            .map(|rows| Stretch { rows })
            .collect();
        if whole < series.len()
            && let Some(last) = stretches.last_mut()
        {
            let begin = whole - last.rows.len();
            last.rows = &series[begin..];
        }
        stretches
    }

    pub(super) fn middle(&self) -> f64 {
        let (begin, end) = self.edges();
        f64::midpoint(begin, end)
    }

    pub(super) fn seconds(&self) -> f64 {
        let (begin, end) = self.edges();
        end - begin
    }

    fn edges(&self) -> (f64, f64) {
        let begin = self.rows.first().map_or(0.0, |row| row.second as f64);
        let end = self
            .rows
            .last()
            .map_or(0.0, |row| row.second as f64 + row.span_s);
        (begin, end)
    }

    fn rate(&self, of: fn(&SeriesRow) -> u64) -> (f64, f64) {
        let sum: u64 = self.rows.iter().map(of).sum();
        (self.middle(), sum as f64 / self.seconds().max(1e-9))
    }

    /// The highest of the stretch.
    pub(super) fn highest(&self, of: fn(&SeriesRow) -> Option<f64>) -> (f64, f64) {
        let highest = self.rows.iter().filter_map(of).reduce(f64::max);
        (self.middle(), highest.unwrap_or(f64::NAN))
    }
}

pub(super) fn throughput(report: &RunReport) -> String {
    let stretches = Stretch::all(&report.series);
    let rates = |of: fn(&SeriesRow) -> u64| -> Vec<(f64, f64)> {
        stretches.iter().map(|stretch| stretch.rate(of)).collect()
    };
    let mut rate = Chart::new(
        "Transactions per second",
        Axis::time().to(report.summary.time.ended_s),
        Axis::linear("transactions per second", Unit::PerSecond),
    )
    .tall()
    .line("offered", Tone::Plan, rates(|row| row.offered))
    .line("sent", Tone::Sent, rates(|row| row.sent))
    .line("accepted", Tone::Accepted, rates(|row| row.accepted));
    if !report.blocks.is_empty() {
        let committed = Committed::of(&report.blocks);
        let points = stretches.iter().map(|stretch| committed.rate(stretch));
        rate = rate.line("committed", Tone::Committed, points);
    }
    let bad = |row: &SeriesRow| row.rejected + row.errors + row.commit_failed;
    if report.series.iter().any(|row| bad(row) > 0) {
        rate = rate.line(
            "refused or failed",
            Tone::Bad,
            rates(|row| row.rejected + row.errors + row.commit_failed),
        );
    }
    let points = stretches.first().map_or(1, |stretch| stretch.rows.len());
    let mean = match points {
        1 => String::new(),
        seconds => format!(
            " Each point is the mean of {}.",
            text::seconds(seconds as f64)
        ),
    };
    rate = rate.note(&format!(
        "What a block committed is spread over the time since the block before.{mean}"
    ));
    let charts = [rate, depth(report, &stretches)];
    Page::grid(charts.map(|chart| chart.marks(report.marks()).html()))
}

fn depth(report: &RunReport, stretches: &[Stretch<'_>]) -> Chart {
    let highest = |of: fn(&SeriesRow) -> Option<f64>| -> Vec<(f64, f64)> {
        stretches
            .iter()
            .map(|stretch| stretch.highest(of))
            .collect()
    };
    let mut chart = Chart::new(
        "Waiting",
        Axis::time().to(report.summary.time.ended_s),
        Axis::linear("transactions", Unit::Number),
    )
    .tall();
    if report.series.iter().any(|row| row.mempool_txs.is_some()) {
        let mempool = highest(|row| row.mempool_txs.map(|txs| txs as f64));
        chart = chart.line("in the mempool", Tone::Depth, mempool);
    }
    chart
        .line(
            "accepted, in no block yet",
            Tone::Accepted,
            highest(|row| Some(row.backlog as f64)),
        )
        .line(
            "sent, not answered yet",
            Tone::Sent,
            highest(|row| Some(row.in_flight as f64)),
        )
}

/// How many transactions blocks had committed by a time, as if a block's came evenly since the block
/// before: seconds with and without a block would only show how far blocks are apart.
struct Committed {
    /// When a block was seen, and how many were committed by then.
    seen: Vec<(f64, f64)>,
}

impl Committed {
    fn of(blocks: &[BlockRow]) -> Self {
        let mut seen = Vec::with_capacity(blocks.len() + 1);
        let mut count = 0.0;
        if let Some(first) = blocks.first() {
            let at = first.observed_ns as f64 / 1e9;
            let before = at - first.interval_ms.unwrap_or(1_000.0) / 1e3;
            seen.push((before.max(0.0).min(at), 0.0));
        }
        for block in blocks {
            count += block.own_txs.saturating_sub(block.own_failed) as f64;
            seen.push((block.observed_ns as f64 / 1e9, count));
        }
        Self { seen }
    }

    fn rate(&self, stretch: &Stretch<'_>) -> (f64, f64) {
        let (begin, end) = stretch.edges();
        let count = self.by(end) - self.by(begin);
        (stretch.middle(), count / stretch.seconds().max(1e-9))
    }

    fn by(&self, time: f64) -> f64 {
        let after = self.seen.partition_point(|(seen, _)| *seen <= time);
        let before = after
            .checked_sub(1)
            .and_then(|before| self.seen.get(before));
        match (before, self.seen.get(after)) {
            (None, _) => 0.0,
            (Some((_, count)), None) => *count,
            (Some((from, low)), Some((to, high))) => {
                low + (high - low) * (time - from) / (to - from).max(1e-9)
            }
        }
    }
}

/// Points of a line: more than the pixels of a narrow chart, fewer than those of a wide one.
const MAX_POINTS: usize = 480;
