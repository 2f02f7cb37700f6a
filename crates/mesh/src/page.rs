//! `report.html` of a mesh run.

use report::chart::{Axis, Chart, Tone, Unit};
use report::text::whole;
use report::{Page, mesh_evidence_text};

use super::account::{Account, GENERATOR, NodeSecond};
use super::control::Counters;
use super::summary::MeshSummary;
use super::table;

/// The report of a run.
pub(crate) fn page(title: &str, account: &Account, summary: &MeshSummary) -> String {
    let mut page = Page::new(title);
    page.headline(&table::headline(summary));
    let course = Course {
        nodes: account.offered_rows(),
    };
    page.section("Entries per second", &Page::grid(course.entries()));
    page.section("On the wire", &Page::grid(course.wire()));
    page.section("Time and resources", &Page::grid(course.resources(account)));
    if summary.steps.len() > 1 {
        page.section("Steps", &table::steps(&summary.steps).html());
    }
    page.section("Nodes", &table::nodes(&summary.nodes).html());
    page.section("Figures", &table::entries(summary).html());
    let evidence = report::Table::of(&summary.verdict.evidence)
        .number("since, s", whole, |it| it.from_s)
        .text("what was seen", |it| mesh_evidence_text(it));
    page.section("Evidence, in the order of time", &evidence.table().html());
    page.fold("Plan", &plan(summary));
    page.html()
}

fn plan(summary: &MeshSummary) -> String {
    let mut entries = report::Entries::default();
    let plan = serde_json::to_value(&summary.plan).unwrap_or_default();
    for (key, value) in plan.as_object().into_iter().flatten() {
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

impl Course<'_> {
    /// A line for each node.
    fn by_node(&self, chart: Chart, value: impl Fn(&NodeSecond) -> f64) -> Chart {
        self.nodes
            .iter()
            .enumerate()
            .fold(chart, |chart, (place, rows)| {
                let points = rows.iter().map(|row| (row.second as f64, value(row)));
                let name = rows
                    .first()
                    .map_or_else(String::new, |row| format!("node {}", row.node));
                chart.line(&name, Tone::Nth(place), points)
            })
    }

    /// The sum of the first so many nodes, second by second.
    fn sum(&self, nodes: usize, value: impl Fn(&Counters) -> f64) -> Vec<(f64, f64)> {
        let mut sums = std::collections::BTreeMap::<u64, f64>::new();
        for row in self.nodes.iter().take(nodes).flatten() {
            *sums.entry(row.second).or_default() += value(&row.counters);
        }
        sums.into_iter()
            .map(|(second, sum)| (second as f64, sum))
            .collect()
    }

    fn ratio(
        &self,
        part: impl Fn(&Counters) -> f64,
        whole: impl Fn(&Counters) -> f64,
    ) -> Vec<(f64, f64)> {
        let all = self.nodes.len();
        let (parts, wholes) = (self.sum(all, part), self.sum(all, whole));
        let both = parts
            .into_iter()
            .zip(wholes)
            .filter(|(_, whole)| whole.1 > 0.0);
        both.map(|((second, part), (_, whole))| (second, part / whole))
            .collect()
    }

    fn entries(&self) -> Vec<String> {
        let host = || {
            self.nodes
                .iter()
                .flatten()
                .filter(|row| row.node == GENERATOR)
        };
        let of_host = |value: fn(&NodeSecond) -> f64| {
            host()
                .map(move |row| (row.second as f64, value(row)))
                .collect::<Vec<_>>()
        };
        let chart = over_time("EPS by node", "entries", Unit::PerSecond)
            .note("entries seen for the first time in each second, beside what was due and offered")
            .tall()
            .line("due", Tone::Plan, of_host(|row| row.planned as f64))
            .line(
                "offered",
                Tone::Offered,
                of_host(|row| row.counters.offered as f64),
            );
        let by_node = self.by_node(chart, |row| row.counters.entries as f64);
        let mut stacked = over_time("EPS of all nodes, stacked", "entries", Unit::PerSecond)
            .note("the uppermost line is the sum");
        for nodes in 1..=self.nodes.len() {
            let name = format!("nodes up to {}", nodes - 1);
            stacked = stacked.line(
                &name,
                Tone::Nth(nodes - 1),
                self.sum(nodes, |it| it.entries as f64),
            );
        }
        let uprate = host().filter(|row| row.counters.offered > 0).map(|row| {
            let share = row.counters.entries as f64 / row.counters.offered as f64;
            (row.second as f64, share)
        });
        let uprate = over_time("Uprate", "of the offered", Unit::Share)
            .note("entries that came back to the host in a second, of those offered in it")
            .line("uprate", Tone::Committed, uprate);
        vec![by_node.html(), stacked.html(), uprate.html()]
    }

    fn wire(&self) -> Vec<String> {
        let all = self.nodes.len();
        let parcels = over_time("Parcels and write calls", "all nodes", Unit::PerSecond)
            .note("a parcel is not a write call: the study of 2020 counted the latter")
            .line(
                "parcels read",
                Tone::Accepted,
                self.sum(all, |it| it.parcels_in as f64),
            )
            .line(
                "write calls",
                Tone::Sent,
                self.sum(all, |it| it.writes as f64),
            );
        let bytes = over_time("Bytes", "bytes of all nodes", Unit::PerSecond).line(
            "read",
            Tone::Accepted,
            self.sum(all, |it| it.bytes_in as f64),
        );
        let size = over_time("Bytes per parcel", "bytes", Unit::Number)
            .line(
                "per parcel",
                Tone::Accepted,
                self.ratio(|it| it.bytes_in as f64, |it| it.parcels_in as f64),
            )
            .line(
                "per write call",
                Tone::Sent,
                self.ratio(|it| it.bytes_out as f64, |it| it.writes as f64),
            );
        let duplicates = self.ratio(|it| it.duplicates as f64, |it| it.messages_in as f64);
        let duplicates = over_time("Duplicates", "of received", Unit::Share)
            .note("messages that a node had seen before")
            .line("duplicates", Tone::Bad, duplicates);
        vec![parcels.html(), bytes.html(), size.html(), duplicates.html()]
    }

    fn resources(&self, account: &Account) -> Vec<String> {
        let latency = Chart::new(
            "Latency p99",
            Axis::time(),
            Axis::log("from due to first sight", Unit::Millis),
        );
        let latency = self.by_node(latency, |row| row.latency.p99_ms.unwrap_or(f64::NAN));
        let late = self
            .nodes
            .iter()
            .flatten()
            .filter(|row| row.node == GENERATOR);
        let late = late.map(|row| (row.second as f64, row.lateness.p99_ms.unwrap_or(f64::NAN)));
        let lateness = Chart::new(
            "Lateness of the generator, p99",
            Axis::time(),
            Axis::log("from due to offered", Unit::Millis),
        )
        .line("lateness", Tone::P99, late);
        let drops = over_time("Dropped at full queues", "parcels", Unit::PerSecond);
        let drops = self.by_node(drops, |row| row.counters.dropped_full as f64);
        let queues = over_time("Waiting in queues", "parcels", Unit::Number);
        let queues = self.by_node(queues, |row| row.queued as f64);
        let machine = account.machine.iter();
        let busy: Vec<_> = machine
            .clone()
            .map(|it| (it.second as f64, it.busy))
            .collect();
        let stolen: Vec<_> = machine.map(|it| (it.second as f64, it.stolen)).collect();
        let cpu = over_time("CPU by node", "CPUs", Unit::Number)
            .line("machine", Tone::Depth, busy)
            .line("stolen by others", Tone::Bad, stolen);
        let cpu = self.by_node(cpu, |row| row.counters.cpu_ns as f64 / 1e9);
        let wait = over_time("Waiting for a CPU", "share of time", Unit::Share);
        let wait = self.by_node(wait, |row| row.counters.wait_ns as f64 / 1e9);
        vec![
            latency.html(),
            lateness.html(),
            drops.html(),
            queues.html(),
            cpu.html(),
            wait.html(),
        ]
    }
}

fn over_time(title: &str, label: &str, unit: Unit) -> Chart {
    Chart::new(title, Axis::time(), Axis::linear(label, unit))
}
