//! The picture: the layout on a terminal of any size, and the keys.

mod figures;
mod panels;
#[cfg(test)]
mod tests;

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
            draw_small(frame, area, state);
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
        panels::foot(frame, foot, state, body.height < TALL);
        self.draw_help(frame, area);
    }

    fn draw_help(&self, frame: &mut Frame, area: Rect) {
        if self.help {
            panels::help(frame, area);
        }
    }
}

/// The most important lines; below them, where there is room, the charts and the steps.
fn draw_small(frame: &mut Frame, area: Rect, state: &LiveState) {
    let has_room = area.height >= MIN_HEIGHT && area.width >= MIN_CHART;
    let chart = Constraint::Fill(u16::from(has_room));
    let lines = if has_room {
        Constraint::Length(panels::SMALL_HEIGHT)
    } else {
        Constraint::Fill(1)
    };
    let [lines, below] = Layout::vertical([lines, chart]).areas(area);
    panels::small(frame, lines, state);
    if has_room {
        let steps = if has_steps(state) {
            figures::steps_height(state).min(below.height / 2)
        } else {
            0
        };
        let rows = Layout::vertical([Constraint::Fill(1), Constraint::Length(steps)]);
        let [charts, below] = rows.areas(below);
        figures::rates(frame, charts, state, figures::Window::of(state));
        figures::steps(frame, below, state);
    }
}

/// Charts and steps on the left, figures, nodes and messages on the right. On a low terminal the figures take all of
/// the right side, the last message stands in the foot, and nodes are left out where there are steps.
fn draw_body(frame: &mut Frame, area: Rect, state: &LiveState) {
    let side = match area.width {
        ..WIDE => 32,
        WIDE..WIDER => 40,
        WIDER.. => 64,
    };
    let columns = Layout::horizontal([Constraint::Fill(1), Constraint::Length(side)]);
    let [left, right] = columns.areas(area);
    let is_low = area.height < TALL;
    let has_steps = has_steps(state);
    let nodes = panels::node_lines(state, left.width);
    let below = if has_steps {
        figures::steps_height(state).min(area.height / 3)
    } else if is_low {
        let lines = u16::try_from(nodes.len()).unwrap_or(LOW_NODES);
        lines.min(LOW_NODES) + 2
    } else {
        0
    };
    let rows = Layout::vertical([Constraint::Fill(1), Constraint::Length(below)]);
    let [charts, below] = rows.areas(left);
    draw_charts(frame, charts, state);
    if has_steps {
        figures::steps(frame, below, state);
    } else if is_low {
        panels::nodes(frame, below, nodes);
    }
    draw_side(frame, right, state, is_low);
}

fn has_steps(state: &LiveState) -> bool {
    let profile = state.info.profile.as_ref();
    profile.is_some_and(|profile| profile.step_count() > 1)
}

fn draw_charts(frame: &mut Frame, area: Rect, state: &LiveState) {
    let rows = Layout::vertical([Constraint::Fill(5), Constraint::Fill(3)]);
    let [rates, latencies] = rows.areas(area);
    let window = figures::Window::of(state);
    figures::rates(frame, rates, state, window);
    figures::latencies(frame, latencies, state, window);
}

fn draw_side(frame: &mut Frame, area: Rect, state: &LiveState, is_low: bool) {
    let quantiles_height = if is_low {
        Constraint::Fill(1)
    } else {
        Constraint::Length(figures::QUANTILES_HEIGHT)
    };
    let lines = panels::node_lines(state, area.width);
    let nodes = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let rest = Constraint::Fill(u16::from(!is_low));
    let rows = Layout::vertical([
        Constraint::Length(figures::COUNTS_HEIGHT),
        quantiles_height,
        rest,
    ]);
    let [counts, quantiles, rest] = rows.areas(area);
    figures::counts(frame, counts, state);
    figures::quantiles(frame, quantiles, state);
    let most = rest.height.saturating_sub(MIN_MESSAGES);
    let nodes = nodes.saturating_add(2).min(most);
    let rows = Layout::vertical([Constraint::Length(nodes), Constraint::Fill(1)]);
    let [above, below] = rows.areas(rest);
    panels::nodes(frame, above, lines);
    panels::messages(frame, below, state);
}

/// Below this there are lines, and charts below them.
const MIN_WIDTH: u16 = 70;
/// A chart that is not as wide shows nothing.
const MIN_CHART: u16 = 40;
const MIN_HEIGHT: u16 = 20;
const WIDE: u16 = 110;
const WIDER: u16 = 170;
/// So high that figures, a node and some messages fit below each other.
const TALL: u16 = 27;
const MIN_MESSAGES: u16 = 4;
/// Lines about nodes on a low terminal.
const LOW_NODES: u16 = 4;
