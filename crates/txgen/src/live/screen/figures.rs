//! A run's figures on the screen: the charts of rates against the plan and of latencies; tables of counts, latencies and
//! steps.

use std::ops::Range;

use measure::{Counts, SeriesRow, StepRow, judge};
use pacing::{Nanos, Profile};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Stylize as _};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Cell, Chart, Dataset, GraphType, Row, Table};
use report::Figure;
use report::chart::round_up;
use report::text::{clock, figure, grouped, narrow_millis, short, tenths, tick_millis};

use super::panels::{mempool_limit, panel};
use crate::live::state::LiveState;

/// Counts of the last full second, and of all of them.
pub(super) fn counts(frame: &mut Frame, area: Rect, state: &LiveState) {
    let (all, last) = (&state.sums, state.last());
    let bad = |count: u64| if count > 0 { Color::Red } else { Color::Reset };
    let plain = Color::Reset;
    let counted = |name, color, of: fn(&Counts) -> u64| {
        let now = last.map(|row| of(&row.counts));
        counts_row(name, color, now, grouped(of(all)))
    };
    let level = |name, of: fn(&SeriesRow) -> Option<u64>, limit: Option<String>| {
        counts_row(name, plain, last.and_then(of), limit.unwrap_or_default())
    };
    let refused: fn(&Counts) -> u64 = |counts| counts.rejected + counts.errors;
    let mut rows = vec![
        counted("offered", PLAN, |counts| counts.offered),
        counted("sent", SENT, |counts| counts.sent),
        counted("accepted", ACCEPTED, |counts| counts.accepted),
        counted("refused", bad(refused(all)), refused),
        counted("unsent", bad(all.unsent), |counts| counts.unsent),
        level("in flight", |row| Some(row.in_flight), None),
    ];
    if state.info.follows {
        rows.insert(
            3,
            counted("committed", COMMITTED, |counts| counts.committed),
        );
        rows.push(level("backlog", |row| Some(row.backlog), None));
        rows.push(level(
            "mempool",
            |row| row.mempool_txs,
            mempool_limit(state),
        ));
        rows.push(counted("blocks", plain, |counts| counts.blocks));
    }
    let title = match last {
        Some(row) => format!(" second {} ", row.second),
        None => " last second ".into(),
    };
    let header = ["", "now", "in all"];
    table(frame, area, &title, &header, rows, &NAMED[..3]);
}

fn counts_row(name: &str, color: Color, now: Option<u64>, all: String) -> Row<'_> {
    Row::new([
        Cell::new(name).style(color),
        number(now.map_or("-".into(), grouped)),
        number(all),
    ])
}

/// Latencies of the last second.
pub(super) fn quantiles(frame: &mut Frame, area: Rect, state: &LiveState) {
    let of = state
        .last()
        .map(|row| row.latency.clone())
        .unwrap_or_default();
    let lateness = [None, of.lateness_p99_ms, of.lateness_max_ms];
    let service = [of.service_p50_ms, of.service_p99_ms, None];
    let accept = [of.figure("accept_p50_ms"), of.figure("accept_p99_ms"), None];
    let mut rows = vec![
        quantiles_row("lateness", SENT, lateness),
        quantiles_row("accept", ACCEPTED, accept),
        quantiles_row("  service", ACCEPTED, service),
    ];
    if state.info.follows {
        let commit = [of.figure("commit_p50_ms"), of.figure("commit_p99_ms"), None];
        rows.push(quantiles_row("commit", COMMITTED, commit));
    }
    let header = ["", "p50", "p99", "max"];
    table(frame, area, " latency, ms ", &header, rows, &NAMED);
}

fn quantiles_row(name: &str, color: Color, values: [impl Figure; 3]) -> Row<'_> {
    let values = values.map(|value| number(upper(value).unwrap_or_default()));
    Row::new([Cell::new(name).style(color)].into_iter().chain(values))
}

/// All steps so far in their table, and room for the next one.
pub(super) fn steps_height(state: &LiveState) -> u16 {
    let steps = u16::try_from(state.steps.len()).unwrap_or(u16::MAX);
    steps.saturating_add(4)
}

/// Narrower than this the steps are shown without what was accepted.
const ROOMY_STEPS: u16 = 62;
/// `1301 to 1678`.
const RANGE_WIDTH: u16 = 12;
const ACCEPTED_COLUMN: usize = 2;

/// The last steps, and whether they were sustained.
pub(super) fn steps(frame: &mut Frame, area: Rect, state: &LiveState) {
    let steps: Vec<StepRow> = state.steps.iter().cloned().collect();
    let excesses = judge::excesses(&steps, state.info.terms);
    let room = usize::from(area.height.saturating_sub(3));
    let is_narrow = area.width < ROOMY_STEPS;
    let (heading, p95) = match (state.info.follows, is_narrow) {
        (true, false) => ("commit p95", "commit_p95_ms"),
        (true, true) => ("p95 ms", "commit_p95_ms"),
        (false, false) => ("accept p95", "accept_p95_ms"),
        (false, true) => ("p95 ms", "accept_p95_ms"),
    };
    let cell = |text: Option<String>| number(text.unwrap_or_else(|| "-".to_owned()));
    let skipped = steps.len().saturating_sub(room);
    // As wide as `3 again` only where a step was offered again: the verdict needs the room.
    let names = steps[skipped..].iter().map(|step| step.name().len());
    let name = u16::try_from(names.max().unwrap_or_default()).map_or(7, |width| width.max(4));
    let rows = steps.iter().zip(excesses).skip(skipped);
    let rows = rows.map(|(step, excess)| {
        let (note, color) = match (step.pause, excess) {
            (true, _) => ("pause", PLAN),
            (false, Some(excess)) => (excess.label(), Color::Red),
            (false, None) => ("", Color::Reset),
        };
        let cells = [
            number(step.name()),
            cell(figure(step.rate_tps, tenths)),
            cell(figure(step.accepted_tps, tenths)),
            cell(figure(step.committed_tps, tenths)),
            cell(if is_narrow {
                upper(step.figure(p95))
            } else {
                figure(step.figure(p95), narrow_millis)
            }),
            Cell::new(note),
        ];
        Row::new(shown(cells, is_narrow)).style(color)
    });
    let header = ["step", "rate/s", "accepted", "committed", heading, ""];
    let heading = u16::try_from(heading.len()).unwrap_or(10);
    let range = if is_narrow { heading } else { RANGE_WIDTH };
    let widths = [name, 7, 8, 9, range, 13].map(Constraint::Length);
    let (header, widths) = (shown(header, is_narrow), shown(widths, is_narrow));
    table(frame, area, " steps ", &header, rows, &widths);
}

/// Narrow panels have no column of what was accepted.
fn shown<T>(columns: [T; 6], is_narrow: bool) -> Vec<T> {
    let mut columns = Vec::from(columns);
    if is_narrow {
        columns.remove(ACCEPTED_COLUMN);
    }
    columns
}

/// A figure that is known to lie between two values by the upper one: there is no room for both, and a number without
/// its leading digits is wrong.
fn upper(value: impl Figure) -> Option<String> {
    let text = figure(value, narrow_millis)?;
    let upper = text.rsplit(" to ").next().map(str::to_owned);
    Some(upper.unwrap_or(text))
}

/// A table in its frame, with the headings to the right as the numbers below them are.
fn table<'a>(
    frame: &mut Frame,
    area: Rect,
    title: &str,
    header: &[&'a str],
    rows: impl IntoIterator<Item = Row<'a>>,
    widths: &[Constraint],
) {
    let header = Row::new(header.iter().map(|heading| number(*heading))).style(PLAN);
    let table = Table::new(rows, widths).header(header);
    frame.render_widget(table.block(panel(title)), area);
}

/// A name, and figures that share the rest.
const NAMED: [Constraint; 4] = [
    Constraint::Length(9),
    Constraint::Fill(1),
    Constraint::Fill(1),
    Constraint::Fill(1),
];

/// The rows of [`quantiles`], their header and the frame.
pub(super) const QUANTILES_HEIGHT: u16 = 7;
/// The rows of [`counts`], their header and the frame.
pub(super) const COUNTS_HEIGHT: u16 = 13;

/// Right-aligned, as numbers are read.
fn number<'a>(text: impl Into<String>) -> Cell<'a> {
    Cell::new(Line::from(text.into()).right_aligned())
}

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
