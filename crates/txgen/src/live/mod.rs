//! What is shown of a run while it goes on: a full-screen view on a terminal, a line a second without
//! one, JSON lines for programs, metrics for Prometheus. The lines are written here.
//!
//! Read first: [`LiveState`] (the state that is shown), [`Display`] (passes it to every view). The run updates
//! the display; nothing here changes the load. The full-screen view and the metrics have
//! threads of their own, so a terminal that hangs or a slow scraper does not hold up the run.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use harness::SecondLines;
use measure::{LiveView, SeriesRow};
use pacing::Nanos;
use parking_lot::Mutex;
use report::Table;
use report::text::{grouped, narrow_millis};

use self::metrics::MetricsServer;
use self::terminal::FullScreen;
use crate::output::note;
use crate::settings::DisplaySettings;
use crate::shutdown::Shutdown;

mod metrics;
#[cfg(feature = "tui")]
mod screen;
mod state;
#[cfg(feature = "tui")]
mod terminal;

pub(crate) use state::Update;
pub use state::{LiveState, Message, NodeBoard, NodeState, Phase, RunInfo};
pub use terminal::LogWriter;

/// In place of `terminal` in a build without the feature `tui`: no terminal can be drawn on.
#[cfg(not(feature = "tui"))]
mod terminal {
    use std::io::{self, Write};
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::state::LiveState;
    use crate::shutdown::Shutdown;

    pub(super) const fn is_usable() -> bool {
        false
    }

    /// The full-screen view, of which there is none.
    #[derive(Debug)]
    pub(super) enum FullScreen {}

    impl FullScreen {
        pub(super) fn open(_: Arc<Mutex<LiveState>>, _: Shutdown) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(super) const fn is_shown(&self) -> bool {
            match *self {}
        }
    }

    /// Where log lines go: to stderr.
    #[derive(Debug, Default, Clone, Copy)]
    pub struct LogWriter;

    impl Write for LogWriter {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            io::stderr().write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            io::stderr().flush()
        }
    }
}

/// Shows one run, or several one after the other: `txgen search` and campaigns keep one display for all
/// of them and set the [`Display::heading`] of the one that is under way.
///
/// What must outlive a full-screen view (messages, results) is held back and printed by
/// [`Display::close`], at the latest when the display is dropped.
pub struct Display {
    state: Arc<Mutex<LiveState>>,
    shutdown: Shutdown,
    full_screen: bool,
    screen: Option<FullScreen>,
    lines: Lines,
    json: Option<JsonLines>,
    metrics: Option<MetricsServer>,
    marks_seen: usize,
    /// Messages and results for the time after the full-screen view.
    held_messages: Vec<String>,
    held_results: String,
}

impl Display {
    /// Opens what needs opening ahead of a run: the listener for metrics. The terminal is taken when a
    /// run begins. `shutdown` is asked by its keys.
    ///
    /// # Errors
    /// When the metrics cannot be served.
    pub fn open(settings: &DisplaySettings, shutdown: &Shutdown) -> anyhow::Result<Self> {
        let state = Arc::new(Mutex::new(LiveState::default()));
        let metrics = settings
            .metrics
            .map(|address| MetricsServer::start(address, Arc::clone(&state)))
            .transpose()?;
        // JSON lines on the terminal and a picture on it would spoil each other.
        let json_there = settings.report_interval.is_some() && io::stdout().is_terminal();
        Ok(Self {
            state,
            shutdown: shutdown.clone(),
            full_screen: !settings.no_tui && !json_there && terminal::is_usable(),
            screen: None,
            lines: Lines::default(),
            json: settings.report_interval.map(JsonLines::new),
            metrics,
            marks_seen: shutdown.marks(),
            held_messages: Vec::new(),
            held_results: String::new(),
        })
    }

    /// Where metrics are served.
    pub fn metrics_address(&self) -> Option<std::net::SocketAddr> {
        self.metrics.as_ref().map(MetricsServer::address)
    }

    /// What the runs from here on belong to, and which of them comes now.
    pub fn heading(&self, heading: impl Into<String>) {
        let mut state = self.state.lock();
        state.heading = Some(heading.into());
        state.version += 1;
    }

    /// A run begins.
    pub fn begin(&mut self, info: RunInfo) {
        self.state.lock().begin(info);
        self.lines = Lines::default();
        if let Some(json) = &mut self.json {
            json.begin();
        }
        if self.full_screen && self.screen.is_none() {
            match FullScreen::open(Arc::clone(&self.state), self.shutdown.clone()) {
                Ok(screen) => self.screen = Some(screen),
                Err(error) => {
                    self.full_screen = false;
                    self.message(&format!(
                        "warning: no full-screen view on this terminal ({error}); lines instead"
                    ));
                }
            }
        }
    }

    /// Prints where the run's folder is, and its metrics if they are served.
    pub fn say_where(&mut self, folder: &Path) {
        self.message(&format!("writing  {}", folder.display()));
        if let Some(address) = self.metrics_address() {
            self.message(&format!("metrics  http://{address}/metrics"));
        }
    }

    /// Prints a line that stays.
    pub fn message(&mut self, message: &str) {
        self.state.lock().message(message.to_owned());
        if self.on_screen() {
            if self.held_messages.len() < MAX_HELD_MESSAGES {
                self.held_messages.push(message.to_owned());
            }
        } else {
            Lines::message(message);
        }
    }

    /// Prints a result on stdout, or on stderr where stdout has JSON lines; after a full-screen view when
    /// there is one.
    pub fn result(&mut self, text: &str) {
        if self.on_screen() {
            self.held_results.push_str(text);
        } else {
            self.print(text);
        }
    }

    /// Shows the state of the run at `now`.
    pub(crate) fn update(&mut self, now: Nanos, update: Update) {
        let shown = self.on_screen();
        if let Some(json) = &mut self.json {
            json.update(now, &update.live);
        }
        let mut state = self.state.lock();
        let quiet = state.info.brief;
        state.now = now;
        let phase = if update.draining {
            Phase::Draining
        } else {
            Phase::Offering
        };
        let drain_begins = phase == Phase::Draining && state.phase != phase;
        if drain_begins {
            state.drain_since = now;
        }
        state.phase = phase;
        state.pending = update.live.pending;
        state.onsets = update.onsets;
        state.counters = update.counters;
        for second in &update.new_seconds {
            state.second(second.clone());
        }
        for step in update.new_steps {
            state.step(step);
        }
        if shown || quiet {
            return;
        }
        // A slow terminal holds no lock.
        let unsent = state.counters.totals.unsent;
        let (pending, at_most_s) = (state.pending, state.drain_left_s());
        drop(state);
        for second in &update.new_seconds {
            self.lines.second(second, unsent);
        }
        if drain_begins && pending > 0 {
            Lines::draining(pending, at_most_s);
        }
    }

    /// Names for the marks that were asked for since the last call.
    pub(crate) fn marks(&mut self) -> Vec<String> {
        let asked = self.shutdown.marks();
        let fresh = asked.saturating_sub(self.marks_seen) as u64;
        self.marks_seen = asked;
        let mut state = self.state.lock();
        let first = state.marks + 1;
        state.marks += fresh;
        (first..first + fresh)
            .map(|number| format!("mark {number}"))
            .collect()
    }

    /// The run is over; the display waits for the next one.
    pub fn end(&mut self) {
        let mut state = self.state.lock();
        state.phase = Phase::Over;
        state.version += 1;
    }

    /// Gives the terminal back and prints what was held back.
    pub fn close(&mut self) {
        self.full_screen = false;
        self.screen = None;
        for message in self.held_messages.drain(..) {
            Lines::message(&message);
        }
        let results = std::mem::take(&mut self.held_results);
        self.print(&results);
    }

    fn print(&self, text: &str) {
        let text = report::text::fit(text);
        match self.json {
            Some(_) => drop(io::stderr().lock().write_all(text.as_bytes())),
            None => drop(ops::command::print(text.as_bytes())),
        }
    }

    /// Whether a picture is on the terminal; a panic elsewhere takes it away.
    fn on_screen(&self) -> bool {
        self.screen.as_ref().is_some_and(FullScreen::is_shown)
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.close();
    }
}

/// More than a person reads afterwards; a node that breaks every second repeats its messages.
const MAX_HELD_MESSAGES: usize = 200;

/// Writes lines to stderr.
#[derive(Debug, Default)]
struct Lines {
    lines: SecondLines,
    unsent: u64,
}

impl Lines {
    /// Prints a message.
    fn message(message: &str) {
        note(message);
    }

    /// Prints one second; `unsent` is the count of the whole run.
    fn second(&mut self, second: &SeriesRow, unsent: u64) {
        if self.lines.is_fresh() {
            Self::message(LEGEND);
        }
        self.lines.print(&table(second));
        if unsent > self.unsent {
            self.unsent = unsent;
            Self::message(&format!("{unsent} unsent so far"));
        }
    }

    /// Prints that offering has ended and what is waited for.
    fn draining(pending: u64, at_most_s: f64) {
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
struct JsonLines {
    every: Nanos,
    next: Nanos,
    /// Whether the line was printed that the load was stopped.
    told: bool,
}

#[derive(serde::Serialize)]
struct JsonLine<'a> {
    at_s: f64,
    #[serde(flatten)]
    view: &'a LiveView,
}

impl JsonLines {
    const fn new(every: Nanos) -> Self {
        Self {
            every,
            next: Nanos::ZERO,
            told: false,
        }
    }

    /// Another run begins.
    const fn begin(&mut self) {
        self.next = Nanos::ZERO;
        self.told = false;
    }

    /// Prints a line when it is time for one, and when the load is stopped.
    fn update(&mut self, now: Nanos, view: &LiveView) {
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
