//! The run folder of a mesh run: `series.csv`, `machine.csv`, `steps.csv`, `summary.json` and the report.

use std::io::{BufWriter, Write as _};

use anyhow::Context as _;
use harness::RunFolder;

use super::account::{Account, NodeSecond, Spread};
use super::control::Counters;
use super::summary::MeshSummary;

/// Writes everything that a run leaves.
///
/// # Errors
/// When a file cannot be written.
pub(crate) fn write(
    folder: &RunFolder,
    account: &Account,
    summary: &MeshSummary,
    page: &str,
) -> anyhow::Result<()> {
    write_lines(folder, "series.csv", series(account))?;
    let machine = account.machine.iter().map(|it| {
        format!(
            "{},{:.3},{:.3},{:.0}",
            it.second, it.busy, it.stolen, it.cpus
        )
    });
    let heading = "second,cpus_busy,cpus_stolen,cpus".to_owned();
    write_lines(
        folder,
        "machine.csv",
        std::iter::once(heading).chain(machine),
    )?;
    let mut document = serde_json::to_string_pretty(summary)?;
    document.push('\n');
    folder.write("summary.json", &document)?;
    folder.write("report.html", page)
}

/// A row a second and node, in the order in which nodes reported them.
fn series(account: &Account) -> impl Iterator<Item = String> {
    let heading = format!(
        "second,node,planned,{},queued,links,latency_p50_ms,latency_p99_ms,latency_max_ms,\
         lateness_p50_ms,lateness_p99_ms,lateness_max_ms",
        Counters::NAMES.join(",")
    );
    std::iter::once(heading).chain(account.seconds.iter().map(line))
}

fn line(row: &NodeSecond) -> String {
    let values: Vec<String> = row.counters.values().iter().map(u64::to_string).collect();
    format!(
        "{},{},{},{},{},{},{},{}",
        row.second,
        row.node,
        row.planned,
        values.join(","),
        row.queued,
        row.links,
        spread(&row.latency),
        spread(&row.lateness)
    )
}

fn spread(spread: &Spread) -> String {
    let text = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
    let values = [spread.p50_ms, spread.p99_ms, spread.max_ms].map(text);
    values.join(",")
}

fn write_lines(
    folder: &RunFolder,
    name: &str,
    mut lines: impl Iterator<Item = String>,
) -> anyhow::Result<()> {
    let mut file = BufWriter::new(folder.open(name)?);
    let written = lines.try_for_each(|line| writeln!(file, "{line}"));
    written
        .and_then(|()| file.flush())
        .with_context(|| format!("cannot write {name}"))
}
