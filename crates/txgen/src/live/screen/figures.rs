//! Tables of figures: counts, latencies, steps.

use measure::{Counts, SeriesRow, StepRow, judge};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Color;
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};
use report::Figure;
use report::text::{figure, grouped, narrow_millis, tenths};

use super::panels::{mempool_limit, panel};
use super::plots::{ACCEPTED, COMMITTED, PLAN, SENT};
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
