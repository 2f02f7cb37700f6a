//! The observed nodes, beside what was offered.

use measure::SeriesRow;

use super::RunReport;
use super::backlog::Backlog;
use crate::chart::{Axis, Chart, Tone};
use crate::runs::nodes::{Nodes, grid};

/// A row for each node, the mempools over one another, then each node's rates and processor time; empty where none
/// was observed.
pub(super) fn section(report: &RunReport) -> String {
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
