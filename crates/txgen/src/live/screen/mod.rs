//! The picture: the layout on a terminal of any size, and the keys.

mod figures;
mod panels;
mod plots;
#[cfg(test)]
mod tests;

use pacing::Nanos;
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};

use super::state::LiveState;

/// The choices of the user.
#[derive(Debug, Default)]
pub(super) struct View {
    help: bool,
}

/// A key's request to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyRequest {
    /// None; it changed the picture at most.
    Nothing,
    /// To stop offering, as Ctrl-C would.
    Quit,
    /// To mark the moment.
    Mark,
}

impl View {
    /// Takes a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> KeyRequest {
        if key.kind == KeyEventKind::Release {
            return KeyRequest::Nothing;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            // The terminal makes no signals of keys while it has a picture.
            KeyCode::Char('c' | '\\') if control => return KeyRequest::Quit,
            _ if control => {}
            KeyCode::Char('q') => return KeyRequest::Quit,
            KeyCode::Char('m') => return KeyRequest::Mark,
            KeyCode::Char('h' | '?') => self.help = !self.help,
            KeyCode::Esc => self.help = false,
            _ => {}
        }
        KeyRequest::Nothing
    }

    /// Draws the run as it stands.
    pub(super) fn draw(&self, frame: &mut Frame, state: &LiveState) {
        let area = frame.area();
        if area.width < MIN_WIDTH || area.height < MIN_HEIGHT {
            panels::small(frame, area, state);
            self.draw_help(frame, area);
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
        panels::head(frame, head, state);
        panels::gauge(frame, gauge, state);
        panels::finding(frame, finding, state);
        draw_body(frame, body, state);
        panels::foot(frame, foot);
        self.draw_help(frame, area);
    }

    fn draw_help(&self, frame: &mut Frame, area: Rect) {
        if self.help {
            panels::help(frame, area);
        }
    }
}

/// Charts on the left, figures on the right, nodes and messages below or, on a low terminal, under the
/// charts.
fn draw_body(frame: &mut Frame, area: Rect, state: &LiveState) {
    let side = if area.width >= WIDE { 40 } else { 32 };
    let columns = Layout::horizontal([Constraint::Fill(1), Constraint::Length(side)]);
    if area.height >= TALL {
        let rows = Layout::vertical([Constraint::Fill(2), Constraint::Fill(1)]);
        let [upper, lower] = rows.areas(area);
        let [left, right] = columns.areas(upper);
        draw_charts(frame, left, state);
        draw_figures(frame, right, state);
        draw_events(frame, lower, state);
    } else {
        let [left, right] = columns.areas(area);
        let rows = Layout::vertical([Constraint::Fill(1), Constraint::Length(LOW_EVENTS)]);
        let [charts, events] = rows.areas(left);
        draw_charts(frame, charts, state);
        draw_events(frame, events, state);
        draw_figures(frame, right, state);
    }
}

fn draw_charts(frame: &mut Frame, area: Rect, state: &LiveState) {
    let rows = Layout::vertical([Constraint::Fill(2), Constraint::Fill(1)]);
    let [rates, latencies] = rows.areas(area);
    // A short run fills the chart.
    let whole = state.info.duration.map_or(f64::MAX, Nanos::as_secs_f64);
    let length = WINDOW_S.min(whole.max(SHORTEST_S));
    plots::rates(frame, rates, state, length);
    plots::latencies(frame, latencies, state, length);
}

fn draw_figures(frame: &mut Frame, area: Rect, state: &LiveState) {
    let rows = Layout::vertical([
        Constraint::Length(figures::COUNTS_HEIGHT),
        Constraint::Fill(1),
    ]);
    let [counts, quantiles] = rows.areas(area);
    figures::counts(frame, counts, state);
    figures::quantiles(frame, quantiles, state);
}

/// Steps where there are some and room for them, nodes, messages.
fn draw_events(frame: &mut Frame, area: Rect, state: &LiveState) {
    let nodes = state.info.nodes.all();
    let profile = state.info.profile.as_ref();
    let has_steps = profile.is_some_and(|profile| profile.step_count() > 1);
    let place = if has_steps && area.width >= WIDE {
        let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]);
        let [left, right] = halves.areas(area);
        figures::steps(frame, left, state);
        right
    } else {
        area
    };
    let most = place.height.saturating_sub(MIN_MESSAGES).max(3);
    let height = u16::try_from(nodes.len()).unwrap_or(most).saturating_add(2);
    let rows = Layout::vertical([Constraint::Length(height.min(most)), Constraint::Fill(1)]);
    let [above, below] = rows.areas(place);
    panels::nodes(frame, above, state, &nodes);
    panels::messages(frame, below, state);
}

/// How far back the charts look.
const WINDOW_S: f64 = 120.0;
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
