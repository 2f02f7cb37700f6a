//! Throughput over time, the backlog within each second, how full everything was, and the observed nodes beside it.

use measure::{AnswerKind, BlockRow, SeriesRow};

use super::RunReport;
use crate::chart::{Axis, Chart, Tone, Unit};
use crate::runs::nodes::{Nodes, grid};
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

/// A row for each node, the mempools over one another, then each node's rates and processor time; empty where none
/// was observed.
pub(super) fn nodes(report: &RunReport) -> String {
    if report.nodes.is_empty() {
        return String::new();
    }
    let over_time = |title: &str, y: Axis| report.over_time(title, y);
    let nodes = Nodes::new(&report.nodes, &report.sights, &over_time);
    let backlog = Backlog::of(&report.series, &report.blocks);
    let backlog = backlog.spans(&report.series);
    let loaded = |of: fn(&SeriesRow) -> u64| {
        report.series.iter().map(move |row| {
            let from = row.second as f64;
            let rate = of(row) as f64 / row.span_s.max(f64::MIN_POSITIVE);
            (from, from + row.span_s, rate)
        })
    };
    let backlog = |chart: Chart| {
        let name = "accepted, in no block yet, least to most of the second";
        chart.ranges(name, Tone::Offered, backlog).note(
            "A stroke reaches from the least to the most of a second, a line goes through the most. A mempool is asked \
             some times a second: what came in and what a block took in between is the difference.",
        )
    };
    let mut charts = vec![nodes.mempools(backlog)];
    charts.extend(nodes.delays());
    charts.extend(nodes.rates(|chart| {
        let accepted = loaded(|row| row.counts.accepted);
        chart
            .steps("offered", Tone::Offered, loaded(|row| row.counts.offered))
            .steps("accepted by the loaded nodes", Tone::Accepted, accepted)
    }));
    charts.extend(nodes.processors());
    nodes.table() + &grid(charts)
}

/// The backlog of every second from its least to its most. The series has it at each second's end alone, which may
/// lie just before a block or just after it.
#[derive(Debug)]
struct Backlog {
    /// When blocks were seen, and how many own transactions each took.
    taken: Vec<(f64, f64)>,
    /// Least and most of each second of the series.
    ends: Vec<(f64, f64)>,
}

impl Backlog {
    /// From what each second accepted, as if evenly, and what its blocks took, counted back from the second's end. A
    /// node that refused in a second accepted the most of it just after its block: what waited then is no more than
    /// was sampled.
    fn of(series: &[SeriesRow], blocks: &[BlockRow]) -> Self {
        let taken = blocks.iter().map(|block| {
            let seen_s = block.observed_ns as f64 / 1e9;
            (seen_s, block.own_txs as f64)
        });
        let mut backlog = Self {
            taken: taken.collect(),
            ends: Vec::new(),
        };
        let befores = std::iter::once(0).chain(series.iter().map(|row| row.backlog));
        let seconds = series.iter().zip(befores).map(|(row, before)| {
            let (least, most) = backlog.within(row);
            let sampled = row.backlog.max(before).max(row.mempool_max.unwrap_or(0));
            match row.counts.rejected {
                0 => (least, most),
                _ => (least, most.min(sampled as f64)),
            }
        });
        backlog.ends = seconds.collect();
        backlog
    }

    /// Second's middle, least and most.
    fn spans(&self, series: &[SeriesRow]) -> Vec<(f64, f64, f64)> {
        let seconds = series.iter().zip(&self.ends);
        let spans = seconds.map(|(row, (least, most))| (row.second as f64 + 0.5, *least, *most));
        spans.collect()
    }

    fn within(&self, row: &SeriesRow) -> (f64, f64) {
        let begin = row.second as f64;
        let (mut time, mut count) = (begin + row.span_s, row.backlog as f64);
        let rate = row.counts.accepted as f64 / row.span_s.max(1e-9);
        let (mut least, mut most) = (count, count);
        let mut reach = |count: f64| {
            least = least.min(count);
            most = most.max(count);
        };
        let first = self.taken.partition_point(|(seen, _)| *seen < begin);
        let after = self.taken.partition_point(|(seen, _)| *seen < time);
        for (seen, own) in self.taken[first..after].iter().rev() {
            // Just after the block, and just before it.
            count -= rate * (time - seen);
            reach(count.max(0.0));
            count = count.max(0.0) + own;
            reach(count);
            time = *seen;
        }
        reach((count - rate * (time - begin)).max(0.0));
        (least, most)
    }
}

#[cfg(test)]
mod tests {
    use measure::Counts;

    use super::*;

    fn second(second: u64, accepted: u64, backlog: u64) -> SeriesRow {
        SeriesRow {
            second,
            span_s: 1.0,
            backlog,
            counts: Counts {
                accepted,
                ..Counts::default()
            },
            ..SeriesRow::default()
        }
    }

    fn block(at_ms: u64, own_txs: u64) -> BlockRow {
        BlockRow {
            observed_ns: at_ms * 1_000_000,
            own_txs,
            ..BlockRow::default()
        }
    }

    #[test]
    fn a_steady_load_has_steady_ends_on_whichever_side_of_a_block_the_second_ends() {
        // A block in just over a second: one second ends after its block, the next one before it.
        let blocks = [block(990, 990), block(2_010, 1_020), block(2_990, 980)];
        let series = [
            second(0, 1_000, 10),
            second(1, 1_000, 1_010),
            second(2, 1_000, 10),
        ];
        let backlog = Backlog::of(&series, &blocks);
        for (place, (least, most)) in backlog.ends.iter().enumerate() {
            assert!(*least <= 10.0, "{place}: {least}");
            assert!((980.0..=1_020.0).contains(most), "{place}: {most}");
        }
        assert_eq!(backlog.spans(&series)[1].0, 1.5);
    }

    #[test]
    fn a_second_that_refused_has_no_more_than_was_sampled() {
        let mut full = second(0, 1_000, 200);
        full.mempool_max = Some(500);
        let blocks = [block(500, 900)];
        let most = |row: &SeriesRow| Backlog::of(std::slice::from_ref(row), &blocks).ends[0].1;
        assert_eq!(most(&full), 900.0, "200 after half a second of 1,000/s");
        full.counts.rejected = 1;
        assert_eq!(most(&full), 500.0);
    }

    #[test]
    fn a_backlog_that_grows_and_a_run_without_blocks_are_drawn_as_they_are() {
        let backlog = Backlog::of(&[second(0, 500, 500), second(1, 500, 1_000)], &[]);
        assert_eq!(backlog.ends, [(0.0, 500.0), (500.0, 1_000.0)]);
    }
}
