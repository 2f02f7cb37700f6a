//! The chain's blocks beside the load under which they were made.

use super::RunReport;
use crate::chart::{Axis, Chart, Tone, Unit};
use crate::text::{self, grouped};
use crate::{Cell, Page, Table};
use measure::{BlockRow, SeriesRow};

pub(super) fn section(report: &RunReport) -> String {
    if report.blocks.is_empty() {
        return "<p class=\"none\">no block was seen</p>".to_owned();
    }
    let at = |block: &BlockRow| block.observed_ns as f64 / 1e9;
    let ended = report.summary.time.ended_s;
    let txs = Chart::new(
        "Transactions in each block",
        Axis::time().to(ended),
        Axis::linear("transactions", Unit::Number),
    )
    .dots(
        "transactions",
        Tone::Committed,
        report
            .blocks
            .iter()
            .map(|block| (at(block), block.txs as f64)),
    );
    let interval = Chart::new(
        "Time between blocks",
        Axis::time().to(ended),
        Axis::linear("by the headers' times", Unit::Millis),
    )
    .dots(
        "since the block before",
        Tone::Depth,
        report
            .blocks
            .iter()
            .filter_map(|block| Some((at(block), block.interval_ms?))),
    );
    let charts = [txs, interval].map(|chart| chart.marks(report.marks()).html());
    let size = report.blocks.len().div_ceil(MAX_ROWS).max(1);
    let mut html = Page::grid(charts);
    if size > 1 {
        html.push_str(&format!(
            "<p class=\"note\">{} blocks, {size} in each row of the table; every one of them is in blocks.csv.</p>",
            grouped(report.blocks.len() as u64)
        ));
    }
    html.push_str("<details open><summary>the blocks and the load while each was made</summary>");
    html.push_str(&table(report, size).in_window().html());
    html.push_str("</details>");
    html
}

fn table(report: &RunReport, size: usize) -> Table {
    let load = Load::of(&report.series);
    let mut table = Table::new([
        "height",
        "seen at",
        "interval",
        "txs",
        "own",
        "failed",
        "bytes",
        "txs/s",
        "offered/s",
        "sent/s",
        "accepted/s",
        "backlog",
        "commit p50",
        "commit max",
    ]);
    let mut before_s: Option<f64> = None;
    for blocks in report.blocks.chunks(size) {
        if let Some(row) = Row::of(blocks, before_s, &load) {
            before_s = Some(row.seen_s);
            table.row(row.cells());
        }
    }
    table
}

/// One block, or several in a row.
struct Row<'a> {
    blocks: &'a [BlockRow],
    seen_s: f64,
    /// Since the row before.
    span_s: Option<f64>,
    offered: Option<f64>,
    sent: Option<f64>,
    accepted: Option<f64>,
    backlog: Option<u64>,
}

impl<'a> Row<'a> {
    fn of(blocks: &'a [BlockRow], before_s: Option<f64>, load: &Load<'_>) -> Option<Self> {
        let seen_s = blocks.last()?.observed_ns as f64 / 1e9;
        let span_s = before_s
            .map(|before| seen_s - before)
            .filter(|span| *span > 0.0);
        let over = |of: fn(&SeriesRow) -> u64| {
            let span = span_s?;
            Some(load.between(seen_s - span, seen_s, of) / span)
        };
        Some(Self {
            blocks,
            seen_s,
            span_s,
            offered: over(|row| row.offered),
            sent: over(|row| row.sent),
            accepted: over(|row| row.accepted),
            backlog: load.at(seen_s).map(|row| row.backlog),
        })
    }

    fn cells(&self) -> Vec<Cell> {
        let sum = |of: fn(&BlockRow) -> u64| self.blocks.iter().map(of).sum::<u64>();
        let highest = |of: fn(&BlockRow) -> Option<f64>| {
            let highest = self.blocks.iter().filter_map(of).reduce(f64::max);
            Cell::figure(text::or_dash(highest, text::millis))
        };
        let rate = |value: Option<f64>| Cell::figure(text::or_dash(value, text::number));
        let intervals = || self.blocks.iter().filter_map(|block| block.interval_ms);
        let count = intervals().count();
        let mean = (count > 0).then(|| intervals().sum::<f64>() / count as f64);
        let failed = sum(|block| block.own_failed);
        let txs = sum(|block| block.txs);
        vec![
            Cell::figure(self.heights()),
            Cell::figure(format!("{:.3} s", self.seen_s)),
            Cell::figure(text::or_dash(mean, text::millis)),
            Cell::figure(grouped(txs)),
            Cell::figure(grouped(sum(|block| block.own_txs))),
            if failed > 0 {
                Cell::Alarm(grouped(failed))
            } else {
                Cell::figure("0")
            },
            Cell::figure(grouped(sum(|block| block.bytes))),
            rate(self.span_s.map(|span| txs as f64 / span)),
            rate(self.offered),
            rate(self.sent),
            rate(self.accepted),
            Cell::figure(self.backlog.map_or_else(|| "–".to_owned(), grouped)),
            highest(|block| block.commit_p50_ms),
            highest(|block| block.commit_max_ms),
        ]
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
struct Load<'a> {
    series: &'a [SeriesRow],
}

impl<'a> Load<'a> {
    const fn of(series: &'a [SeriesRow]) -> Self {
        Self { series }
    }

    /// The second that contains `t`.
    fn at(&self, t: f64) -> Option<&'a SeriesRow> {
        let after = self.series.partition_point(|row| row.second as f64 <= t);
        self.series.get(after.checked_sub(1)?)
    }

    /// How many from `from` to `to`.
    fn between(&self, from: f64, to: f64, of: fn(&SeriesRow) -> u64) -> f64 {
        let first = self.series.partition_point(|row| end(row) <= from);
        let rows = self.series[first..].iter();
        rows.take_while(|row| (row.second as f64) < to)
            .map(|row| {
                let inside = end(row).min(to) - (row.second as f64).max(from);
                of(row) as f64 * (inside / row.span_s.max(1e-9)).clamp(0.0, 1.0)
            })
            .sum()
    }
}

fn end(row: &SeriesRow) -> f64 {
    row.second as f64 + row.span_s
}

/// Rows of the table at most.
const MAX_ROWS: usize = 400;
