//! The state of a run on its way to every view.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use pacing::Nanos;
use parking_lot::Mutex;

use super::metrics::MetricsServer;
use super::state::{LiveState, Phase, RunInfo, Update};
use super::terminal::{self, FullScreen};
use super::writers::{JsonLines, Lines};
use crate::settings::DisplaySettings;
use crate::shutdown::Shutdown;

/// Shows one run, or several one after the other: `txgen search` and campaigns keep one display for all
/// of them and say by [`Display::heading`] which one is under way.
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

    /// Says where the run's folder is, and its metrics if they are served.
    pub fn say_where(&mut self, folder: &Path) {
        self.message(&format!("writing  {}", folder.display()));
        if let Some(address) = self.metrics_address() {
            self.message(&format!("metrics  http://{address}/metrics"));
        }
    }

    /// Says something that stays.
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
