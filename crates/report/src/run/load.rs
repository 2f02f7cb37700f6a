//! Throughput over time, and how full everything was.

use super::RunReport;
use crate::chart::{Axis, Chart, Tone, Unit};
use crate::text;
use crate::{CommittedCourse, Page};
use measure::SeriesRow;

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
        let committed = CommittedCourse::of_blocks(&report.blocks);
        let points = stretches.iter().map(|stretch| {
            let (begin, end) = stretch.edges();
            (stretch.middle(), committed.rate(begin, end))
        });
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

/// Points of a line: more than the pixels of a narrow chart, fewer than those of a wide one.
const MAX_POINTS: usize = 480;
