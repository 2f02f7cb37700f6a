//! A line a second, for logs and for terminals that cannot do more.

use std::io::{self, Write as _};

use measure::SeriesRow;
use report::text::{grouped, narrow_millis, or_dash};

/// Writes lines to stderr.
#[derive(Debug, Default)]
pub(super) struct Lines {
    printed: u64,
}

impl Lines {
    /// Prints a message.
    pub(super) fn message(message: &str) {
        // A closed stderr does not end the run.
        let _ = writeln!(io::stderr(), "{message}");
    }

    /// Prints one second; `unsent` is the count of the whole run.
    pub(super) fn second(&mut self, second: &SeriesRow, unsent: u64) {
        if self.printed.is_multiple_of(LINES_PER_HEADER) {
            Self::message(HEADER);
        }
        self.printed += 1;
        Self::message(&line(second, unsent));
    }
}

/// One second as a line of fixed columns.
fn line(second: &SeriesRow, unsent: u64) -> String {
    let millis = |value| or_dash(value, narrow_millis);
    let pair = |low, high| format!("{}/{}", millis(low), millis(high));
    format!(
        "{:>6}{:>9}{:>9}{:>9}{:>9}{:>9}{:>10}{:>9}{:>18}{:>18}{:>9}{}",
        format!("{}s", second.second),
        second.counts.offered,
        second.counts.sent,
        second.counts.accepted,
        second.counts.committed,
        second.counts.rejected + second.counts.errors,
        second.in_flight,
        second
            .mempool_txs
            .map_or("-".into(), |depth| depth.to_string()),
        pair(second.latency.accept_p50_ms, second.latency.accept_p99_ms),
        pair(second.latency.commit_p50_ms, second.latency.commit_p99_ms),
        millis(second.latency.lateness_p99_ms),
        match unsent {
            0 => String::new(),
            _ => format!("  {} unsent", grouped(unsent)),
        }
    )
}

const LINES_PER_HEADER: u64 = 20;
const HEADER: &str = "second  offered     sent accepted  commits  refused in-flight  mempool     accept p50/p99    commit p50/p99 late p99 (ms)";
