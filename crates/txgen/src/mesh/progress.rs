//! A line a second on stderr while a mesh run goes on.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use report::Table;
use report::text::{narrow_millis, percent, short, tenths};

use super::account::{GENERATOR, NodeSecond};
use super::counters::Counters;
use super::crew::Member;
use super::machine::MachineSecond;

/// Puts the rows of all nodes together and prints a line for each second that all have told of.
pub(crate) struct Progress {
    quiet: bool,
    own_nodes: usize,
    open: BTreeMap<u64, Second>,
    printed: u64,
}

#[derive(Debug, Default)]
struct Second {
    rows: usize,
    planned: u64,
    host: Counters,
    all: Counters,
    p99_ms: Option<f64>,
    busy: Option<f64>,
}

impl Progress {
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            own_nodes: 0,
            open: BTreeMap::new(),
            printed: 0,
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
        // A closed stderr does not end the run.
        let _ = writeln!(io::stderr(), "{message}");
    }

    /// Takes a row; prints the seconds that are complete, and those that never will be.
    pub(crate) fn row(&mut self, row: &NodeSecond, machine: Option<MachineSecond>) {
        if self.quiet {
            return;
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
        while let Some(entry) = self.open.first_entry() {
            let is_old = row.second > *entry.key() + SECONDS_TO_WAIT;
            if entry.get().rows < self.own_nodes && !is_old {
                return;
            }
            let (second, counts) = entry.remove_entry();
            self.line(second, &counts);
        }
    }

    fn line(&mut self, number: u64, second: &Second) {
        let text = table(number, second).text();
        let mut lines = text.lines();
        let heading = lines.next().unwrap_or_default();
        if self.printed.is_multiple_of(LINES_PER_HEADER) {
            self.message(heading);
        }
        self.printed += 1;
        lines.for_each(|line| self.message(line));
    }
}

fn table(number: u64, second: &Second) -> Table {
    let (host, all) = (&second.host, &second.all);
    let received = all.first_seen + all.duplicates;
    let duplicates = (received > 0).then(|| all.duplicates as f64 / received as f64);
    Table::of([()])
        .figure("second", |()| number.to_string())
        .figure("due", |()| second.planned.to_string())
        .figure("offered", |()| host.offered.to_string())
        .figure("EPS host", |()| host.entries.to_string())
        .figure("EPS sum", |()| all.entries.to_string())
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

const LINES_PER_HEADER: u64 = 20;
/// A node that is slow to tell holds the lines up so long.
const SECONDS_TO_WAIT: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;

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
            ..Second::default()
        };
        for line in table(86_400, &second).text().lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
