//! The two charts: rates against the plan, and latencies.

use std::ops::Range;

use measure::SeriesRow;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Stylize as _};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType};
use report::chart::round_up;
use report::text::{clock, short, tick_millis};

use super::chart::{SMOOTHED_S, Window, smoothed};
use crate::live::track::Track;

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

/// Planned, sent, accepted and committed per second.
pub(super) fn rates(frame: &mut Frame, area: Rect, track: &Track, length: f64) {
    let window = Window::new(track.now.as_secs_f64(), length, area.width);
    let per_second = |count: u64, row: &SeriesRow| Some(count as f64 / row.span_s);
    let curve = |name, color, points| Curve {
        name,
        color,
        points,
    };
    let rows = || track.seconds.iter();
    let mut curves = Vec::new();
    if let Some(profile) = &track.scene.profile {
        curves.push(curve("plan", PLAN, window.plan(profile)));
    }
    let sent = window.means(rows(), |row| per_second(row.counts.sent, row));
    curves.push(curve("sent", SENT, sent));
    let accepted = window.means(rows(), |row| per_second(row.counts.accepted, row));
    curves.push(curve("accepted", ACCEPTED, accepted));
    if track.scene.follows {
        let smooth = smoothed(rows(), |row| row.counts.committed);
        let committed = window.means(&smooth, |row| per_second(row.counts.committed, row));
        curves.push(curve("committed", COMMITTED, committed));
    }
    let highest = curves.iter().flat_map(|curve| &curve.points);
    let highest = highest.map(|(_, rate)| *rate).fold(1.0, f64::max);
    let top = round_up(highest, &[1.0, 2.0, 2.5, 5.0]);
    let mut title = title(" /s ", &curves);
    if track.scene.follows && area.width >= ROOMY {
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
    plot.draw(frame, area, track);
}

/// Latencies of each second on a logarithmic scale.
pub(super) fn latencies(frame: &mut Frame, area: Rect, track: &Track, length: f64) {
    let window = Window::new(track.now.as_secs_f64(), length, area.width);
    let curve = |name, color, value: fn(&SeriesRow) -> Option<f64>| {
        let log = |row: &SeriesRow| value(row).map(|ms| ms.max(LOWEST_MS).log10());
        Curve {
            name,
            color,
            points: window.means(&track.seconds, log),
        }
    };
    let mut curves = vec![
        curve("lateness", SENT, |row| row.latency.lateness_p99_ms),
        curve("accept", ACCEPTED, |row| row.latency.accept_p99_ms),
    ];
    if track.scene.follows {
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
    plot.draw(frame, area, track);
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
    fn draw(self, frame: &mut Frame, area: Rect, track: &Track) {
        let (window, bounds) = (self.window, self.bounds);
        let seconds = track.seconds.iter().rev();
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
        let times = match self.times {
            true => [window.from, middle, window.to]
                .map(|at| clock(at, at))
                .into(),
            false => Vec::new(),
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

/// A hundredth of a millisecond: below it a latency is nothing.
const LOWEST_MS: f64 = 0.01;
/// Wide enough for the whole legend.
const ROOMY: u16 = 56;
const MARKS_SHOWN: usize = 8;
