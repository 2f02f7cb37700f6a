//! JSON lines on stdout, for programs that watch a run.

use std::io::{self, Write as _};

use measure::LiveView;
use pacing::Nanos;

/// Prints the live figures now and then.
#[derive(Debug)]
pub(super) struct JsonLines {
    every: Nanos,
    next: Nanos,
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
        }
    }

    /// Another run begins.
    pub(super) const fn begin(&mut self) {
        self.next = Nanos::ZERO;
    }

    /// Prints a line when it is time for one.
    pub(super) fn update(&mut self, now: Nanos, view: &LiveView) {
        if now < self.next {
            return;
        }
        self.next = now.saturating_add(self.every);
        let line = JsonLine {
            at_s: now.as_secs_f64(),
            view,
        };
        if let Ok(text) = serde_json::to_string(&line) {
            // A reader that has gone does not end the measurement.
            let _ = writeln!(io::stdout(), "{text}");
        }
    }
}
