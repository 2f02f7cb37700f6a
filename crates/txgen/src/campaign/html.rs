//! The report over all runs of a campaign: one page that works offline.

use report::chart::{Axis, Chart, Tone, Unit};
use report::text::escape;
use report::{Cell, Page, Table};

use super::figures::{Burst, Figures};
use super::record::{Document, Run, State};
use super::table::{cells, millis, percent, rate, spread, words};
use crate::report::grouped;

/// The whole page.
pub(super) fn page(document: &Document) -> String {
    let mut page = Page::new(&document.name);
    page.headline(&escape(&headline(document)));
    page.paragraph(&circumstances(document));
    let charts = charts(document);
    if !charts.is_empty() {
        page.section("All runs over one another", &Page::grid(charts));
    }
    page.section("Runs", &table(document));
    if document.runs.iter().any(|run| run.repeats > 1) {
        page.section("Repeated runs", &medians(document));
    }
    page.section(
        "Scenario",
        &format!("<pre>{}</pre>", escape(&document.scenario_text)),
    );
    page.html()
}

/// How far it is, and the runs that committed most and least.
fn headline(document: &Document) -> String {
    let done: Vec<(&Run, &Figures)> = played(document).collect();
    let state = match document.state {
        State::Running => " so far",
        State::Done => "",
        State::Interrupted => " before it was interrupted",
    };
    let mut text = format!("{} of {} runs{state}", done.len(), document.runs.len());
    let committed = |run: &&(&Run, &Figures)| run.1.committed_tps.is_some();
    let by_rate = |one: &&(&Run, &Figures), other: &&(&Run, &Figures)| {
        let rate = |run: &(&Run, &Figures)| run.1.committed_tps.unwrap_or(0.0);
        rate(one).total_cmp(&rate(other))
    };
    let least = done.iter().filter(committed).min_by(by_rate);
    let most = done.iter().filter(committed).max_by(by_rate);
    if let (Some(least), Some(most)) = (least, most)
        && done.len() > 1
    {
        text.push_str(&format!(
            ": from {}/s committed ({}) to {}/s ({})",
            rate(least.1.committed_tps),
            least.0.label,
            rate(most.1.committed_tps),
            most.0.label,
        ));
    }
    text.push('.');
    text
}

fn circumstances(document: &Document) -> String {
    let host = &document.host;
    let mut text = format!("Started {}", document.started);
    if let Some(ended) = &document.ended {
        text.push_str(&format!(", ended {ended}"));
    }
    text.push_str(&format!(
        ", on {} × {}, {}; txgen {}.",
        host.cpus,
        host.cpu.as_deref().unwrap_or("processor"),
        host.os,
        document.version
    ));
    if (document.scale - 1.0).abs() > f64::EPSILON {
        text.push_str(&format!(
            " Every duration and count was multiplied by {}.",
            document.scale
        ));
    }
    text
}

fn played(document: &Document) -> impl Iterator<Item = (&Run, &Figures)> {
    let runs = document.runs.iter();
    runs.filter_map(|run| Some((run, run.figures.as_ref()?)))
}

fn charts(document: &Document) -> Vec<String> {
    let runs: Vec<(&Run, &Figures)> = played(document).collect();
    if runs.is_empty() {
        return Vec::new();
    }
    let mut charts = vec![courses(&runs), rates(&runs), latencies(&runs)];
    let bursts = runs.iter().flat_map(|(_, figures)| &figures.bursts);
    let bursts: Vec<&Burst> = bursts.collect();
    if let Some(window) = runs.iter().find_map(|(_, figures)| figures.window)
        && !bursts.is_empty()
    {
        charts.push(windows(&bursts, window));
    }
    charts
}

/// What was committed over time, a line for each cell.
fn courses(runs: &[(&Run, &Figures)]) -> String {
    let mut first: Vec<&(&Run, &Figures)> = runs.iter().filter(|run| run.0.repeat == 1).collect();
    let cells = first.len();
    // Of many the longest ones say most about time.
    first.sort_by(|one, other| other.1.offered_s.total_cmp(&one.1.offered_s));
    first.truncate(MAX_LINES);
    first.sort_by_key(|(run, _)| run.number);
    let mut chart = Chart::new(
        "Committed over time",
        Axis::time(),
        Axis::linear("committed", Unit::PerSecond),
    );
    if cells > MAX_LINES {
        chart = chart.note(&format!(
            "The {MAX_LINES} longest of {cells} runs; the others are in their own folders."
        ));
    }
    for (number, (run, figures)) in first.into_iter().enumerate() {
        let points = figures.course.iter().copied();
        chart = chart.line(name(run), Tone::Nth(number), points);
    }
    chart.html()
}

fn rates(runs: &[(&Run, &Figures)]) -> String {
    let points: Vec<(f64, f64)> = runs
        .iter()
        .filter_map(|(_, figures)| Some((figures.planned_tps?, figures.committed_tps?)))
        .collect();
    let highest = points.iter().map(|point| point.0).fold(0.0, f64::max);
    Chart::new(
        "Committed against offered",
        Axis::linear("offered", Unit::PerSecond),
        Axis::linear("committed", Unit::PerSecond),
    )
    .note("A dot for each run; on the dashed line all that was offered is committed meanwhile.")
    .line("all of it", Tone::Plan, [(0.0, 0.0), (highest, highest)])
    .dots("committed", Tone::Committed, points)
    .html()
}

fn latencies(runs: &[(&Run, &Figures)]) -> String {
    let points = |latency: fn(&Figures) -> Option<f64>| {
        let points = runs.iter().filter_map(move |(_, figures)| {
            let seconds = latency(figures)? / MILLIS_PER_SECOND;
            Some((figures.committed_tps?, seconds))
        });
        points.collect::<Vec<(f64, f64)>>()
    };
    Chart::new(
        "Latency against throughput",
        Axis::linear("committed", Unit::PerSecond),
        Axis::linear("from due to committed", Unit::Seconds),
    )
    .dots("median", Tone::P50, points(|figures| figures.commit_p50_ms))
    .dots("95 %", Tone::P95, points(|figures| figures.commit_p95_ms))
    .html()
}

/// BEP-19's curve: what tm-bench printed falls with the duration, the truth does not.
fn windows(bursts: &[&Burst], window: usize) -> String {
    let points = |average: fn(&Burst) -> Option<f64>| {
        let points = bursts
            .iter()
            .filter_map(move |burst| Some((burst.end_s - burst.start_s, average(burst)?)));
        points.collect::<Vec<(f64, f64)>>()
    };
    Chart::new(
        "tm-bench's average against the duration",
        Axis::log("length of a burst", Unit::Seconds),
        Axis::linear("transactions", Unit::PerSecond),
    )
    .note(&format!(
        "A pair of dots for each burst, from the same blocks: of every block, and of the newest {window}."
    ))
    .dots("every block", Tone::Committed, points(|burst| Some(burst.txs_avg)))
    .dots(
        &format!("the newest {window}"),
        Tone::Bad,
        points(|burst| burst.window_txs_avg),
    )
    .html()
}

fn table(document: &Document) -> String {
    let window = played(document).find_map(|(_, figures)| figures.window);
    let mut heading: Vec<String> = [
        "run",
        "",
        "verdict",
        "offered/s",
        "sent/s",
        "accepted/s",
        "committed/s",
        "of plan",
        "refused",
        "accept p99 ms",
        "commit p50 ms",
        "commit p95 ms",
        "longest gap s",
    ]
    .map(String::from)
    .into();
    if let Some(window) = window {
        heading.push("tm-bench/s".into());
        heading.push(format!("of {window} blocks/s"));
    }
    let columns = heading.len();
    let mut table = Table::new(heading);
    for run in &document.runs {
        table.row(row(run, columns));
    }
    table.html()
}

fn row(run: &Run, columns: usize) -> Vec<Cell> {
    let mut cells = vec![Cell::figure(run.number.to_string()), Cell::text(name(run))];
    match &run.figures {
        None => cells.push(Cell::Alarm(words(run))),
        Some(figures) => {
            let refused = figures.rejected + figures.errors + figures.unanswered;
            let gap = figures.longest_gap_s;
            cells.push(Cell::text(figures.verdict.name()));
            cells.extend(
                [
                    rate(figures.planned_tps),
                    rate(figures.sent_tps),
                    rate(figures.accepted_tps),
                    rate(figures.committed_tps),
                    percent(figures.share()),
                    grouped(refused),
                    millis(figures.accept_p99_ms),
                    millis(figures.commit_p50_ms),
                    millis(figures.commit_p95_ms),
                    gap.map_or("-".into(), |gap| format!("{gap:.1}")),
                ]
                .map(Cell::Figure),
            );
            if let Some((newest, all)) = figures.benched() {
                cells.push(Cell::figure(format!("{all:.0}")));
                cells.push(Cell::figure(format!("{newest:.0}")));
            }
        }
    }
    cells.resize(columns, Cell::text(""));
    cells
}

fn medians(document: &Document) -> String {
    let mut table = Table::new(["", "runs", "committed/s", "commit p95 ms"]);
    for cell in cells(&document.runs) {
        if cell.figures.len() < 2 {
            continue;
        }
        let figures = || cell.figures.iter();
        table.row([
            Cell::text(cell.name),
            Cell::figure(cell.figures.len().to_string()),
            Cell::figure(spread(figures().filter_map(|it| it.committed_tps))),
            Cell::figure(spread(figures().filter_map(|it| it.commit_p95_ms))),
        ]);
    }
    format!(
        "<p class=\"note\">Median (lowest to highest).</p>{}",
        table.html()
    )
}

fn name(run: &Run) -> &str {
    if run.label.is_empty() {
        &run.folder
    } else {
        &run.label
    }
}

const MILLIS_PER_SECOND: f64 = 1e3;
/// As many as there are colours.
const MAX_LINES: usize = 8;
