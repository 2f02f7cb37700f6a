//! Tables of figures: counts, latencies, steps.

use measure::{SeriesRow, StepRow, judge};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Color;
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};
use report::text::{grouped, narrow_millis, tenths};

use super::panels::panel;
use super::plots::{ACCEPTED, COMMITTED, PLAN, SENT};
use crate::live::track::Track;

/// A count of a second.
type Count = fn(&SeriesRow) -> u64;
/// A latency of a second, in milliseconds.
type Millis = fn(&SeriesRow) -> Option<f64>;

/// Counts of the last full second, and of all of them.
pub(super) fn counts(frame: &mut Frame, area: Rect, track: &Track) {
    let all = &track.sums;
    let bad = |count: u64| if count > 0 { Color::Red } else { Color::Reset };
    let refused = all.rejected + all.errors;
    let plain = Color::Reset;
    let rows: [(&str, Color, Count, Option<u64>); 9] = [
        ("offered", PLAN, |row| row.counts.offered, Some(all.offered)),
        ("sent", SENT, |row| row.counts.sent, Some(all.sent)),
        (
            "accepted",
            ACCEPTED,
            |row| row.counts.accepted,
            Some(all.accepted),
        ),
        (
            "committed",
            COMMITTED,
            |row| row.counts.committed,
            Some(all.committed),
        ),
        (
            "refused",
            bad(refused),
            |row| row.counts.rejected + row.counts.errors,
            Some(refused),
        ),
        (
            "unsent",
            bad(all.unsent),
            |row| row.counts.unsent,
            Some(all.unsent),
        ),
        ("in flight", plain, |row| row.in_flight, None),
        ("backlog", plain, |row| row.backlog, None),
        ("blocks", plain, |row| row.counts.blocks, Some(all.blocks)),
    ];
    let last = track.last();
    let of_blocks = ["committed", "backlog", "blocks"];
    let shown = |name: &str| track.scene.follows || !of_blocks.contains(&name);
    let mut rows: Vec<Row<'_>> = rows
        .into_iter()
        .filter(|(name, ..)| shown(name))
        .map(|(name, color, now, all)| counts_row(name, color, last.map(now), all))
        .collect();
    if track.scene.follows {
        let depth = last.and_then(|row| row.mempool_txs);
        rows.insert(rows.len() - 1, counts_row("mempool", plain, depth, None));
    }
    let title = match last {
        Some(row) => format!(" second {} ", row.second),
        None => " last second ".into(),
    };
    table(
        frame,
        area,
        &title,
        &["", "now", "in all"],
        rows,
        &NAMED[..3],
    );
}

fn counts_row(name: &str, color: Color, now: Option<u64>, all: Option<u64>) -> Row<'_> {
    Row::new([
        Cell::new(name).style(color),
        number(now.map_or("-".into(), grouped)),
        number(all.map_or(String::new(), grouped)),
    ])
}

/// Latencies of the last second.
pub(super) fn quantiles(frame: &mut Frame, area: Rect, track: &Track) {
    let last = track.last().cloned().unwrap_or_default();
    let none: Millis = |_| None;
    let rows: [(&str, Color, [Millis; 3]); 4] = [
        (
            "lateness",
            SENT,
            [
                none,
                |row| row.latency.lateness_p99_ms,
                |row| row.latency.lateness_max_ms,
            ],
        ),
        (
            "accept",
            ACCEPTED,
            [
                |row| row.latency.accept_p50_ms,
                |row| row.latency.accept_p99_ms,
                none,
            ],
        ),
        (
            "  service",
            ACCEPTED,
            [
                |row| row.latency.service_p50_ms,
                |row| row.latency.service_p99_ms,
                none,
            ],
        ),
        (
            "commit",
            COMMITTED,
            [
                |row| row.latency.commit_p50_ms,
                |row| row.latency.commit_p99_ms,
                none,
            ],
        ),
    ];
    let shown = if track.scene.follows { 4 } else { 3 };
    let rows = rows.into_iter().take(shown).map(|(name, color, values)| {
        let values = values.map(|of| number(of(&last).map_or_else(String::new, narrow_millis)));
        Row::new([Cell::new(name).style(color)].into_iter().chain(values))
    });
    let header = ["", "p50", "p99", "max"];
    table(frame, area, " latency, ms ", &header, rows, &NAMED);
}

/// The last steps, and whether they were sustained.
pub(super) fn steps(frame: &mut Frame, area: Rect, track: &Track) {
    let steps: Vec<StepRow> = track.steps.iter().cloned().collect();
    let excesses = judge::excesses(&steps, track.scene.follows);
    let room = usize::from(area.height.saturating_sub(3));
    let (heading, p95): (&str, fn(&StepRow) -> Option<f64>) = match track.scene.follows {
        true => ("commit p95", |step| step.latency.commit_p95_ms),
        false => ("accept p95", |step| step.latency.accept_p95_ms),
    };
    let figure =
        |value: Option<f64>, format: fn(f64) -> String| number(value.map_or("-".into(), format));
    let skipped = steps.len().saturating_sub(room);
    let rows = steps.iter().zip(excesses).skip(skipped);
    let rows = rows.map(|(step, excess)| {
        let (note, color) = match (step.pause, excess) {
            (true, _) => ("pause", PLAN),
            (false, Some(_)) => ("not sustained", Color::Red),
            (false, None) => ("", Color::Reset),
        };
        let cells = [
            number(step.step.to_string()),
            figure(Some(step.rate_tps), tenths),
            figure(step.accepted_tps, tenths),
            figure(step.committed_tps, tenths),
            figure(p95(step), narrow_millis),
            Cell::new(note),
        ];
        Row::new(cells).style(color)
    });
    let header = ["step", "rate/s", "accepted", "committed", heading];
    let widths = [4, 8, 9, 9, 10, 13].map(Constraint::Length);
    table(frame, area, " steps ", &header, rows, &widths);
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

/// The rows of [`counts`], their header and the frame.
pub(super) const COUNTS_HEIGHT: u16 = 13;

/// Right-aligned, as numbers are read.
fn number<'a>(text: impl Into<String>) -> Cell<'a> {
    Cell::new(Line::from(text.into()).right_aligned())
}
