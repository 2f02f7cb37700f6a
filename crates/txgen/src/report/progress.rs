//! What is shown while a run goes on: a bar with the time left on a terminal, a line a second, and
//! JSON lines for programs.

use std::io::{self, IsTerminal as _, Write as _};

use indicatif::{ProgressBar, ProgressStyle};
use measure::{LiveView, SeriesRow};
use pacing::Nanos;

use super::grouped;
use crate::plan::Plan;

/// Shows one run. Lines and the bar go to stderr, JSON to stdout.
pub struct Progress {
    bar: Option<ProgressBar>,
    planned: Option<u64>,
    duration: Option<Nanos>,
    json_every: Option<Nanos>,
    json_at: Nanos,
    last_second: Option<u64>,
    lines: u64,
    brief: bool,
}

impl Progress {
    /// A bar is drawn when stderr is a terminal and the plan allows it.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let bar = (plan.tui && io::stderr().is_terminal()).then(|| bar(plan));
        Self {
            bar,
            planned: plan.planned(),
            duration: plan.duration(),
            json_every: plan.report_interval,
            json_at: Nanos::ZERO,
            last_second: None,
            lines: 0,
            brief: false,
        }
    }

    /// Without a line a second: for one run of many.
    #[must_use]
    pub fn brief(plan: &Plan) -> Self {
        Self {
            brief: true,
            ..Self::new(plan)
        }
    }

    /// Prints a message that stays.
    pub fn message(&self, message: &str) {
        match &self.bar {
            Some(bar) => bar.println(message),
            None => {
                // Nobody reads stderr: nothing to be done about it.
                let _ = writeln!(io::stderr(), "{message}");
            }
        }
    }

    /// Shows the state of the run at `now`.
    pub fn update(&mut self, now: Nanos, view: &LiveView, draining: bool) {
        if let Some(second) = &view.second
            && self.last_second != Some(second.second)
        {
            self.last_second = Some(second.second);
            if !self.brief {
                self.second(second, view);
            }
        }
        self.advance(now, view, draining);
        if let Some(every) = self.json_every
            && now >= self.json_at
        {
            self.json_at = now.saturating_add(every);
            json_line(now, view);
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn second(&mut self, second: &SeriesRow, view: &LiveView) {
        if self.lines.is_multiple_of(LINES_PER_HEADER) {
            self.message(HEADER);
        }
        self.lines += 1;
        self.message(&line(second, view));
    }

    fn advance(&self, now: Nanos, view: &LiveView, draining: bool) {
        let Some(bar) = &self.bar else {
            return;
        };
        match (self.duration, self.planned) {
            (Some(duration), _) => bar.set_position(now.min(duration).as_millis()),
            (None, Some(_)) => bar.set_position(view.totals.sent + view.totals.unsent),
            (None, None) => bar.tick(),
        }
        let message = if draining {
            format!("draining, {} to come", grouped(view.pending))
        } else {
            format!("{} sent", grouped(view.totals.sent))
        };
        bar.set_message(message);
    }
}

fn bar(plan: &Plan) -> ProgressBar {
    let (bar, template) = match (plan.duration(), plan.planned()) {
        (Some(duration), _) => (
            ProgressBar::new(duration.as_millis()),
            "{wide_bar} {percent}% {eta} left, {msg}",
        ),
        (None, Some(planned)) => (
            ProgressBar::new(planned),
            "{wide_bar} {percent}% {eta} left, {msg}",
        ),
        (None, None) => (ProgressBar::new_spinner(), "{spinner} {elapsed}, {msg}"),
    };
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style)
}

/// One second as a line of fixed columns.
fn line(second: &SeriesRow, view: &LiveView) -> String {
    let millis = |value: Option<f64>| {
        value.map_or("-".into(), |value| {
            if value < 100.0 {
                format!("{value:.2}")
            } else {
                format!("{value:.0}")
            }
        })
    };
    format!(
        "{:>6}{:>9}{:>9}{:>9}{:>9}{:>9}{:>10}{:>9}{:>18}{:>18}{:>9}{}",
        format!("{}s", second.second),
        second.offered,
        second.sent,
        second.accepted,
        second.committed,
        second.rejected + second.errors,
        second.in_flight,
        second
            .mempool_txs
            .map_or("-".into(), |depth| depth.to_string()),
        format!(
            "{}/{}",
            millis(second.accept_p50_ms),
            millis(second.accept_p99_ms)
        ),
        format!(
            "{}/{}",
            millis(second.commit_p50_ms),
            millis(second.commit_p99_ms)
        ),
        millis(second.lateness_p99_ms),
        if view.totals.unsent > 0 {
            format!("  {} unsent", grouped(view.totals.unsent))
        } else {
            String::new()
        }
    )
}

#[derive(serde::Serialize)]
struct JsonLine<'a> {
    at_s: f64,
    #[serde(flatten)]
    view: &'a LiveView,
}

fn json_line(now: Nanos, view: &LiveView) {
    let line = JsonLine {
        at_s: now.as_secs_f64(),
        view,
    };
    if let Ok(text) = serde_json::to_string(&line) {
        // A reader that has gone does not end the measurement.
        let _ = writeln!(io::stdout(), "{text}");
    }
}

const LINES_PER_HEADER: u64 = 20;
const HEADER: &str = "second  offered     sent accepted  commits  refused in-flight  mempool     accept p50/p99    commit p50/p99 late p99 (ms)";
