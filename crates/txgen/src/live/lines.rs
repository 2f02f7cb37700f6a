//! A line a second, for logs and for terminals that cannot do more.

use std::io::{self, Write as _};

use measure::SeriesRow;
use report::text::{grouped, narrow_millis};

use super::track::Track;

/// Writes lines to stderr.
#[derive(Debug, Default)]
pub(super) struct Lines {
    printed: u64,
}

impl Lines {
    /// Prints a message.
    pub(super) fn message(message: &str) {
        // Nobody reads stderr: nothing to be done about it.
        let _ = writeln!(io::stderr(), "{message}");
    }

    /// Prints one second.
    pub(super) fn second(&mut self, second: &SeriesRow, track: &Track) {
        if self.printed.is_multiple_of(LINES_PER_HEADER) {
            Self::message(HEADER);
        }
        self.printed += 1;
        Self::message(&line(second, track));
    }
}

/// One second as a line of fixed columns.
fn line(second: &SeriesRow, track: &Track) -> String {
    let millis = |value: Option<f64>| value.map_or("-".into(), narrow_millis);
    let pair = |low, high| format!("{}/{}", millis(low), millis(high));
    let unsent = track.counters.totals.unsent;
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
        if unsent > 0 {
            format!("  {} unsent", grouped(unsent))
        } else {
            String::new()
        }
    )
}

const LINES_PER_HEADER: u64 = 20;
const HEADER: &str = "second  offered     sent accepted  commits  refused in-flight  mempool     accept p50/p99    commit p50/p99 late p99 (ms)";
