//! What a mesh run comes to, as tables for a terminal and for its report; and a line a second on stderr while it goes on.

use std::collections::BTreeMap;

use harness::{SecondLines, note};
use measure::ScheduleVerdict;
use report::text::{
    count, grouped, millis, narrow_millis, number, or_dash, percent, percent_tenths, rate, short,
    tenths,
};
use report::{Entries, Table, mesh_evidence_text, mesh_gave_first, mesh_limit_text};

use super::account::{GENERATOR, NodeSecond};
use super::control::Counters;
use super::crew::{MachineSecond, Member};
use super::judge::GaveFirst;
use super::summary::{MeshSummary, NodeSummary, StepOutcome, StepSummary};

/// The result of a run on a terminal.
pub(crate) fn text(summary: &MeshSummary) -> String {
    let answer = headline(summary).replace("**", "");
    let (variant, number_of) = (&summary.variant, summary.nodes.len());
    let mut text = format!("\n{variant} on {number_of} nodes: {answer}\n");
    if let Some(first) = &summary.verdict.gave_first {
        text += &format!("What gave first: {}.\n", gave_first(first));
    }
    for outage in summary.outages().take(OUTAGES_SHOWN) {
        let from_s = outage.from_s.unwrap_or_default();
        text += &format!(
            "Outage from {from_s:.0} s on: {}.\n",
            mesh_evidence_text(outage)
        );
    }
    if summary.steps.len() > 1 {
        text += &format!("\n{}", steps(&summary.steps).text());
    }
    text += &format!(
        "\n{}\n{}",
        nodes(&summary.nodes).text(),
        entries(summary).text()
    );
    text
}

/// The result in one line: what came back, what gave first, and how far to trust it.
pub(crate) fn headline(summary: &MeshSummary) -> String {
    let (invalid, late) = match summary.verdict.schedule {
        _ if summary.is_disturbed() => (
            "**invalid**, as other programs had CPUs that the mesh lacked; ",
            "",
        ),
        ScheduleVerdict::Valid => ("", ""),
        ScheduleVerdict::Degraded => ("", "; the generator fell behind after the mesh had"),
        ScheduleVerdict::Invalid => (
            "**invalid**, as the generator did not offer as planned; ",
            "",
        ),
    };
    let gave = match &summary.verdict.gave_first {
        Some(first) => mesh_gave_first(first.cause.as_ref()),
        None => "**nothing** gave: all that was offered came back".to_owned(),
    };
    format!("{invalid}{}; {gave}{late}.", carried(summary))
}

/// What gave first, when, and how that showed.
pub(crate) fn gave_first(first: &GaveFirst) -> String {
    format!(
        "{} (second {}, step {}: {})",
        mesh_limit_text(first.cause.as_ref()),
        first.since_s,
        first.step + 1,
        mesh_evidence_text(&first.symptom)
    )
}

/// Of one rate what came back; of several the highest that was sustained.
fn carried(summary: &MeshSummary) -> String {
    let figures = &summary.figures;
    if summary.steps.len() < 2 {
        return format!(
            "**{}** came back of {} offered",
            rate(figures.eps_host),
            rate(figures.offered_per_s),
        );
    }
    match summary.last_sustained() {
        None => "**no step was sustained**".to_owned(),
        Some(step) => format!(
            "**sustained up to {}** (step {} of {})",
            rate(step.rate),
            step.step + 1,
            summary.steps.len(),
        ),
    }
}

/// One row a step.
pub(crate) fn steps(steps: &[StepSummary]) -> Table {
    Table::of(steps)
        .figure("step", |it| (it.step + 1).to_string())
        .number("rate", rate, |it| it.rate)
        .number("offered", rate, |it| {
            it.offered as f64 / (it.to_s - it.from_s)
        })
        .rest()
        .number("EPS host", count, |it| it.eps_host)
        .number("EPS least", count, |it| it.eps_least())
        .number("EPS sum", count, |it| it.eps_sum)
        .rest()
        .number("came back", percent, |it| it.came_back)
        .number("uprate, Mbit/s", number, |it| {
            it.uprate_bytes_per_s * 8.0 / 1e6
        })
        .rest()
        .number("parcels/s", rate, |it| it.parcels_per_s)
        .rest_of_page()
        .number("MB/s", number, |it| it.bytes_per_s / 1e6)
        .rest_of_page()
        .number("duplicates", percent, |it| it.duplicate_share)
        .rest_of_page()
        .count("dropped", |it| it.dropped)
        .alarm(|it| it.dropped > 0)
        .number("p50", millis, |it| it.latency_p50_ms)
        .rest_of_page()
        .number("p99", millis, |it| it.latency_p99_ms)
        .number("lateness p99", millis, |it| it.lateness_p99_ms)
        .rest_of_page()
        .number("CPUs", number, |it| it.cpus)
        .rest()
        .text("", |it| outcome(it.outcome))
        .alarm(|it| it.outcome != StepOutcome::KeptUp)
        .table()
}

const fn outcome(outcome: StepOutcome) -> &'static str {
    match outcome {
        StepOutcome::KeptUp => "kept up",
        StepOutcome::GaveHere => "gave here",
        StepOutcome::NotOffered => "not offered as planned",
        StepOutcome::Disturbed => "disturbed by other programs",
        StepOutcome::AfterItGave => "after it gave",
        StepOutcome::KeptUpAgain => "kept up again",
    }
}

/// One row a node.
pub(crate) fn nodes(nodes: &[NodeSummary]) -> Table {
    Table::of(nodes)
        .figure("node", |it| it.node.to_string())
        .number("EPS", count, |it| it.eps)
        .count("parcels out", |it| it.total.parcels_out)
        .rest()
        .count("in", |it| it.total.parcels_in)
        .rest()
        .count("writes", |it| it.total.writes)
        .rest_of_page()
        .number("MB in", number, |it| it.total.bytes_in as f64 / 1e6)
        .rest_of_page()
        .count("first seen", |it| it.total.first_seen)
        .count("again", |it| it.total.duplicates)
        .count("dropped", |it| {
            it.total.dropped_full + it.total.dropped_link
        })
        .alarm(|it| it.total.dropped_full + it.total.dropped_link > 0)
        .number("p99", millis, |it| it.latency_ms.p99)
        .number("CPU s", number, |it| it.total.cpu_ns as f64 / 1e9)
        .rest()
        .text("", |it| match it.ended_s {
            Some(at_s) => format!("ended at {at_s:.1} s"),
            None => String::new(),
        })
        .alarm(|it| it.ended_s.is_some())
        .table()
}

/// Figures of the whole run.
pub(crate) fn entries(summary: &MeshSummary) -> Entries {
    let (figures, offered) = (&summary.figures, &summary.offered);
    let mut entries = Entries::default();
    entries.add(
        "offered",
        format!(
            "{} of {} planned",
            grouped(offered.offered),
            grouped(offered.planned)
        ),
    );
    entries.add("lateness p99", or_dash(summary.lateness_ms.p99, millis));
    entries.add(
        "latency",
        format!(
            "p50 {}, p99 {} from due to first sight",
            or_dash(summary.latency_ms.p50, millis),
            or_dash(summary.latency_ms.p99, millis)
        ),
    );
    entries.add(
        "parcels",
        format!(
            "{} per message, {} B each ({} B overhead), {} per write call",
            or_dash(figures.parcels_per_message, number),
            or_dash(figures.bytes_per_parcel, number),
            or_dash(figures.overhead_per_parcel, number),
            or_dash(figures.parcels_per_write, number),
        ),
    );
    entries.add(
        "duplicates",
        or_dash(figures.duplicate_share, percent_tenths),
    );
    entries.add(
        "CPU",
        format!(
            "{} CPUs, {} per 1,000 parcels; encode {} ns, decode {} ns a parcel",
            number(figures.cpus),
            or_dash(figures.cpu_ms_per_1000_parcels, millis),
            or_dash(figures.encode_ns, number),
            or_dash(figures.decode_ns, number),
        ),
    );
    entries.add("reach", reach(summary));
    entries.add("account", account(summary));
    entries
}

fn reach(summary: &MeshSummary) -> String {
    let reach = &summary.reach;
    format!(
        "{} of {} followed messages were seen by all nodes, the last one after p50 {}, p99 {}",
        grouped(reach.seen_by_all),
        grouped(reach.followed),
        or_dash(reach.last_ms.p50, millis),
        or_dash(reach.last_ms.p99, millis)
    )
}

fn account(summary: &MeshSummary) -> String {
    let laws = &summary.conservation;
    let sums = format!(
        "{} parcels written = {} read + {} lost with broken links; {} of {} first sights",
        grouped(laws.written),
        grouped(laws.read),
        grouped(laws.lost),
        grouped(laws.sights),
        grouped(laws.sights_due)
    );
    let undrained = summary.verdict.undrained.as_ref();
    let undrained = undrained
        .map(|it| format!("; not drained: {it}"))
        .unwrap_or_default();
    match laws.violations.as_slice() {
        [] => sums + &undrained,
        violations => format!(
            "{sums}{undrained}. DOES NOT ADD UP: {}",
            violations.join("; ")
        ),
    }
}

/// The page has all.
const OUTAGES_SHOWN: usize = 3;

/// Adds the rows of all nodes and prints a line for each second that all have reported.
pub(crate) struct Progress {
    quiet: bool,
    /// Nodes of this machine that have not ended.
    own_nodes: usize,
    open: BTreeMap<u64, Second>,
    /// The first second that was not printed.
    next: u64,
    lines: SecondLines,
}

#[derive(Debug, Default)]
struct Second {
    rows: usize,
    planned: u64,
    host: Counters,
    all: Counters,
    p99_ms: Option<f64>,
    busy: Option<f64>,
    /// Nodes that had not reported it when it was printed.
    missing: usize,
}

impl Progress {
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            own_nodes: 0,
            open: BTreeMap::new(),
            next: 0,
            lines: SecondLines::default(),
        }
    }

    /// Lists the nodes.
    pub(crate) fn nodes(&mut self, members: &[Member]) {
        self.own_nodes = members.len();
        if self.quiet {
            return;
        }
        for member in members {
            let role = match member.node {
                GENERATOR => ", the generator",
                _ => "",
            };
            let (node, pid, listen) = (member.node, member.pid(), member.listen);
            self.message(&format!("node {node}: process {pid}, {listen}{role}"));
        }
    }

    /// Prints a message.
    pub(crate) fn message(&self, message: &str) {
        note(message);
    }

    /// A node has ended: the lines do not wait for it any more.
    pub(crate) fn ended(&mut self) {
        self.own_nodes = self.own_nodes.saturating_sub(1);
    }

    /// Adds a row; prints the seconds that are complete, and those that nodes are too slow to report.
    pub(crate) fn row(&mut self, row: &NodeSecond, machine: Option<MachineSecond>) {
        if self.quiet {
            return;
        }
        for (number, second) in self.take(row, machine) {
            self.lines.print(&table(number, &second));
        }
    }

    /// The seconds that are over with this row, in order and each once.
    fn take(&mut self, row: &NodeSecond, machine: Option<MachineSecond>) -> Vec<(u64, Second)> {
        if row.second < self.next {
            return Vec::new();
        }
        let second = self.open.entry(row.second).or_default();
        second.rows += 1;
        second.all += row.counters;
        second.busy = machine.map(|machine| machine.busy).or(second.busy);
        if row.node == GENERATOR {
            second.planned = row.planned;
            second.host = row.counters;
            second.p99_ms = row.latency.p99_ms;
        }
        let mut over = Vec::new();
        while let Some(entry) = self.open.first_entry() {
            let missing = self.own_nodes.saturating_sub(entry.get().rows);
            if missing > 0 && row.second <= *entry.key() + SECONDS_TO_WAIT {
                break;
            }
            let (number, mut second) = entry.remove_entry();
            second.missing = missing;
            self.next = number + 1;
            over.push((number, second));
        }
        over
    }
}

fn table(number: u64, second: &Second) -> Table {
    let (host, all) = (&second.host, &second.all);
    // A sum without all nodes is a lower bound.
    let bound = if second.missing > 0 { "+" } else { "" };
    let received = all.first_seen + all.duplicates;
    let duplicates = (received > 0).then(|| all.duplicates as f64 / received as f64);
    Table::of([()])
        .figure("second", |()| number.to_string())
        .figure("due", |()| second.planned.to_string())
        .figure("offered", |()| host.offered.to_string())
        .figure("EPS host", |()| host.entries.to_string())
        .figure("EPS sum", |()| format!("{}{bound}", all.entries))
        .number("parcels", short, |()| all.parcels_in as f64)
        .number("bytes", short, |()| all.bytes_in as f64)
        .number("dups", percent, |()| duplicates)
        .number("p99", narrow_millis, |()| second.p99_ms)
        .figure("drops", |()| {
            (all.dropped_full + all.dropped_link).to_string()
        })
        .number("CPUs", tenths, |()| second.busy)
        .table()
        .at_least(&[6, 5, 7, 8, 7, 7, 6, 4, 6, 5, 4])
}

/// A node that is slow to report holds the lines up so long.
const SECONDS_TO_WAIT: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Spread;

    fn row(node: u16, second: u64) -> NodeSecond {
        NodeSecond {
            second,
            node,
            planned: 0,
            counters: Counters {
                entries: 10,
                ..Counters::default()
            },
            queued: 0,
            links: 1,
            latency: Spread::default(),
            lateness: Spread::default(),
        }
    }

    /// Each second with the entries of all nodes that had reported it, and how many had not.
    fn lines(progress: &mut Progress, rows: &[(u16, u64)]) -> Vec<(u64, u64, usize)> {
        let over = |&(node, second): &(u16, u64)| progress.take(&row(node, second), None);
        let over = rows.iter().flat_map(over);
        over.map(|(number, second)| (number, second.all.entries, second.missing))
            .collect()
    }

    #[test]
    fn a_second_of_a_node_that_lags_is_printed_once_and_as_a_lower_bound() {
        let mut progress = Progress {
            own_nodes: 2,
            ..Progress::new(false)
        };
        let ahead: Vec<(u16, u64)> = (0..=4).map(|second| (0, second)).collect();
        assert_eq!(lines(&mut progress, &ahead), [(0, 10, 1)]);
        assert_eq!(
            lines(&mut progress, &[(1, 0), (1, 1), (1, 2)]),
            [(1, 20, 0), (2, 20, 0)],
            "the row of second 0 comes after its line"
        );
        let late = Second {
            missing: 1,
            all: row(0, 0).counters,
            ..Second::default()
        };
        assert!(table(0, &late).text().contains(" 10+ "));
    }

    #[test]
    fn the_lines_do_not_wait_for_a_node_that_has_ended() {
        let mut progress = Progress {
            own_nodes: 2,
            ..Progress::new(false)
        };
        assert_eq!(lines(&mut progress, &[(0, 0)]), []);
        progress.ended();
        assert_eq!(lines(&mut progress, &[(0, 1)]), [(0, 10, 0), (1, 10, 0)]);
    }

    #[test]
    fn a_line_fits_a_terminal_of_80_columns() {
        let counters = Counters {
            offered: 10_000,
            entries: 100_000,
            parcels_in: 1_000_000,
            bytes_in: 300_000_000,
            first_seen: 1,
            duplicates: 3,
            dropped_full: 99_999,
            ..Counters::default()
        };
        let second = Second {
            planned: 10_000,
            host: counters,
            all: counters,
            p99_ms: Some(12_345.0),
            busy: Some(1.97),
            missing: 1,
            ..Second::default()
        };
        for line in table(86_400, &second).text().lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
