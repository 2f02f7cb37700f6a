//! A line a second on stderr while a mesh run goes on.

use std::collections::BTreeMap;

use harness::{SecondLines, note};
use report::Table;
use report::text::{narrow_millis, percent, short, tenths};

use super::account::{GENERATOR, NodeSecond};
use super::control::Counters;
use super::crew::{MachineSecond, Member};

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

    /// Says which nodes there are.
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
