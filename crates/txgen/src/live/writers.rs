//! A line a second for logs and for terminals that cannot do more; JSON lines for programs.

use harness::SecondLines;
use measure::{LiveView, SeriesRow};
use pacing::Nanos;
use report::Table;
use report::text::{grouped, narrow_millis};

use crate::output::note;

/// Writes lines to stderr.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: SecondLines,
    unsent: u64,
}

impl Lines {
    /// Prints a message.
    pub(super) fn message(message: &str) {
        note(message);
    }

    /// Prints one second; `unsent` is the count of the whole run.
    pub(super) fn second(&mut self, second: &SeriesRow, unsent: u64) {
        if self.lines.is_fresh() {
            Self::message(LEGEND);
        }
        self.lines.print(&table(second));
        if unsent > self.unsent {
            self.unsent = unsent;
            Self::message(&format!("{unsent} unsent so far"));
        }
    }

    /// Says that offering has ended and what is waited for.
    pub(super) fn draining(pending: u64, at_most_s: f64) {
        Self::message(&format!(
            "draining: {} pending, up to {at_most_s:.0} s",
            grouped(pending)
        ));
    }
}

/// One second as a table of a single row, whose columns are so wide that those of all seconds stand
/// below each other.
fn table(second: &SeriesRow) -> Table {
    let counts = second.counts;
    let p99 = |name| move |row: &&SeriesRow| row.latency.figure(name);
    Table::of([second])
        .figure("second", |row| row.second.to_string())
        .figure("offered", |_| counts.offered.to_string())
        .figure("sent", |_| counts.sent.to_string())
        .figure("accepted", |_| counts.accepted.to_string())
        .figure("commits", |_| counts.committed.to_string())
        .figure("refused", |_| (counts.rejected + counts.errors).to_string())
        .number("mempool", report::text::whole, |row| row.mempool_txs)
        .number("accept", narrow_millis, p99("accept_p99_ms"))
        .number("commit", narrow_millis, p99("commit_p99_ms"))
        .number("late", narrow_millis, |row| row.latency.lateness_p99_ms)
        .table()
        .at_least(&[6, 7, 7, 8, 7, 7, 7, 7, 7, 6])
}

/// Prints the live figures now and then.
#[derive(Debug)]
pub(super) struct JsonLines {
    every: Nanos,
    next: Nanos,
    /// Whether a line has said that the load was stopped.
    told: bool,
}

#[derive(serde::Serialize)]
struct JsonLine<'a> {
    at_s: f64,
    #[serde(flatten)]
    view: &'a LiveView,
}

impl JsonLines {
    pub(super) const fn new(every: Nanos) -> Self {
        Self {
            every,
            next: Nanos::ZERO,
            told: false,
        }
    }

    /// Another run begins.
    pub(super) const fn begin(&mut self) {
        self.next = Nanos::ZERO;
        self.told = false;
    }

    /// Prints a line when it is time for one, and when the load is stopped.
    pub(super) fn update(&mut self, now: Nanos, view: &LiveView) {
        let is_news = view.stopped.is_some() && !self.told;
        if now < self.next && !is_news {
            return;
        }
        self.told |= is_news;
        self.next = now.saturating_add(self.every);
        let line = JsonLine {
            at_s: now.as_secs_f64(),
            view,
        };
        if let Ok(text) = serde_json::to_string(&line) {
            ops::command::print((text + "\n").as_bytes());
        }
    }
}

const LEGEND: &str = "per second since the origin, the instant of the first due time;
due: when the schedule wanted it sent; accept, commit: p99 in ms from due;
late: p99 of the lateness, from due to sent, in ms";

#[cfg(test)]
mod tests {
    use measure::{Counts, LatencyColumns};

    use super::*;

    #[test]
    fn a_line_fits_a_terminal_of_80_columns() {
        let row = SeriesRow {
            second: 86_400,
            counts: Counts {
                offered: 100_000,
                sent: 100_000,
                accepted: 100_000,
                committed: 100_000,
                rejected: 100_000,
                ..Counts::default()
            },
            mempool_txs: Some(1_000_000),
            latency: LatencyColumns {
                accept_p99_ms: Some(60_000.0),
                commit_p99_ms: Some(0.123),
                lateness_p99_ms: None,
                ..LatencyColumns::default()
            },
            ..SeriesRow::default()
        };
        let full = table(&row).text();
        let short = table(&SeriesRow::default()).text();
        for word in ["origin", "due", "late"] {
            assert!(
                LEGEND.contains(word),
                "{word} is defined where it is first used"
            );
        }
        for line in full.lines().chain(short.lines()).chain(LEGEND.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
        let ends = |text: &str| text.lines().next().map(str::len);
        assert_eq!(ends(&full), ends(&short), "headings do not move");
    }
}
