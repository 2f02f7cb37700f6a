//! The chain's blocks beside the load under which they were made.

use measure::{BlockRow, SeriesRow};

use super::RunReport;
use crate::chart::{Axis, Tone, Unit};
use crate::page::{none, note};
use crate::text::{self, grouped};
use crate::{Page, Table};

pub(super) fn section(report: &RunReport) -> String {
    let blocks = &report.blocks;
    if blocks.is_empty() {
        return none("no block was seen");
    }
    let txs = blocks.iter().map(|block| (seen_s(block), block.txs as f64));
    let intervals = blocks
        .iter()
        .filter_map(|block| Some((seen_s(block), block.interval_ms?)));
    let count = Axis::linear("transactions", Unit::Number);
    let interval = Axis::linear("by the headers' times", Unit::Millis);
    let charts = [
        report.over_time("Transactions in each block", count).dots(
            "transactions",
            Tone::Committed,
            txs,
        ),
        report.over_time("Time between blocks", interval).dots(
            "since the block before",
            Tone::Depth,
            intervals,
        ),
    ];
    Page::grid(
        charts
            .map(|chart| chart.html())
            .into_iter()
            .chain(fullness(report)),
    )
}

/// A figure of a block; `None` where it is not known.
type OfBlock = fn(&BlockRow) -> Option<u64>;

/// How much of what a block may hold each block held, by every limit that is known; those that no block
/// came near in a sentence.
fn fullness(report: &RunReport) -> Option<String> {
    let limits = &report.manifest.limits;
    let kinds: [(&str, Tone, Option<u64>, OfBlock); 3] = [
        ("transactions", Tone::Committed, limits.block_txs, |it| {
            Some(it.txs)
        }),
        ("bytes", Tone::Depth, limits.block_bytes, |it| {
            Some(it.bytes)
        }),
        // An application without gas gives no transaction any.
        ("gas", Tone::Sent, limits.block_gas, |it| {
            it.gas_wanted.filter(|gas| *gas > 0)
        }),
    ];
    let share = Axis::linear("share of the limit", Unit::Share);
    let mut chart = report
        .over_time("Blocks against their limit", share)
        .level(1.0, "full");
    let (mut drawn, mut far) = (false, Vec::new());
    for (name, tone, limit, of) in kinds {
        let Some(limit) = limit.filter(|limit| *limit > 0) else {
            continue;
        };
        let share = |it: &BlockRow| Some((seen_s(it), of(it)? as f64 / limit as f64));
        let shares: Vec<(f64, f64)> = report.blocks.iter().filter_map(share).collect();
        let fullest = shares.iter().map(|(_, share)| *share).reduce(f64::max);
        match fullest {
            Some(fullest) if fullest < WORTH_DRAWING => far.push(format!(
                "{} of the {} {name} that one may hold",
                text::percent_tenths(fullest),
                grouped(limit)
            )),
            Some(_) => {
                drawn = true;
                chart = chart.dots(&format!("of its {name}, {}", grouped(limit)), tone, shares);
            }
            None => {}
        }
    }
    let far = if far.is_empty() {
        String::new()
    } else {
        format!("The fullest block had {}.", far.join(", "))
    };
    match (drawn, far.is_empty()) {
        (true, _) => Some(chart.note(&far).html()),
        (false, false) => Some(note(&far)),
        (false, true) => None,
    }
}

/// The blocks, and the load while each was made.
pub(super) fn table(report: &RunReport) -> String {
    if report.blocks.is_empty() {
        return String::new();
    }
    let size = report.blocks.len().div_ceil(MAX_ROWS);
    let table = rows(report, size).in_window(true).html();
    match size {
        1 => table,
        _ => {
            let count = grouped(report.blocks.len() as u64);
            let text = format!(
                "{count} blocks, {size} in each row of the table; every one of them is in blocks.csv."
            );
            note(&text) + &table
        }
    }
}

fn rows(report: &RunReport, size: usize) -> Table {
    let load = Load {
        series: &report.series,
    };
    let rate = |of: fn(&SeriesRow) -> u64| move |row: &Row<'_>| load.rate(row, of);
    let highest = |of: fn(&BlockRow) -> Option<f64>| move |row: &Row<'_>| row.highest(of);
    let chunks: Vec<&[BlockRow]> = report.blocks.chunks(size).collect();
    let befores = std::iter::once(None).chain(chunks.iter().map(|chunk| chunk.last()));
    let rows = chunks.iter().zip(befores);
    let rows = rows.filter_map(|(blocks, before)| Row::of(blocks, before));
    Table::of(rows)
        .figure("height", Row::heights)
        .figure("seen at", |row| format!("{:.3} s", row.seen_s))
        .number("interval", text::millis, Row::mean_interval_ms)
        .rest()
        .count("txs", |row| row.sum(|block| block.txs))
        .count("own", |row| row.sum(|block| block.own_txs))
        .rest()
        .count("failed", |row| row.sum(|block| block.own_failed))
        .alarm(|row| row.sum(|block| block.own_failed) > 0)
        .rest()
        .count("bytes", |row| row.sum(|block| block.bytes))
        .rest()
        .number("txs/s", text::number, |row| {
            Some(row.sum(|block| block.txs) as f64 / row.span_s?)
        })
        .number("offered/s", text::number, rate(|it| it.counts.offered))
        .rest()
        .number("sent/s", text::number, rate(|it| it.counts.sent))
        .rest()
        .number("accepted/s", text::number, rate(|it| it.counts.accepted))
        .rest()
        .count("backlog", |row| {
            load.at(row.seen_s).map(|second| second.backlog)
        })
        .number("commit p50", text::millis, highest(|it| it.commit_p50_ms))
        .rest()
        .number("commit max", text::millis, highest(|it| it.commit_max_ms))
        .table()
}

fn seen_s(block: &BlockRow) -> f64 {
    block.observed_ns as f64 / 1e9
}

/// One block, or several in a row.
struct Row<'a> {
    blocks: &'a [BlockRow],
    seen_s: f64,
    /// Since the row before.
    span_s: Option<f64>,
}

impl<'a> Row<'a> {
    fn of(blocks: &'a [BlockRow], before: Option<&BlockRow>) -> Option<Self> {
        let seen_s = seen_s(blocks.last()?);
        let span_s = before.map(|before| seen_s - self::seen_s(before));
        Some(Self {
            blocks,
            seen_s,
            span_s: span_s.filter(|span| *span > 0.0),
        })
    }

    fn sum(&self, of: fn(&BlockRow) -> u64) -> u64 {
        self.blocks.iter().map(of).sum()
    }

    fn highest(&self, of: fn(&BlockRow) -> Option<f64>) -> Option<f64> {
        self.blocks.iter().filter_map(of).reduce(f64::max)
    }

    fn mean_interval_ms(&self) -> Option<f64> {
        let intervals = || self.blocks.iter().filter_map(|block| block.interval_ms);
        let count = intervals().count();
        (count > 0).then(|| intervals().sum::<f64>() / count as f64)
    }

    fn heights(&self) -> String {
        match self.blocks {
            [only] => only.height.to_string(),
            [first, .., last] => format!("{}–{}", first.height, last.height),
            [] => String::new(),
        }
    }
}

/// The load at any time, as if events were evenly spread over their second.
#[derive(Clone, Copy)]
struct Load<'a> {
    series: &'a [SeriesRow],
}

impl<'a> Load<'a> {
    /// The second that contains `t`.
    fn at(&self, t: f64) -> Option<&'a SeriesRow> {
        let after = self.series.partition_point(|row| row.second as f64 <= t);
        self.series.get(after.checked_sub(1)?)
    }

    /// How many a second while the blocks of a row were made.
    fn rate(&self, row: &Row<'_>, of: fn(&SeriesRow) -> u64) -> Option<f64> {
        let span = row.span_s?;
        let (from, to) = (row.seen_s - span, row.seen_s);
        let end = |row: &SeriesRow| row.second as f64 + row.span_s;
        let first = self.series.partition_point(|row| end(row) <= from);
        let seconds = self.series[first..].iter();
        let inside = seconds.take_while(|row| (row.second as f64) < to);
        let count: f64 = inside
            .map(|row| {
                let inside = end(row).min(to) - (row.second as f64).max(from);
                of(row) as f64 * (inside / row.span_s.max(1e-9)).clamp(0.0, 1.0)
            })
            .sum();
        Some(count / span)
    }
}

/// Below this share of a limit nothing is near it.
const WORTH_DRAWING: f64 = 0.05;
/// Rows of the table at most.
const MAX_ROWS: usize = 100;
