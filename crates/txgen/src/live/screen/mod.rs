//! The picture: what stands where on a terminal of any size, and what its keys do.

mod chart;
mod figures;
mod keys;
mod panels;
mod plots;
#[cfg(test)]
mod tests;

use pacing::Nanos;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};

use super::track::Track;
pub(super) use keys::Asked;

/// What the person at the terminal has chosen to see.
#[derive(Debug, Default)]
pub(super) struct View {
    /// The moment that stays on the screen while the run goes on.
    frozen: Option<Box<Track>>,
    /// Which of [`WINDOWS_S`] the charts show.
    window: Window,
    help: bool,
    /// The text of a mark that is being written.
    writing: Option<String>,
}

/// How far back the charts look.
#[derive(Debug, Clone, Copy)]
struct Window(usize);

impl Default for Window {
    fn default() -> Self {
        Self(1)
    }
}

impl Window {
    const fn seconds(self) -> f64 {
        WINDOWS_S[self.0]
    }

    fn wider(&mut self) {
        self.0 = (self.0 + 1).min(WINDOWS_S.len() - 1);
    }

    const fn narrower(&mut self) {
        self.0 = self.0.saturating_sub(1);
    }
}

impl View {
    /// Draws the run as it stands, or as it stood when the display was paused.
    pub(super) fn draw(&self, frame: &mut Frame, now: &Track) {
        let track = self.frozen.as_deref().unwrap_or(now);
        let area = frame.area();
        if area.width < MIN_WIDTH || area.height < MIN_HEIGHT {
            self.draw_small(frame, area, track);
            return;
        }
        let [head, gauge, finding, body, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(area);
        panels::head(frame, head, track, self.frozen.is_some());
        panels::gauge(frame, gauge, track);
        panels::finding(frame, finding, track);
        self.draw_body(frame, body, track);
        panels::foot(frame, foot, self.writing.as_deref(), self.window.seconds());
        if self.help {
            panels::help(frame, area);
        }
    }

    /// Charts on the left, figures on the right, what happened below or, on a low terminal, under the
    /// charts.
    fn draw_body(&self, frame: &mut Frame, area: Rect, track: &Track) {
        let side = if area.width >= WIDE { 40 } else { 32 };
        let columns = Layout::horizontal([Constraint::Fill(1), Constraint::Length(side)]);
        if area.height >= TALL {
            let rows = Layout::vertical([Constraint::Fill(2), Constraint::Fill(1)]);
            let [upper, lower] = rows.areas(area);
            let [left, right] = columns.areas(upper);
            self.draw_charts(frame, left, track);
            draw_figures(frame, right, track);
            draw_events(frame, lower, track);
        } else {
            let [left, right] = columns.areas(area);
            let rows = Layout::vertical([Constraint::Fill(1), Constraint::Length(LOW_EVENTS)]);
            let [charts, events] = rows.areas(left);
            self.draw_charts(frame, charts, track);
            draw_events(frame, events, track);
            draw_figures(frame, right, track);
        }
    }

    fn draw_charts(&self, frame: &mut Frame, area: Rect, track: &Track) {
        let rows = Layout::vertical([Constraint::Fill(2), Constraint::Fill(1)]);
        let [rates, latencies] = rows.areas(area);
        // A short run fills the chart.
        let whole = track.scene.duration.map_or(f64::MAX, Nanos::as_secs_f64);
        let length = self.window.seconds().min(whole.max(SHORTEST_S));
        plots::rates(frame, rates, track, length);
        plots::latencies(frame, latencies, track, length);
    }

    /// As many lines as there are rows, the most important first.
    fn draw_small(&self, frame: &mut Frame, area: Rect, track: &Track) {
        if self.help {
            panels::help(frame, area);
        } else {
            panels::small(frame, area, track, self.frozen.is_some());
        }
    }
}

fn draw_figures(frame: &mut Frame, area: Rect, track: &Track) {
    let rows = Layout::vertical([
        Constraint::Length(figures::COUNTS_HEIGHT),
        Constraint::Fill(1),
    ]);
    let [counts, quantiles] = rows.areas(area);
    figures::counts(frame, counts, track);
    figures::quantiles(frame, quantiles, track);
}

/// Steps where there are some and room for them, nodes, messages.
fn draw_events(frame: &mut Frame, area: Rect, track: &Track) {
    let nodes = track.scene.nodes.all();
    let profile = track.scene.profile.as_ref();
    let has_steps = profile.is_some_and(|profile| profile.step_count() > 1);
    let place = if has_steps && area.width >= WIDE {
        let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]);
        let [left, right] = halves.areas(area);
        figures::steps(frame, left, track);
        right
    } else {
        area
    };
    let most = place.height.saturating_sub(MIN_MESSAGES).max(3);
    let height = u16::try_from(nodes.len()).unwrap_or(most).saturating_add(2);
    let rows = Layout::vertical([Constraint::Length(height.min(most)), Constraint::Fill(1)]);
    let [above, below] = rows.areas(place);
    panels::nodes(frame, above, track, &nodes);
    panels::messages(frame, below, track);
}

/// Half a minute, two, ten, an hour.
const WINDOWS_S: [f64; 4] = [30.0, 120.0, 600.0, 3_600.0];
const SHORTEST_S: f64 = 10.0;
/// Below this there are only lines.
const MIN_WIDTH: u16 = 70;
const MIN_HEIGHT: u16 = 20;
const WIDE: u16 = 110;
/// So high that the figures fit into two thirds of it.
const TALL: u16 = 31;
const MIN_MESSAGES: u16 = 4;
/// A node and two messages, in their frames.
const LOW_EVENTS: u16 = 7;
