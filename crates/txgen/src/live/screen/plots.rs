//! The two charts: rates against the plan, and latencies.

use std::ops::Range;

use measure::SeriesRow;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType};

use super::chart::{SMOOTHED_S, Window, clock, round_up, short, smoothed};
use crate::live::track::Track;

pub(super) const PLAN: Color = Color::DarkGray;
pub(super) const SENT: Color = Color::Yellow;
pub(super) const ACCEPTED: Color = Color::Cyan;
pub(super) const COMMITTED: Color = Color::Green;
pub(super) const MARK: Color = Color::Magenta;

/// One line of a chart.
struct Curve {
    color: Color,
    points: Vec<(f64, f64)>,
}

/// Planned, sent, accepted and committed per second.
pub(super) fn rates(frame: &mut Frame, area: Rect, track: &Track, length: f64) {
    let window = Window::new(track.now.as_secs_f64(), length, area.width);
    let per_second = |count: u64, row: &SeriesRow| Some(count as f64 / row.span_s);
    let rows = || track.seconds.iter();
    let committed = smoothed(rows(), |row| row.counts.committed);
    let mut curves = Vec::new();
    if let Some(profile) = &track.scene.profile {
        curves.push(Curve {
            color: PLAN,
            points: window.plan(profile),
        });
    }
    curves.extend([
        Curve {
            color: SENT,
            points: window.means(rows(), |row| per_second(row.counts.sent, row)),
        },
        Curve {
            color: ACCEPTED,
            points: window.means(rows(), |row| per_second(row.counts.accepted, row)),
        },
    ]);
    if track.scene.follows {
        curves.push(Curve {
            color: COMMITTED,
            points: window.means(committed.iter(), |row| {
                per_second(row.counts.committed, row)
            }),
        });
    }
    let highest = curves.iter().flat_map(|curve| &curve.points);
    let top = round_up(highest.map(|(_, rate)| *rate).fold(1.0, f64::max));
    let mut title = vec![" /s ".bold()];
    if track.scene.profile.is_some() {
        title.push(Span::styled("─plan ", PLAN));
    }
    title.push(Span::styled("─sent ", SENT));
    title.push(Span::styled("─accepted ", ACCEPTED));
    if track.scene.follows {
        title.push(Span::styled("─committed ", COMMITTED));
        if area.width >= ROOMY {
            let mean = format!("({SMOOTHED_S} s mean) ");
            title.push(Span::styled(mean, COMMITTED));
        }
    }
    let labels = [0.0, top / 2.0, top].map(short);
    plot(
        frame,
        area,
        track,
        Plot {
            title: title.into(),
            window,
            curves,
            bounds: 0.0..top,
            labels: labels.into(),
            times: true,
        },
    );
}

/// Latencies of each second on a logarithmic scale.
pub(super) fn latencies(frame: &mut Frame, area: Rect, track: &Track, length: f64) {
    let window = Window::new(track.now.as_secs_f64(), length, area.width);
    let curve = |color, value: fn(&SeriesRow) -> Option<f64>| {
        let log = |row: &SeriesRow| value(row).map(|ms| ms.max(LOWEST_MS).log10());
        Curve {
            color,
            points: window.means(track.seconds.iter(), log),
        }
    };
    let mut curves = vec![
        curve(SENT, |row| row.latency.lateness_p99_ms),
        curve(ACCEPTED, |row| row.latency.accept_p99_ms),
    ];
    let mut title = vec![
        " p99, ms ".bold(),
        Span::styled("─lateness ", SENT),
        Span::styled("─accept ", ACCEPTED),
    ];
    if track.scene.follows {
        curves.push(curve(COMMITTED, |row| row.latency.commit_p99_ms));
        title.push(Span::styled("─commit ", COMMITTED));
    }
    let values = || curves.iter().flat_map(|curve| &curve.points);
    let low = values().map(|(_, log)| log.floor()).fold(0.0, f64::min);
    let high = values().map(|(_, log)| log.ceil()).fold(1.0, f64::max);
    // Labels stand a row or more apart, also in a low chart.
    let gaps = f64::from(area.height.saturating_sub(3).max(1));
    let step = ((high - low) / gaps).ceil().max(1.0);
    let count = ((high - low) / step).ceil();
    let top = low + count * step;
    let labels = (0..=count as u32).map(|label| power(low + f64::from(label) * step));
    plot(
        frame,
        area,
        track,
        Plot {
            title: title.into(),
            window,
            curves,
            bounds: low..top,
            labels: labels.collect(),
            // Those of the chart above.
            times: false,
        },
    );
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

fn plot(frame: &mut Frame, area: Rect, track: &Track, plot: Plot) {
    let Plot {
        title,
        window,
        curves,
        bounds,
        labels,
        times,
    } = plot;
    let marked = track
        .seconds
        .iter()
        .rev()
        .filter(|row| !row.mark.is_empty());
    let marks: Vec<[(f64, f64); 2]> = marked
        .take(MARKS_SHOWN)
        .map(|row| row.second as f64 + 0.5)
        .filter(|at| (window.from..window.to).contains(at))
        .map(|at| [(at, bounds.start), (at, bounds.end)])
        .collect();
    let line = |color, points| {
        Dataset::default()
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(Style::new().fg(color))
            .data(points)
    };
    let mut sets: Vec<Dataset> = marks.iter().map(|mark| line(MARK, mark)).collect();
    sets.extend(curves.iter().map(|curve| line(curve.color, &curve.points)));
    let quiet = Style::new().fg(PLAN);
    let middle = f64::midpoint(window.from, window.to);
    let times = if times {
        [window.from, middle, window.to].map(clock).to_vec()
    } else {
        Vec::new()
    };
    let chart = Chart::new(sets)
        .block(Block::bordered().title(title).border_style(quiet))
        .legend_position(None)
        .hidden_legend_constraints((Constraint::Length(0), Constraint::Length(0)))
        .x_axis(
            Axis::default()
                .bounds([window.from, window.to])
                .labels(times)
                .style(quiet),
        )
        .y_axis(
            Axis::default()
                .bounds([bounds.start, bounds.end])
                .labels(labels)
                .style(quiet),
        );
    frame.render_widget(chart, area);
}

/// A power of ten milliseconds as people write it.
fn power(exponent: f64) -> String {
    match exponent {
        exponent if exponent < 0.0 => format!("{:.*}", -exponent as usize, 10_f64.powf(exponent)),
        exponent if exponent >= 3.0 => format!("{:.0} s", 10_f64.powf(exponent - 3.0)),
        exponent => format!("{:.0}", 10_f64.powf(exponent)),
    }
}

/// A hundredth of a millisecond: below it a latency is nothing.
const LOWEST_MS: f64 = 0.01;
/// Wide enough for the whole legend.
const ROOMY: u16 = 56;
const MARKS_SHOWN: usize = 8;
