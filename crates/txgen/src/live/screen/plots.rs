//! The two charts: rates against the plan, and latencies.

use std::ops::Range;

use measure::{Counts, SeriesRow};
use pacing::{Nanos, Profile};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Stylize as _};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType};
use report::chart::round_up;
use report::text::{clock, short, tick_millis};

use crate::live::state::LiveState;

pub(super) const PLAN: Color = Color::DarkGray;
pub(super) const SENT: Color = Color::Yellow;
pub(super) const ACCEPTED: Color = Color::Cyan;
pub(super) const COMMITTED: Color = Color::Green;
pub(super) const MARK: Color = Color::Magenta;

/// One line of a chart.
struct Curve {
    name: &'static str,
    color: Color,
    points: Vec<(f64, f64)>,
}

/// A stretch of the time line, in seconds since the origin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    from: f64,
    to: f64,
    /// Until when the plan is drawn.
    planned: f64,
}

impl Window {
    /// The last [`WINDOW_S`] seconds at most, with room for what is planned next: a plan of steps up to the end of the
    /// next one, so that a ramp without an end does not press what was offered into a corner.
    pub(super) fn of(state: &LiveState) -> Self {
        let now = state.now.as_secs_f64();
        let whole = state.info.duration.map_or(f64::MAX, Nanos::as_secs_f64);
        let ahead = state.info.profile.as_ref().and_then(|profile| {
            let step = profile.step_at(state.now);
            let next = profile.step(step.index + 1)?;
            Some(next.end.unwrap_or(next.start).as_secs_f64())
        });
        let planned = ahead.unwrap_or(whole).min(whole);
        let length = WINDOW_S.min(planned.max(SHORTEST_S));
        let to = (now + length * AHEAD_SHARE).max(length);
        let from = to - length;
        Self { from, to, planned }
    }

    /// A point for each second that has a value.
    fn points(
        self,
        state: &LiveState,
        value: impl Fn(usize, &SeriesRow) -> Option<f64>,
    ) -> Vec<(f64, f64)> {
        let rows = state.seconds.iter().enumerate();
        let points = rows.filter_map(|(place, row)| {
            let middle = row.second as f64 + row.span_s / 2.0;
            Some((middle, value(place, row)?))
        });
        let shown = self.from..self.to;
        points
            .filter(|(middle, _)| shown.contains(middle))
            .collect()
    }

    /// The rate of what is counted, over the last `seconds` seconds of each.
    fn rate(self, state: &LiveState, seconds: usize, count: fn(&Counts) -> u64) -> Vec<(f64, f64)> {
        self.points(state, |place, _| {
            let rows = state
                .seconds
                .range((place + 1).saturating_sub(seconds)..=place);
            let (sum, span_s) = rows.fold((0, 0.0), |(sum, span_s), row| {
                (sum + count(&row.counts), span_s + row.span_s)
            });
            (span_s > 0.0).then(|| sum as f64 / span_s)
        })
    }

    /// The planned rate of each second.
    fn plan(self, profile: &Profile) -> Vec<(f64, f64)> {
        let end = self.planned;
        let due = |second: u64| profile.integral(Nanos::from_secs(second)).as_f64();
        let seconds = self.from as u64..end.min(self.to).ceil() as u64;
        let points = seconds.map(|second| (second as f64 + 0.5, due(second + 1) - due(second)));
        points.collect()
    }
}

/// Planned, sent, accepted and committed per second.
pub(super) fn rates(frame: &mut Frame, area: Rect, state: &LiveState, window: Window) {
    let curve = |name, color, points| Curve {
        name,
        color,
        points,
    };
    let mut curves = Vec::new();
    if let Some(profile) = &state.info.profile {
        curves.push(curve("plan", PLAN, window.plan(profile)));
    }
    let sent = window.rate(state, 1, |counts| counts.sent);
    curves.push(curve("sent", SENT, sent));
    let accepted = window.rate(state, 1, |counts| counts.accepted);
    curves.push(curve("accepted", ACCEPTED, accepted));
    if state.info.follows {
        // A chain commits in blocks.
        let committed = window.rate(state, SMOOTHED_S, |counts| counts.committed);
        curves.push(curve("committed", COMMITTED, committed));
    }
    let highest = curves.iter().flat_map(|curve| &curve.points);
    let highest = highest.map(|(_, rate)| *rate).fold(1.0, f64::max);
    let top = round_up(highest, &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]);
    let mut title = title(" /s ", &curves);
    if state.info.follows && area.width >= ROOMY {
        let mean = format!("({SMOOTHED_S} s mean) ");
        title.push_span(Span::styled(mean, COMMITTED));
    }
    let plot = Plot {
        title,
        window,
        curves,
        bounds: 0.0..top,
        labels: [0.0, top / 2.0, top].map(short).into(),
        times: true,
    };
    plot.draw(frame, area, state);
}

/// Latencies of each second on a logarithmic scale.
pub(super) fn latencies(frame: &mut Frame, area: Rect, state: &LiveState, window: Window) {
    let curve = |name, color, value: fn(&SeriesRow) -> Option<f64>| {
        let log = |_, row: &SeriesRow| value(row).map(|ms| ms.max(LOWEST_MS).log10());
        Curve {
            name,
            color,
            points: window.points(state, log),
        }
    };
    let mut curves = vec![
        curve("lateness", SENT, |row| row.latency.lateness_p99_ms),
        curve("accept", ACCEPTED, |row| row.latency.accept_p99_ms),
    ];
    if state.info.follows {
        curves.push(curve("commit", COMMITTED, |row| row.latency.commit_p99_ms));
    }
    let values = || curves.iter().flat_map(|curve| &curve.points);
    let low = values().map(|(_, log)| log.floor()).fold(0.0, f64::min);
    let high = values().map(|(_, log)| log.ceil()).fold(1.0, f64::max);
    // Labels stand a row or more apart, also in a low chart.
    let gaps = f64::from(area.height.saturating_sub(3).max(1));
    let step = ((high - low) / gaps).ceil().max(1.0);
    let count = ((high - low) / step).ceil();
    let label = |label| tick_millis(10_f64.powf(low + f64::from(label) * step));
    let plot = Plot {
        title: title(" p99 ", &curves),
        window,
        bounds: low..low + count * step,
        labels: (0..=count as u32).map(label).collect(),
        // Those of the chart above.
        times: false,
        curves,
    };
    plot.draw(frame, area, state);
}

/// What is drawn, and the lines by their colours.
fn title(what: &'static str, curves: &[Curve]) -> Line<'static> {
    let names = curves
        .iter()
        .map(|curve| Span::styled(format!("─{} ", curve.name), curve.color));
    std::iter::once(what.bold()).chain(names).collect()
}

/// What stands in a frame.
struct Plot {
    title: Line<'static>,
    window: Window,
    curves: Vec<Curve>,
    bounds: Range<f64>,
    labels: Vec<String>,
    times: bool,
}

impl Plot {
    fn draw(self, frame: &mut Frame, area: Rect, state: &LiveState) {
        let (window, bounds) = (self.window, self.bounds);
        let seconds = state.seconds.iter().rev();
        let marked = seconds.filter(|row| !row.mark.is_empty());
        let marks: Vec<[(f64, f64); 2]> = marked
            .take(MARKS_SHOWN)
            .map(|row| row.second as f64 + 0.5)
            .filter(|at| (window.from..window.to).contains(at))
            .map(|at| [(at, bounds.start), (at, bounds.end)])
            .collect();
        let marks = marks.iter().map(|mark| line(MARK, mark));
        let curves = self.curves.iter();
        let sets = marks.chain(curves.map(|curve| line(curve.color, &curve.points)));
        let middle = f64::midpoint(window.from, window.to);
        let times = if self.times {
            [window.from, middle, window.to]
                .map(|at| clock(at, at))
                .into()
        } else {
            Vec::new()
        };
        let axis = |from, to, labels: Vec<String>| {
            let axis = Axis::default().bounds([from, to]);
            axis.labels(labels).style(PLAN)
        };
        let chart = Chart::new(sets.collect())
            .block(Block::bordered().title(self.title).border_style(PLAN))
            .legend_position(None)
            .hidden_legend_constraints((Constraint::Length(0), Constraint::Length(0)))
            .x_axis(axis(window.from, window.to, times))
            .y_axis(axis(bounds.start, bounds.end, self.labels));
        frame.render_widget(chart, area);
    }
}

fn line(color: Color, points: &[(f64, f64)]) -> Dataset<'_> {
    Dataset::default()
        .marker(Marker::Braille)
        .graph_type(GraphType::Line)
        .style(color)
        .data(points)
}

/// How far back the charts look.
const WINDOW_S: f64 = 120.0;
const SHORTEST_S: f64 = 10.0;
/// A hundredth of a millisecond: below it a latency is nothing.
const LOWEST_MS: f64 = 0.01;
/// Wide enough for the whole legend.
const ROOMY: u16 = 56;
const MARKS_SHOWN: usize = 8;
/// This share of a chart lies ahead of now.
const AHEAD_SHARE: f64 = 0.1;
const SMOOTHED_S: usize = 5;
