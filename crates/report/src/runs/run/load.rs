//! Throughput over time, and how full everything was.

use measure::{AnswerKind, SeriesRow};

use super::RunReport;
use super::backlog::Backlog;
use crate::chart::{Axis, Chart, Tone, Unit};
use crate::{CommittedCourse, Page, Stretch, text};

/// A count of a second.
type Count = fn(&SeriesRow) -> u64;

pub(super) fn throughput(report: &RunReport) -> String {
    let offered_s = report.summary.time.offered_s;
    let stretches = Stretch::all(&report.series, MAX_POINTS, offered_s);
    let rates = |of: Count| stretches.iter().map(move |stretch| stretch.rate(of));
    let axis = Axis::linear("transactions per second", Unit::PerSecond);
    let offered = stretches.iter().map(|stretch| stretch.offered(offered_s));
    let mut chart = report
        .over_time("Transactions per second", axis)
        .tall()
        .steps("offered", Tone::Offered, offered)
        .steps("sent", Tone::Sent, rates(|row| row.counts.sent))
        .steps("accepted", Tone::Accepted, rates(|row| row.counts.accepted));
    if !report.blocks.is_empty() {
        let committed = CommittedCourse::of_blocks(&report.blocks);
        let spans = stretches
            .iter()
            .map(|stretch| stretch.committed(&committed));
        chart = chart.steps("committed", Tone::Committed, spans);
    }
    let mean = match stretches.first().map_or(1, Stretch::rows) {
        0 | 1 => String::new(),
        rows => format!(" Each step is the mean of {}.", text::seconds(rows as f64)),
    };
    let chart = chart.note(&format!(
        "What a block committed is spread over the time since the block before, but not over a stall.{mean}"
    ));
    Page::grid([chart, waiting(report, &stretches)].map(|chart| chart.html()))
}

fn waiting(report: &RunReport, stretches: &[Stretch<'_>]) -> Chart {
    let highest =
        |of: fn(&SeriesRow) -> Option<f64>| stretches.iter().map(move |it| it.highest(of));
    let axis = Axis::linear("transactions", Unit::Number);
    let mut chart = report.over_time("Waiting", axis).tall();
    let depths = report.series.iter();
    let depths = depths.filter_map(|row| row.mempool_max.max(row.mempool_txs));
    if let Some(deepest) = depths.max() {
        let seconds = report.series.iter();
        let ranges = seconds.filter_map(|row| {
            let (least, most) = (row.mempool_min?, row.mempool_max?);
            Some((row.second as f64 + 0.5, least as f64, most as f64))
        });
        let mempool = highest(|row| Some(row.mempool_max.max(row.mempool_txs)? as f64));
        chart = chart.ranges("in the mempool", Tone::Depth, ranges).line(
            "in the mempool",
            Tone::Depth,
            mempool,
        );
        if let Some(limit) = report.manifest.limits.mempool_txs
            && deepest as f64 > limit as f64 * NEAR_LIMIT
        {
            chart = chart.level(limit as f64, "the mempool's limit");
        }
    }
    let backlog = Backlog::of(&report.series, &report.blocks).spans(&report.series);
    let most: Vec<(f64, f64)> = backlog.iter().map(|(at, _, most)| (*at, *most)).collect();
    let in_flight = highest(|row| Some(row.in_flight as f64));
    let (name, tone) = ("accepted, in no block yet", Tone::Accepted);
    chart
        .note("A stroke reaches from the least to the most of a second, a line goes through the most.")
        .line(name, tone, most)
        .ranges(name, tone, backlog)
        .line("sent, not answered yet", Tone::Sent, in_flight)
}

/// What was refused, by its cause.
pub(super) fn refusals(report: &RunReport) -> String {
    let per_second = Axis::linear("per second", Unit::PerSecond);
    let chart = report.over_time("Refused, by cause", per_second);
    let chart = report.answers.refusals(chart, |cause| name(report, cause));
    chart.map_or(String::new(), |chart| chart.html())
}

/// A cause by the node's own words where they are known.
fn name(report: &RunReport, cause: AnswerKind) -> String {
    let code = match cause {
        AnswerKind::Code(code) => code,
        AnswerKind::OtherCode => return "other codes".to_owned(),
        _ => return "no usable answer".to_owned(),
    };
    let prefix = format!("{code}: ");
    let texts = report.summary.fate.rejected_by_text.keys();
    let texts: Vec<&str> = texts
        .filter_map(|text| text.strip_prefix(&prefix))
        .collect();
    if texts.is_empty() {
        match code.meaning() {
            Some(meaning) => format!("{code} {meaning}"),
            None => format!("code {code}"),
        }
    } else {
        texts.join(" / ")
    }
}

/// Each of several endpoints.
pub(super) fn endpoints(report: &RunReport) -> String {
    let endpoints = report.manifest.endpoints.iter();
    let names: Vec<&str> = endpoints.map(|endpoint| &*endpoint.url).collect();
    let over_time = |title: &str, y| report.over_time(title, y);
    report.answers.endpoints(over_time, &names)
}

/// A limit far above what was reached would press everything else to the ground.
const NEAR_LIMIT: f64 = 0.35;
/// Points of a line: fewer than the pixels of a chart.
pub(super) const MAX_POINTS: usize = 240;
