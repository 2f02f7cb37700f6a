//! When transactions came in, in windows of 10 ms: one witness for every generator.

use std::io::Write as _;
use std::time::{Duration, Instant};

/// Counts requests by the window in which they were read. Off until [`Arrivals::start`], and then
/// one clock reading for each read of a socket.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    origin: Option<Instant>,
    counts: Vec<u32>,
}

impl Arrivals {
    /// Begins anew.
    pub(super) fn start(&mut self) {
        self.counts.clear();
        self.origin = Some(Instant::now());
    }

    /// The instant that the next requests belong to; none while off.
    pub(super) fn now(&self) -> Option<Duration> {
        self.origin.map(|origin| origin.elapsed())
    }

    /// Counts requests that were read at an instant of [`Arrivals::now`].
    pub(super) fn count(&mut self, at: Duration, requests: u64) {
        let window = (at.as_nanos() / WINDOW.as_nanos()) as usize;
        // Counting ends after an hour if the counts are not fetched.
        if window >= MOST_WINDOWS {
            return;
        }
        if window >= self.counts.len() {
            self.counts.resize(window + 1, 0);
        }
        self.counts[window] += requests as u32;
    }

    /// Ends the counting and appends what was counted as JSON.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.origin = None;
        // Writing to a Vec cannot fail.
        let _ = write!(
            out,
            "{{\"window_ms\":{},\"counts\":{:?}}}",
            WINDOW.as_millis(),
            self.counts
        );
    }
}

/// The window of the schedule's proof.
const WINDOW: Duration = Duration::from_millis(10);
/// An hour.
const MOST_WINDOWS: usize = 360_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_window() {
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.now(), None);
        arrivals.start();
        arrivals.count(Duration::from_millis(9), 2);
        arrivals.count(Duration::from_millis(35), 1);
        let mut out = Vec::new();
        arrivals.finish(&mut out);
        assert_eq!(out, br#"{"window_ms":10,"counts":[2, 0, 0, 1]}"#);
        assert_eq!(arrivals.now(), None);
    }
}
