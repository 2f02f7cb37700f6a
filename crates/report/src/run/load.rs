//! Throughput over time, and how full everything was.

use measure::SeriesRow;

use super::RunReport;
use crate::chart::{Axis, Chart, Tone, Unit};
use crate::{CommittedCourse, Page, Stretch, text};

/// A count of a second.
type Count = fn(&SeriesRow) -> u64;

pub(super) fn throughput(report: &RunReport) -> String {
    let stretches = Stretch::all(&report.series, MAX_POINTS);
    let rates = |of: Count| stretches.iter().map(move |stretch| stretch.rate(of));
    let axis = Axis::linear("transactions per second", Unit::PerSecond);
    let lines: [(&str, Tone, Count); 3] = [
        ("offered", Tone::Plan, |row| row.counts.offered),
        ("sent", Tone::Sent, |row| row.counts.sent),
        ("accepted", Tone::Accepted, |row| row.counts.accepted),
    ];
    let mut chart = report.over_time("Transactions per second", axis).tall();
    for (name, tone, of) in lines {
        chart = chart.line(name, tone, rates(of));
    }
    if !report.blocks.is_empty() {
        let committed = CommittedCourse::of_blocks(&report.blocks);
        let points = stretches
            .iter()
            .map(|stretch| stretch.committed(&committed));
        chart = chart.line("committed", Tone::Committed, points);
    }
    let bad: Count = |row| row.counts.rejected + row.counts.errors + row.counts.commit_failed;
    if report.series.iter().any(|row| bad(row) > 0) {
        chart = chart.line("refused or failed", Tone::Bad, rates(bad));
    }
    let mean = match stretches.first().map_or(1, Stretch::rows) {
        0 | 1 => String::new(),
        rows => format!(" Each point is the mean of {}.", text::seconds(rows as f64)),
    };
    let chart = chart.note(&format!(
        "What a block committed is spread over the time since the block before.{mean}"
    ));
    Page::grid([chart, waiting(report, &stretches)].map(|chart| chart.html()))
}

fn waiting(report: &RunReport, stretches: &[Stretch<'_>]) -> Chart {
    let highest =
        |of: fn(&SeriesRow) -> Option<f64>| stretches.iter().map(move |it| it.highest(of));
    let axis = Axis::linear("transactions", Unit::Number);
    let mut chart = report.over_time("Waiting", axis).tall();
    if report.series.iter().any(|row| row.mempool_txs.is_some()) {
        let mempool = highest(|row| row.mempool_txs.map(|txs| txs as f64));
        chart = chart.line("in the mempool", Tone::Depth, mempool);
    }
    let backlog = highest(|row| Some(row.backlog as f64));
    let in_flight = highest(|row| Some(row.in_flight as f64));
    chart
        .line("accepted, in no block yet", Tone::Accepted, backlog)
        .line("sent, not answered yet", Tone::Sent, in_flight)
}

/// Points of a line: more than the pixels of a narrow chart, fewer than those of a wide one.
pub(super) const MAX_POINTS: usize = 480;
