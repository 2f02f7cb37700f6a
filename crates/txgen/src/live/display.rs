//! The state of a run on its way to every view.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;

use measure::judge::Onset;
use measure::{Counters, LiveView, SeriesRow, StepRow};
use ops::ListenAddress;
use pacing::Nanos;
use parking_lot::Mutex;

use super::json::JsonLines;
use super::lines::Lines;
use super::metrics::MetricsServer;
use super::terminal::{self, FullScreen};
use super::track::{Phase, Scene, Track};
use crate::plan::Plan;
use crate::settings::Settings;
use crate::shutdown::Shutdown;

/// How to show.
#[derive(Debug, Clone, Default)]
pub struct DisplaySettings {
    /// Take the whole terminal, if there is one.
    pub full_screen: bool,
    /// Interval of JSON lines on stdout.
    pub json_every: Option<Nanos>,
    /// Where to serve metrics.
    pub metrics: Option<ListenAddress>,
}

impl DisplaySettings {
    /// What `plan` asks for.
    pub fn of(plan: &Plan) -> Self {
        Self {
            full_screen: plan.tui,
            json_every: plan.report_interval,
            metrics: plan.metrics,
        }
    }

    /// What the settings of several runs ask for.
    pub fn given(settings: &Settings) -> Self {
        Self {
            full_screen: !settings.no_tui,
            json_every: settings.report_interval,
            metrics: settings.metrics,
        }
    }
}

/// Shows one run, or several one after the other: `txgen search` and campaigns keep one display for all
/// of them and say by [`Display::heading`] which one is under way.
///
/// What must outlive a full-screen view (messages, results) is held back and printed by
/// [`Display::close`], at the latest when the display is dropped.
pub struct Display {
    track: Arc<Mutex<Track>>,
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

/// What is new of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moment {
    pub(crate) live: LiveView,
    pub(crate) counters: Counters,
    /// Seconds and steps that closed since the last moment.
    pub(crate) new_seconds: Vec<SeriesRow>,
    pub(crate) new_steps: Vec<StepRow>,
    /// What gave first, as far as it is known.
    pub(crate) onsets: Vec<Onset>,
    /// Whether offering has ended and the run drains.
    pub(crate) draining: bool,
}

impl Display {
    /// Opens what needs opening ahead of a run: the listener for metrics. The terminal is taken when a
    /// run begins. `shutdown` is asked by its keys.
    ///
    /// # Errors
    /// When the metrics cannot be served.
    pub fn open(settings: &DisplaySettings, shutdown: &Shutdown) -> anyhow::Result<Self> {
        let track = Arc::new(Mutex::new(Track::default()));
        let metrics = settings
            .metrics
            .map(|address| MetricsServer::start(address, Arc::clone(&track)))
            .transpose()?;
        // JSON lines on the terminal and a picture on it would spoil each other.
        let json_there = settings.json_every.is_some() && io::stdout().is_terminal();
        Ok(Self {
            track,
            shutdown: shutdown.clone(),
            full_screen: settings.full_screen && !json_there && terminal::is_usable(),
            screen: None,
            lines: Lines::default(),
            json: settings.json_every.map(JsonLines::new),
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
        let mut track = self.track.lock();
        track.heading = Some(heading.into());
        track.version += 1;
    }

    /// A run begins.
    pub fn begin(&mut self, scene: Scene) {
        self.track.lock().begin(scene);
        self.lines = Lines::default();
        if let Some(json) = &mut self.json {
            json.begin();
        }
        if self.full_screen && self.screen.is_none() {
            match FullScreen::open(Arc::clone(&self.track), self.shutdown.clone()) {
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

    /// Says something that stays.
    pub fn message(&mut self, message: &str) {
        self.track.lock().message(message.to_owned());
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
    pub(crate) fn update(&mut self, now: Nanos, moment: Moment) {
        let shown = self.on_screen();
        if let Some(json) = &mut self.json {
            json.update(now, &moment.live);
        }
        let mut track = self.track.lock();
        let quiet = track.scene.brief;
        track.now = now;
        let phase = if moment.draining {
            Phase::Draining
        } else {
            Phase::Offering
        };
        let drain_begins = phase == Phase::Draining && track.phase != phase;
        if drain_begins {
            track.drain_since = now;
        }
        track.phase = phase;
        track.pending = moment.live.pending;
        track.onsets = moment.onsets;
        track.counters = moment.counters;
        for second in &moment.new_seconds {
            track.second(second.clone());
        }
        for step in moment.new_steps {
            track.step(step);
        }
        if shown || quiet {
            return;
        }
        // A slow terminal holds no lock.
        let unsent = track.counters.totals.unsent;
        let (pending, at_most_s) = (track.pending, track.drain_left_s());
        drop(track);
        for second in &moment.new_seconds {
            self.lines.second(second, unsent);
        }
        if drain_begins && pending > 0 {
            Lines::draining(pending, at_most_s);
        }
    }

    /// Notes that people have asked for since the last call.
    pub(crate) fn marks(&mut self) -> Vec<String> {
        let asked = self.shutdown.marks();
        let plain = std::iter::repeat_n(None, asked.saturating_sub(self.marks_seen));
        self.marks_seen = asked;
        let written = self.screen.iter().flat_map(FullScreen::marks).map(Some);
        let asked_for: Vec<Option<String>> = plain.chain(written).collect();
        let mut track = self.track.lock();
        let mut name = |text: Option<String>| {
            track.marks += 1;
            text.unwrap_or_else(|| format!("mark {}", track.marks))
        };
        asked_for.into_iter().map(&mut name).collect()
    }

    /// The run is over; the display waits for the next one.
    pub fn end(&mut self) {
        let mut track = self.track.lock();
        track.phase = Phase::Over;
        track.version += 1;
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

    /// A reader that has gone does not make the run a failure.
    fn print(&self, text: &str) {
        let text = report::text::fit(text);
        let _ = match self.json {
            Some(_) => io::stderr().lock().write_all(text.as_bytes()),
            None => io::stdout().lock().write_all(text.as_bytes()),
        };
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
