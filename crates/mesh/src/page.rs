//! What a mesh run leaves in its folder: `series.csv`, `machine.csv`, `summary.json` and `report.html`.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write as _};

use harness::{RunFolder, whole};
use report::chart::{Axis, Chart, Tone, Unit};
use report::text::seconds;
use report::{Page, mesh_evidence_text};

use super::account::{Account, GENERATOR, NodeSecond, Spread};
use super::control::Counters;
use super::crew::MachineSecond;
use super::summary::MeshSummary;
use super::table;

/// The report of a run.
pub(crate) fn page(title: &str, account: &Account, summary: &MeshSummary) -> String {
    let mut page = Page::new(title);
    page.headline(&table::headline(summary));
    if let Some(first) = &summary.verdict.gave_first {
        page.paragraph(&format!("What gave first: {}.", table::gave_first(first)));
    }
    let course = Course {
        nodes: account.offered_rows(),
    };
    page.section("Entries per second", &Page::grid(course.entries()));
    page.section("On the wire", &Page::grid(course.wire()));
    page.section(
        "Time and resources",
        &Page::grid(course.resources(&account.machine)),
    );
    if summary.steps.len() > 1 {
        page.section("Steps", &table::steps(&summary.steps).html());
    }
    page.section("Nodes", &table::nodes(&summary.nodes).html());
    page.section("Figures", &table::entries(summary).html());
    let evidence = report::Table::of(&summary.verdict.evidence)
        .number("since", seconds, |it| it.from_s)
        .text("what was seen", |it| mesh_evidence_text(it));
    page.section("Evidence, in the order of time", &evidence.table().html());
    page.fold("Plan", &plan(summary));
    page.preformatted("Messages", &summary.plan.mix_text);
    page.html()
}

fn plan(summary: &MeshSummary) -> String {
    let mut entries = report::Entries::default();
    let plan = serde_json::to_value(&summary.plan).unwrap_or_default();
    let settings = plan.as_object().into_iter().flatten();
    // The text of the mix is a section of its own.
    for (key, value) in settings.filter(|(key, _)| *key != "mix_text") {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        entries.add(key, text);
    }
    entries.html()
}

/// The seconds of each node, for charts.
struct Course<'a> {
    nodes: Vec<Vec<&'a NodeSecond>>,
}

/// A count of a node's second.
type Counted = fn(&NodeSecond) -> u64;
/// A second and a value.
type Points = Vec<(f64, f64)>;

impl Course<'_> {
    /// What the generator's node counted.
    fn host(&self, value: impl Fn(&NodeSecond) -> f64) -> Points {
        let rows = self.nodes.iter().flatten();
        let host = rows.filter(|row| row.node == GENERATOR);
        host.map(|row| (row.second as f64, value(row))).collect()
    }

    /// A line for each node.
    fn by_node(&self, chart: Chart, value: impl Fn(&NodeSecond) -> f64) -> Chart {
        (0..).zip(&self.nodes).fold(chart, |chart, (place, rows)| {
            let points = rows.iter().map(|row| (row.second as f64, value(row)));
            chart.line(&format!("node {}", rows[0].node), Tone::Nth(place), points)
        })
    }

    /// The sum of the first so many nodes, second by second.
    fn sum_of(&self, nodes: usize, value: fn(&Counters) -> u64) -> Points {
        let mut sums = BTreeMap::<u64, u64>::new();
        for row in self.nodes.iter().take(nodes).flatten() {
            *sums.entry(row.second).or_default() += value(&row.counters);
        }
        let sums = sums.into_iter();
        sums.map(|(second, sum)| (second as f64, sum as f64))
            .collect()
    }

    /// The sum of all nodes.
    fn sum(&self, value: fn(&Counters) -> u64) -> Points {
        self.sum_of(self.nodes.len(), value)
    }

    /// The quotient of two sums.
    fn ratio(&self, part: fn(&Counters) -> u64, whole: fn(&Counters) -> u64) -> Points {
        let both = self.sum(part).into_iter().zip(self.sum(whole));
        let both = both.filter(|(_, (_, whole))| *whole > 0.0);
        both.map(|((second, part), (_, whole))| (second, part / whole))
            .collect()
    }

    fn entries(&self) -> [String; 3] {
        let chart = over_time("EPS by node", "entries", Unit::PerSecond)
            .note("entries seen for the first time in each second, beside what was due and offered")
            .tall()
            .line("due", Tone::Plan, self.host(|row| row.planned as f64))
            .line(
                "offered",
                Tone::Offered,
                self.host(|row| row.counters.offered as f64),
            );
        let by_node = self.by_node(chart, |row| row.counters.entries as f64);
        let stacked = over_time("EPS of all nodes, stacked", "entries", Unit::PerSecond)
            .note("the uppermost line is the sum");
        let stacked = (0..self.nodes.len()).fold(stacked, |chart, node| {
            let sum = self.sum_of(node + 1, |it| it.entries);
            chart.line(&format!("nodes up to {node}"), Tone::Nth(node), sum)
        });
        let back = self.host(|row| row.counters.entries as f64 / row.counters.offered as f64);
        let back = back.into_iter().filter(|(_, share)| share.is_finite());
        let back = over_time("Share that came back", "of the offered", Unit::Share)
            .note("entries that came back to the host in a second, of those offered in it")
            .line("came back", Tone::Committed, back);
        [by_node, stacked, back].map(|chart| chart.html())
    }

    fn wire(&self) -> [String; 6] {
        let megabits = |bytes: f64| bytes * 8.0 / 1e6;
        let uprate = over_time("Written by each node", "Mbit/s", Unit::Number)
            .note("what a node writes to its sockets: the uprate of the study of 2020");
        let uprate = self.by_node(uprate, |row| megabits(row.counters.bytes_out as f64));
        let stacked = over_time("Written by all nodes, stacked", "Mbit/s", Unit::Number)
            .note("the uppermost line is the sum");
        let stacked = (0..self.nodes.len()).fold(stacked, |chart, node| {
            let sum = self.sum_of(node + 1, |it| it.bytes_out).into_iter();
            let sum: Points = sum.map(|(at, bytes)| (at, megabits(bytes))).collect();
            chart.line(&format!("nodes up to {node}"), Tone::Nth(node), sum)
        });
        let parcels = over_time("Parcels and write calls", "all nodes", Unit::PerSecond)
            .note("a parcel is a message with its head; one call may write several, and the study of 2020 counted calls")
            .line("parcels read", Tone::Accepted, self.sum(|it| it.parcels_in))
            .line("write calls", Tone::Sent, self.sum(|it| it.writes));
        let bytes = over_time("Bytes", "bytes of all nodes", Unit::PerSecond).line(
            "read",
            Tone::Accepted,
            self.sum(|it| it.bytes_in),
        );
        let (per_parcel, per_write) = (
            self.ratio(|it| it.bytes_in, |it| it.parcels_in),
            self.ratio(|it| it.bytes_out, |it| it.writes),
        );
        let size = over_time("Bytes per parcel", "bytes", Unit::Number)
            .line("per parcel", Tone::Accepted, per_parcel)
            .line("per write call", Tone::Sent, per_write);
        let duplicates = self.ratio(|it| it.duplicates, |it| it.messages_in);
        let duplicates = over_time("Duplicates", "of received", Unit::Share)
            .note("messages that a node had seen before")
            .line("duplicates", Tone::Bad, duplicates);
        [uprate, stacked, parcels, bytes, size, duplicates].map(|chart| chart.html())
    }

    /// A chart of what waited or went is there only where something did.
    fn resources(&self, machine: &[MachineSecond]) -> Vec<String> {
        let log =
            |title: &str, label| Chart::new(title, Axis::time(), Axis::log(label, Unit::Millis));
        let latency = log("Latency p99", "from due to first sight");
        let latency = self.by_node(latency, |row| row.latency.p99_ms.unwrap_or(f64::NAN));
        let late = self.host(|row| row.lateness.p99_ms.unwrap_or(f64::NAN));
        let lateness = log("Lateness of the generator, p99", "from due to offered");
        let lateness = lateness.line("lateness", Tone::P99, late);
        let of_queues: [(_, _, Counted); 2] = [
            ("Dropped at full queues", Unit::PerSecond, |row| {
                row.counters.dropped_full
            }),
            ("Waiting in queues", Unit::Number, |row| row.queued),
        ];
        let rows = || self.nodes.iter().flatten();
        let of_queues = of_queues
            .into_iter()
            .filter(|(_, _, value)| rows().any(|row| value(row) > 0))
            .map(|(title, unit, value)| {
                self.by_node(over_time(title, "parcels", unit), |row| value(row) as f64)
            });
        let of_machine = |value: fn(&MachineSecond) -> f64| {
            machine.iter().map(move |it| (it.second as f64, value(it)))
        };
        let cpu = over_time("CPU by node", "CPUs", Unit::Number)
            .line("machine", Tone::Plan, of_machine(|it| it.busy))
            .line("stolen by others", Tone::Bad, of_machine(|it| it.stolen));
        let cpu = self.by_node(cpu, |row| row.counters.cpu_ns as f64 / 1e9);
        let wait = over_time("Waiting for a CPU", "share of time", Unit::Share);
        let wait = self.by_node(wait, |row| row.counters.wait_ns as f64 / 1e9);
        let charts = [latency, lateness].into_iter().chain(of_queues);
        charts
            .chain([cpu, wait])
            .map(|chart| chart.html())
            .collect()
    }
}

fn over_time(title: &str, label: &str, unit: Unit) -> Chart {
    Chart::new(title, Axis::time(), Axis::linear(label, unit))
}

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
    whole(written.and_then(|()| file.flush()), name)
}
