//! The report over all runs of a campaign: one page that works offline.

use measure::ScheduleVerdict;
use report::chart::{Axis, Chart, NamedBar, Tone, Unit, bars};
use report::{Page, text};

use super::document::{self, Burst, CampaignState, Document, Figures, Run};
use super::table::{CellRuns, case_of, cells, medians, name, rate_text, resolution, runs_table};

/// The whole page.
pub(super) fn page(document: &Document) -> String {
    let mut page = Page::new(&document.name);
    page.headline(&headline(document));
    page.paragraph(&circumstances(document));
    let disturbed = |(_, figures): (&Run, &Figures)| figures.verdict != ScheduleVerdict::Valid;
    if played(document).any(disturbed) {
        page.links(&[report::busy_machine_link()]);
    }
    let charts = charts(document);
    if !charts.is_empty() {
        let played: Vec<(&Run, &Figures)> = played(document).collect();
        let html = cases(&played) + &Page::grid(charts);
        page.section("All runs over one another", &html);
    }
    page.section("Runs", &runs_table(&document.runs).html());
    if let Some(resolution) = resolution(&document.runs) {
        page.paragraph(&format!("{resolution}."));
    }
    if let Some(proofs) = document::table(&document.prove) {
        page.section("What the rate owes to each resource", &proofs.html());
    }
    if let Some(medians) = medians(&document.runs) {
        page.section("Repeated runs", &medians.html());
    }
    page.preformatted("Scenario", &document.scenario_text);
    page.html()
}

/// How far it is, and the runs that committed most and least.
fn headline(document: &Document) -> String {
    let done: Vec<(&Run, &Figures)> = played(document).collect();
    let state = match document.state {
        CampaignState::Running => " so far",
        CampaignState::Done => "",
        CampaignState::Interrupted => " before it was interrupted",
    };
    let counted = done.iter().filter(|(_, figures)| counts(figures));
    let mut committed: Vec<(f64, &str)> = counted
        .filter_map(|(run, figures)| Some((figures.committed_tps?, name(run))))
        .collect();
    committed.sort_by(|one, other| one.0.total_cmp(&other.0));
    let rates = match committed[..] {
        [least, .., most] => format!(
            "**{}/s** committed ({}) to **{}/s** ({}); ",
            rate_text(least.0),
            least.1,
            rate_text(most.0),
            most.1,
        ),
        [(rate, only)] => format!("**{}/s** committed ({only}); ", rate_text(rate)),
        [] => String::new(),
    };
    let mut text = format!(
        "{rates}{} of {} runs{state}",
        done.len(),
        document.runs.len()
    );
    let refused: u64 = done.iter().map(|(_, figures)| figures.refused()).sum();
    if refused > 0 {
        text += &format!("; {} refused in all", text::grouped(refused));
    }
    text + &left_out(done.iter().map(|(_, figures)| figures.verdict)) + "."
}

/// Whether a run was the planned load: any other shows nothing about the node.
fn counts(figures: &Figures) -> bool {
    figures.verdict != ScheduleVerdict::Invalid
}

/// How many runs were not the planned load.
fn left_out(verdicts: impl Iterator<Item = ScheduleVerdict>) -> String {
    let invalid = verdicts.filter(|verdict| *verdict == ScheduleVerdict::Invalid);
    match invalid.count() {
        0 => String::new(),
        1 => "; **1 run is invalid** and says nothing about the node".into(),
        count => format!("; **{count} runs are invalid** and say nothing about the node"),
    }
}

fn circumstances(document: &Document) -> String {
    let host = &document.host;
    let ended = match &document.ended {
        Some(ended) => format!(", ended {}", text::utc(ended)),
        None => String::new(),
    };
    let scale = match document.scale {
        1.0 => String::new(),
        scale => format!(" Every duration and count was multiplied by {scale}."),
    };
    format!(
        "Started {}{ended}, on {} × {}, {}; txgen {}.{scale}",
        text::utc(&document.started),
        host.cpus,
        host.cpu.as_deref().unwrap_or("processor"),
        host.os,
        document.version
    )
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

/// What each case committed: the mean of its runs that count, and the highest of their latencies in words.
fn cases(runs: &[(&Run, &Figures)]) -> String {
    let bar = |(number, case): (usize, CellRuns<'_, &Figures>)| {
        let counted = case.figures.iter();
        let rates: Vec<f64> = counted.clone().filter_map(|it| it.committed_tps).collect();
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let p95 = counted.filter_map(|it| it.commit_p95_ms);
        let p95 = p95.map(|it| it.millis).reduce(f64::max);
        let left_out = match case.played - case.figures.len() {
            0 => String::new(),
            invalid => format!("; {invalid} invalid"),
        };
        let text = match (rates.is_empty(), p95) {
            (true, _) => format!("no figure{left_out}"),
            (false, Some(p95)) => {
                let p95 = text::millis(p95);
                format!("{}/s, commit p95 up to {p95}{left_out}", rate_text(mean))
            }
            (false, None) => format!("{}/s{left_out}", rate_text(mean)),
        };
        NamedBar {
            name: case.name.to_owned(),
            value: mean,
            tone: Tone::Nth(number),
            text,
        }
    };
    let drawn: Vec<NamedBar> = cases_of(runs).into_iter().enumerate().map(bar).collect();
    let about = "The mean of what the runs of a case committed a second, without invalid ones.";
    bars("Committed by case", about, &drawn)
}

/// Dots of runs with a colour and an entry for each case; of many cases the last ones share one.
fn by_case(
    chart: Chart,
    runs: &[(&Run, &Figures)],
    point: impl Fn(&Figures) -> Option<(f64, f64)>,
) -> Chart {
    let numbered = cases_of(runs).into_iter().enumerate();
    numbered.fold(chart, |chart, (number, case)| {
        let (name, number) = match number {
            0..LAST_CASE => (case.name, number),
            _ => ("further cases", LAST_CASE),
        };
        let points = case.figures.iter().filter_map(|figures| point(figures));
        chart.dots(name, Tone::Nth(number), points)
    })
}

fn cases_of<'a>(runs: &[(&'a Run, &'a Figures)]) -> Vec<CellRuns<'a, &'a Figures>> {
    let runs = runs.iter();
    cells(runs.map(|(run, figures)| (case_of(run), figures.verdict, *figures)))
}

/// What was committed over time, a line for each cell.
fn courses(runs: &[(&Run, &Figures)]) -> String {
    let mut first: Vec<&(&Run, &Figures)> = runs.iter().filter(|run| run.0.repeat == 1).collect();
    let cells = first.len();
    // Of many the longest ones show most about time.
    first.sort_by(|one, other| other.1.offered_s.total_cmp(&one.1.offered_s));
    first.truncate(MAX_LINES);
    first.sort_by_key(|(run, _)| run.number);
    let committed = Axis::linear("committed per second", Unit::PerSecond);
    let some = if cells > MAX_LINES {
        format!(" The {MAX_LINES} longest of {cells} runs; the others are in their own folders.")
    } else {
        String::new()
    };
    let mut chart = Chart::new("Committed over time", Axis::time(), committed).note(&format!(
        "While the load was offered. What a block committed is spread over the time since the block before.{some}"
    ));
    for (number, (run, figures)) in first.into_iter().enumerate() {
        let points = figures.course.iter().copied();
        chart = chart.steps(name(run), Tone::Nth(number), points);
    }
    chart.html()
}

fn rates(runs: &[(&Run, &Figures)]) -> String {
    let offered = runs.iter().filter_map(|(_, figures)| figures.planned_tps);
    let highest = offered.fold(0.0, f64::max);
    let offered = Axis::linear("offered per second", Unit::PerSecond);
    let committed = Axis::linear("committed per second", Unit::PerSecond);
    let chart = Chart::new("Committed against offered", offered, committed)
        .note("A dot for each run that is not invalid; on the band all that was offered is committed meanwhile.")
        .line(
            "all that was offered",
            Tone::Offered,
            [(0.0, 0.0), (highest, highest)],
        );
    by_case(chart, runs, |it| Some((it.planned_tps?, it.committed_tps?))).html()
}

fn latencies(runs: &[(&Run, &Figures)]) -> String {
    let point = |figures: &Figures| {
        let seconds = figures.commit_p95_ms?.millis / MILLIS_PER_SECOND;
        Some((figures.committed_tps?, seconds))
    };
    let committed = Axis::linear("committed per second", Unit::PerSecond);
    let latency = Axis::linear("from due to committed, p95", Unit::Seconds);
    let chart = Chart::new("Latency against throughput", committed, latency);
    by_case(chart, runs, point).html()
}

/// BEP-19's curve: what tm-bench printed falls with the duration, the truth does not.
fn windows(bursts: &[&Burst], window: usize) -> String {
    let points = |average: fn(&Burst) -> f64| {
        let bursts = bursts.iter();
        bursts.map(move |burst| (burst.end_s - burst.start_s, average(burst)))
    };
    let length = Axis::log("length of a burst", Unit::Seconds);
    let average = Axis::linear("transactions", Unit::PerSecond);
    let newest = format!("the newest {window}");
    Chart::new("tm-bench's average against the duration", length, average)
        .note(&format!(
            "A pair of dots for each burst, from the same blocks: of every block, and of {newest}."
        ))
        .dots("every block", Tone::Committed, points(|it| it.txs_avg))
        .dots(&newest, Tone::Bad, points(|it| it.window_txs_avg))
        .html()
}

const MILLIS_PER_SECOND: f64 = 1e3;
/// As many as there are colours.
const MAX_LINES: usize = 8;
/// The place from which on cases share a colour.
const LAST_CASE: usize = MAX_LINES - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headline_says_which_runs_do_not_count() {
        use ScheduleVerdict::{Degraded, Invalid, Valid};
        let words = |verdicts: &[ScheduleVerdict]| left_out(verdicts.iter().copied());
        assert_eq!(words(&[Valid, Degraded]), "");
        assert!(words(&[Valid, Invalid]).contains("**1 run is invalid**"));
        assert!(words(&[Invalid, Valid, Invalid]).contains("**2 runs are invalid**"));
    }
}
