//! A campaign in figures: a line for each run, and the median of repeated ones.

use measure::ScheduleVerdict;
use report::{Columns, Table, text};

use super::document::{Figures, Run, RunState};
use crate::output::recorded;

/// One run in a line, while the campaign goes on.
pub(super) fn line(figures: &Figures) -> String {
    let rate = |rate: Option<f64>| text::or_dash(rate, rate_text);
    let millis = |millis| text::or_dash(millis, text::narrow_millis);
    let mut text = format!(
        "{}: offered {}/s, sent {}/s, accepted {}/s, committed {}/s; commit p50 {} ms, p95 {} ms",
        figures.verdict.name(),
        rate(figures.planned_tps),
        rate(figures.sent_tps),
        rate(figures.accepted_tps),
        rate(figures.committed_tps),
        millis(figures.commit_p50_ms),
        millis(figures.commit_p95_ms),
    );
    if let (Some((windowed, all)), Some(window)) = (figures.benched(), figures.window) {
        text += &format!("; tm-bench {all:.0}/s, of {window} blocks {windowed:.0}/s");
    }
    text
}

/// The tables of the whole campaign.
pub(super) fn table(runs: &[Run]) -> String {
    let mut text = runs_table(runs).text();
    if let Some(resolution) = resolution(runs) {
        text += &format!("  {resolution}\n");
    }
    if let Some(medians) = medians(runs) {
        text += &format!("\n{}", medians.text());
    }
    text
}

/// How exactly commits were seen in the last run whose blocks were not announced.
pub(super) fn resolution(runs: &[Run]) -> Option<&str> {
    let figures = runs.iter().rev().filter_map(|run| run.figures.as_ref());
    let mut resolutions = figures.filter_map(|it| it.commit_resolution.as_deref());
    resolutions.next()
}

/// A row for each run, also for those without figures. With tm-bench's figures a terminal has no room for
/// some of the others.
pub(super) fn runs_table(runs: &[Run]) -> Table {
    let window = runs.iter().find_map(|run| run.figures.as_ref()?.window);
    let narrow = window.is_some();
    let mut table = Table::of(runs.iter().map(|run| (run, run.figures.as_ref())))
        .figure("run", |(run, _)| run.number.to_string())
        .not_on_phones()
        .text("", |(run, _)| name(run))
        .link(|(run, it)| it.map(|_| format!("{}/{}", run.folder, recorded::FILE)))
        .text("verdict", |(run, it)| {
            it.map_or_else(|| words(run), |it| it.verdict.name())
        })
        .alarm(|(_, it)| it.is_none_or(|it| it.verdict == ScheduleVerdict::Invalid))
        .number("offered/s", rate_text, of(|it| it.planned_tps))
        .on_page_if(narrow)
        .not_on_phones()
        .number("sent/s", rate_text, of(|it| it.sent_tps))
        .rest_of_page()
        .number("accepted/s", rate_text, of(|it| it.accepted_tps))
        .rest_of_page()
        .number("committed/s", rate_text, of(|it| it.committed_tps))
        .number("of plan", text::percent_tenths, of(Figures::share))
        .rest_of_page()
        .count("refused", |(_, it)| it.map(Figures::refused))
        .on_page_if(narrow)
        .number("accept p99", text::millis, of(|it| it.accept_p99_ms))
        .rest_of_page()
        .number("commit p50", text::millis, of(|it| it.commit_p50_ms))
        .rest_of_page()
        .number("commit p95", text::millis, of(|it| it.commit_p95_ms))
        .on_page_if(narrow)
        .number("longest gap s", text::tenths, of(|it| it.longest_gap_s))
        .rest_of_page();
    if let Some(window) = window {
        table = with_tm_bench(table, window);
    }
    if runs.iter().any(|run| run.problem.is_some()) {
        table = table
            .text("problem", |(run, _)| {
                run.problem.clone().unwrap_or_default()
            })
            .on_page_if(true);
    }
    table.table()
}

/// A run, and its figures if it has any.
type RunFigures<'a> = (&'a Run, Option<&'a Figures>);

/// One figure of a run.
fn of<F>(figure: fn(&Figures) -> Option<F>) -> impl Fn(&RunFigures<'_>) -> Option<F> {
    move |(_, figures)| figure((*figures)?)
}

/// Adds what tm-bench printed: over every block, and over the newest ones.
fn with_tm_bench<'a>(table: Columns<RunFigures<'a>>, window: usize) -> Columns<RunFigures<'a>> {
    let newest = format!("of {window} blocks/s");
    table
        .number("tm-bench/s", text::whole, |(_, it)| {
            Some(it.as_ref()?.benched()?.1)
        })
        .number(&newest, text::whole, |(_, it)| {
            Some(it.as_ref()?.benched()?.0)
        })
}

/// What became of a run without figures.
const fn words(run: &Run) -> &'static str {
    match run.state {
        RunState::Failed => "failed",
        RunState::Interrupted => "interrupted",
        RunState::Waiting => "not run",
        RunState::Running | RunState::Done => "running",
    }
}

/// What a reader calls a run.
pub(super) fn name(run: &Run) -> &str {
    if run.label.is_empty() {
        &run.folder
    } else {
        &run.label
    }
}

/// What repeated runs share: of a campaign without cases all do.
pub(super) fn case_of(run: &Run) -> &str {
    match run.cell.as_str() {
        "" => "all runs",
        cell => cell,
    }
}

/// Repeated runs as median (lowest to highest), without invalid ones; nothing where no run was repeated yet.
pub(super) fn medians(runs: &[Run]) -> Option<Table> {
    let played = runs.iter().filter_map(|run| {
        let figures = run.figures.as_ref()?;
        Some((case_of(run), figures.verdict, figures))
    });
    let repeated = cells(played).into_iter().filter(|cell| cell.played > 1);
    let table = Table::of(repeated)
        .figure("runs", CellRuns::judged)
        .text(MEDIAN, |cell| cell.name)
        .figure("committed/s", |cell| {
            cell.spread(rate_text, |it| it.committed_tps)
        })
        .figure("commit p95", |cell| {
            cell.spread(text::millis, |it| it.commit_p95_ms)
        })
        .table();
    (!table.is_empty()).then_some(table)
}

/// The runs that repeat one another.
pub(super) struct CellRuns<'a, F> {
    pub(super) name: &'a str,
    pub(super) played: usize,
    /// Of those that are not invalid.
    pub(super) figures: Vec<F>,
}

impl<T> CellRuns<'_, T> {
    /// How many runs show something about the node.
    fn judged(&self) -> String {
        match self.figures.len() {
            all if all == self.played => all.to_string(),
            some => format!("{some} of {}", self.played),
        }
    }
}

impl CellRuns<'_, &Figures> {
    fn spread<F: report::Figure>(
        &self,
        format: fn(f64) -> String,
        of: fn(&Figures) -> Option<F>,
    ) -> String {
        spread(
            format,
            self.figures.iter().filter_map(|figures| of(figures)),
        )
    }
}

/// The runs by cell, in the order in which each was played first.
pub(super) fn cells<'a, F>(
    runs: impl Iterator<Item = (&'a str, ScheduleVerdict, F)>,
) -> Vec<CellRuns<'a, F>> {
    let mut cells: Vec<CellRuns<'a, F>> = Vec::new();
    for (name, verdict, figures) in runs {
        let place = cells.iter().position(|cell| cell.name == name);
        let place = place.unwrap_or_else(|| {
            cells.push(CellRuns {
                name,
                played: 0,
                figures: Vec::new(),
            });
            cells.len() - 1
        });
        let cell = &mut cells[place];
        cell.played += 1;
        if verdict != ScheduleVerdict::Invalid {
            cell.figures.push(figures);
        }
    }
    cells
}

fn spread<F: report::Figure>(
    format: fn(f64) -> String,
    figures: impl Iterator<Item = F>,
) -> String {
    let mut sign = "";
    let values = figures.filter_map(|figure| {
        if figure.is_lower_bound() {
            sign = ">= ";
        }
        figure.figure()
    });
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (Some(low), Some(high)) = (values.first(), values.last()) else {
        return "-".into();
    };
    let middle = f64::midpoint(values[values.len() / 2], values[(values.len() - 1) / 2]);
    let [middle, low, high] = [middle, *low, *high].map(format);
    format!("{sign}{middle} ({low} to {high})")
}

/// A rate without its unit.
pub(super) fn rate_text(value: f64) -> String {
    if value < 1_000.0 {
        text::tenths(value)
    } else {
        text::count(value)
    }
}

const MEDIAN: &str = "median (lowest to highest)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_that_are_invalid_are_counted_and_not_in_the_figures() {
        use ScheduleVerdict::{Degraded, Invalid, Valid};
        let runs = [
            ("a", Valid, 1),
            ("b", Invalid, 2),
            ("a", Invalid, 3),
            ("c", Degraded, 4),
            ("b", Invalid, 5),
            ("c", Valid, 6),
        ];
        let cells = cells(runs.into_iter());
        let told: Vec<_> = cells
            .iter()
            .map(|cell| (cell.name, cell.judged(), cell.figures.clone()))
            .collect();
        let expected = [
            ("a", "1 of 2".to_owned(), vec![1]),
            ("b", "0 of 2".into(), vec![]),
            ("c", "2".into(), vec![4, 6]),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn repeated_values_are_a_median_and_its_range() {
        let of = |values: &[f64]| spread(text::tenths, values.iter().copied());
        assert_eq!(of(&[3.0, 1.0, 2.0]), "2.0 (1.0 to 3.0)");
        assert_eq!(of(&[4.0, 1.0]), "2.5 (1.0 to 4.0)");
        assert_eq!(of(&[]), "-");
    }
}
