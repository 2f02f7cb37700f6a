//! Tables of figures: counts, latencies, steps.

use measure::{StepRow, judge};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Color;
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};

use super::panels::panel;
use super::plots::{ACCEPTED, COMMITTED, PLAN, SENT};
use crate::live::lines::millis;
use crate::live::track::Track;
use crate::report::grouped;

/// Counts of the last full second, and of all of them.
pub(super) fn counts(frame: &mut Frame, area: Rect, track: &Track) {
    let last = track.last();
    let all = &track.sums;
    let second = |value: Option<u64>| value.map_or("-".into(), grouped);
    let bad = |count: u64| if count > 0 { Color::Red } else { Color::Reset };
    let refused = all.rejected + all.errors;
    let mut rows = vec![
        (
            "offered",
            PLAN,
            last.map(|row| row.counts.offered),
            Some(all.offered),
        ),
        (
            "sent",
            SENT,
            last.map(|row| row.counts.sent),
            Some(all.sent),
        ),
        (
            "accepted",
            ACCEPTED,
            last.map(|row| row.counts.accepted),
            Some(all.accepted),
        ),
    ];
    if track.scene.follows {
        rows.push((
            "committed",
            COMMITTED,
            last.map(|row| row.counts.committed),
            Some(all.committed),
        ));
    }
    rows.extend([
        (
            "refused",
            bad(refused),
            last.map(|row| row.counts.rejected + row.counts.errors),
            Some(refused),
        ),
        (
            "unsent",
            bad(all.unsent),
            last.map(|row| row.counts.unsent),
            Some(all.unsent),
        ),
        (
            "in flight",
            Color::Reset,
            last.map(|row| row.in_flight),
            None,
        ),
    ]);
    if track.scene.follows {
        rows.push(("backlog", Color::Reset, last.map(|row| row.backlog), None));
        let depth = last.and_then(|row| row.mempool_txs);
        rows.push(("mempool", Color::Reset, depth, None));
        rows.push((
            "blocks",
            Color::Reset,
            last.map(|row| row.counts.blocks),
            Some(all.blocks),
        ));
    }
    let rows = rows.into_iter().map(|(name, color, now, all)| {
        Row::new([
            Cell::new(name).style(color),
            number(second(now)),
            number(all.map_or(String::new(), grouped)),
        ])
    });
    let title = last.map_or(" last second ".into(), |row| {
        format!(" second {} ", row.second)
    });
    let widths = [
        Constraint::Length(9),
        Constraint::Fill(1),
        Constraint::Fill(1),
    ];
    let table = Table::new(rows, widths)
        .header(Row::new([Cell::new(""), number("now"), number("in all")]).style(PLAN))
        .block(panel(title));
    frame.render_widget(table, area);
}

/// Latencies of the last second.
pub(super) fn quantiles(frame: &mut Frame, area: Rect, track: &Track) {
    let last = track.last().cloned().unwrap_or_default();
    let mut rows = vec![
        (
            "lateness",
            SENT,
            [
                None,
                last.latency.lateness_p99_ms,
                last.latency.lateness_max_ms,
            ],
        ),
        (
            "accept",
            ACCEPTED,
            [last.latency.accept_p50_ms, last.latency.accept_p99_ms, None],
        ),
        (
            "  service",
            ACCEPTED,
            [
                last.latency.service_p50_ms,
                last.latency.service_p99_ms,
                None,
            ],
        ),
    ];
    if track.scene.follows {
        rows.push((
            "commit",
            COMMITTED,
            [last.latency.commit_p50_ms, last.latency.commit_p99_ms, None],
        ));
    }
    let rows = rows.into_iter().map(|(name, color, values)| {
        let values = values.map(|value| match value {
            Some(_) => number(millis(value)),
            None => Cell::new(""),
        });
        Row::new([Cell::new(name).style(color)].into_iter().chain(values))
    });
    let widths = [
        Constraint::Length(9),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Fill(1),
    ];
    let header = ["p50", "p99", "max"].map(number);
    let table = Table::new(rows, widths)
        .header(Row::new([Cell::new("")].into_iter().chain(header)).style(PLAN))
        .block(panel(" latency, ms "));
    frame.render_widget(table, area);
}

/// The last steps, and whether they were sustained.
pub(super) fn steps(frame: &mut Frame, area: Rect, track: &Track) {
    let steps: Vec<StepRow> = track.steps.iter().cloned().collect();
    let excesses = judge::excesses(&steps, track.scene.follows);
    let room = usize::from(area.height.saturating_sub(3));
    let rate = |rate: Option<f64>| number(rate.map_or("-".into(), |rate| format!("{rate:.1}")));
    let rows = steps
        .iter()
        .zip(excesses)
        .skip(steps.len().saturating_sub(room))
        .map(|(step, excess)| {
            let (note, color) = match (step.pause, excess) {
                (true, _) => ("pause", PLAN),
                (false, Some(_)) => ("not sustained", Color::Red),
                (false, None) => ("", Color::Reset),
            };
            Row::new([
                number(step.step.to_string()),
                rate(Some(step.rate_tps)),
                rate(step.accepted_tps),
                rate(step.committed_tps),
                number(millis(if track.scene.follows {
                    step.latency.commit_p95_ms
                } else {
                    step.latency.accept_p95_ms
                })),
                Cell::new(note),
            ])
            .style(color)
        });
    let widths = [4, 8, 9, 9, 10, 13].map(Constraint::Length);
    let p95 = if track.scene.follows {
        "commit p95"
    } else {
        "accept p95"
    };
    let header = ["step", "rate/s", "accepted", "committed", p95];
    let table = Table::new(rows, widths)
        .header(Row::new(header.map(number)).style(PLAN))
        .block(panel(" steps "));
    frame.render_widget(table, area);
}

/// The rows of [`counts`], their header and the frame.
pub(super) const COUNTS_HEIGHT: u16 = 13;

/// Right-aligned, as numbers are read.
fn number<'a>(text: impl Into<String>) -> Cell<'a> {
    Cell::new(Line::from(text.into()).right_aligned())
}
