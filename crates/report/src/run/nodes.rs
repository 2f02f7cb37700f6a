//! The observed nodes, in small multiples.

use measure::{NodeRow, admitted, propagations};

use super::RunReport;
use crate::Page;
use crate::chart::{Axis, Chart, Tone, Unit};

/// The mempools over one another, then each node's rates and processor time; empty where none was observed.
pub(super) fn section(report: &RunReport) -> String {
    let mut names: Vec<&str> = report.nodes.iter().map(|row| &*row.node).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return String::new();
    }
    let of = |name: &str| -> Vec<&NodeRow> {
        let rows = report.nodes.iter();
        rows.filter(|row| row.node == name).collect()
    };
    let mut charts = vec![mempools(report, &names, of), delays(report)];
    for name in names {
        let rows = of(name);
        charts.push(rates(report, name, &rows));
        let used = |row: &&NodeRow| row.cpu.or(row.machine_cpu).is_some();
        if rows.iter().any(used) {
            charts.push(processors(report, name, &rows));
        }
    }
    let charts: Vec<String> = charts.into_iter().map(|chart| chart.html()).collect();
    Page::grid(charts)
}

/// What was sent and is in no block, against what each node has of it: the distance is what it lacks.
fn mempools<'a>(
    report: &'a RunReport,
    names: &[&str],
    of: impl Fn(&str) -> Vec<&'a NodeRow>,
) -> Chart {
    let axis = Axis::linear("transactions", Unit::Number);
    let waiting = report.series.iter();
    let waiting = waiting.map(|row| (row.second as f64 + 0.5, row.backlog as f64));
    let mut chart = report
        .over_time("In each node's mempool", axis)
        .tall()
        .line("accepted, in no block yet", Tone::Offered, waiting);
    for (number, name) in names.iter().enumerate() {
        let depths = of(name);
        let depths = depths.iter().map(|row| {
            (
                row.second as f64 + 0.5,
                row.mempool_txs.map_or(f64::NAN, |txs| txs as f64),
            )
        });
        chart = chart.line(
            &format!("at {name}"),
            Tone::Nth(number),
            depths.collect::<Vec<_>>(),
        );
    }
    chart
}

/// How long blocks took from the first node to the others, by their sizes.
fn delays(report: &RunReport) -> Chart {
    let found = propagations(&report.sights);
    let point = |block: &measure::Propagation| (block.bytes as f64 / 1e6, block.delay_s);
    Chart::new(
        "Blocks: from the first node to the others",
        Axis::linear("size of the block in MB", Unit::Number),
        Axis::linear("seconds", Unit::Seconds),
    )
    .tall()
    .dots("a block at a node", Tone::Accepted, found.iter().map(point))
}

/// Generated, accepted, admitted by this node, committed.
fn rates(report: &RunReport, name: &str, rows: &[&NodeRow]) -> Chart {
    let middle = |second: u64| second as f64 + 0.5;
    let axis = Axis::linear("transactions per second", Unit::PerSecond);
    let series = |of: fn(&measure::SeriesRow) -> u64| {
        let rows = report.series.iter();
        rows.map(move |row| {
            let from = row.second as f64;
            let rate = of(row) as f64 / row.span_s.max(f64::MIN_POSITIVE);
            (from, from + row.span_s, rate)
        })
    };
    let own = admitted(rows).into_iter();
    let own = own.map(|(second, rate)| (middle(second), rate));
    let committed = rows.iter().filter(|row| row.blocks > 0);
    let committed = committed.map(|row| (middle(row.second), row.block_txs as f64));
    report
        .over_time(&format!("Rates at {name}"), axis)
        .steps("offered", Tone::Offered, series(|row| row.counts.offered))
        .steps(
            "accepted by the loaded nodes",
            Tone::Accepted,
            series(|row| row.counts.accepted),
        )
        .line("into its mempool", Tone::Depth, own)
        .dots("in its blocks of the second", Tone::Committed, committed)
}

/// Cores that its process, its busiest thread and its machine used.
fn processors(report: &RunReport, name: &str, rows: &[&NodeRow]) -> Chart {
    let of = |value: fn(&NodeRow) -> Option<f64>| {
        rows.iter()
            .map(move |row| (row.second as f64 + 0.5, value(row).unwrap_or(f64::NAN)))
    };
    report
        .over_time(
            &format!("Processors at {name}"),
            Axis::linear("cores", Unit::Number),
        )
        .line(
            "everything on its machine",
            Tone::Plan,
            of(|row| row.machine_cpu),
        )
        .line("its process", Tone::P50, of(|row| row.cpu))
        .line(
            "its busiest thread",
            Tone::P99,
            of(|row| row.busiest_thread),
        )
}
