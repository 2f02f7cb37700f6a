//! A comparison as text, Markdown and JSON.

use measure::{ComparisonVerdict, Difference, Figure, Metric, ScheduleVerdict, Uncertainty};
use report::chart::{ForestRow, Tone};
use report::text::percent;
use report::{Entries, Table, verdict_name, verdict_words};
use serde_json::json;

use super::Comparison;
use super::side::{Side, SideRun};

/// Tables for a terminal.
pub(super) fn text(comparison: &Comparison) -> String {
    let mut text = preface(comparison).text();
    for (heading, table) in tables(comparison) {
        text += &format!("\n{heading}\n{}", table.text());
    }
    text + &verdict(comparison)
}

/// Tables for a review.
pub(super) fn markdown(comparison: &Comparison) -> String {
    let preface = preface(comparison).text();
    let lines = preface.lines().map(|line| format!("{line}  \n"));
    let mut text: String = lines.collect();
    for (heading, table) in tables(comparison) {
        text += &format!("\n### {heading}\n\n{}", table.markdown());
    }
    text + "\n" + verdict(comparison).trim_start()
}

/// Each of the other sides against the first one: a heading and a table.
pub(super) fn tables(comparison: &Comparison) -> impl Iterator<Item = (String, Table)> {
    let base = &comparison.sides[0];
    comparison.others().map(move |(side, differences)| {
        let heading = format!(
            "{} against {} ({} against {} runs)",
            side.title(),
            base.title(),
            side.figures.len(),
            base.figures.len()
        );
        (heading, table(comparison, differences))
    })
}

/// One row a metric.
fn table(comparison: &Comparison, differences: &[Difference]) -> Table {
    let is_regression = |difference: &Difference| comparison.is_regression(difference);
    let nobody = comparison.has_empty_side();
    Table::of(differences)
        .text("metric", |it| it.metric.name())
        .code()
        .figure("before", |it| value_text(it.metric, it.base))
        .figure("after", |it| value_text(it.metric, it.other))
        .figure("change", |it| match it.change {
            Some(change) => signed(it.metric, change.by),
            None => "-".into(),
        })
        .figure("interval", |it| interval_text(it))
        .text("", |it| match is_regression(it) {
            true => "REGRESSION".into(),
            false if nobody => "cannot tell: a side has no valid run".into(),
            false => verdict_words(it.meaning),
        })
        .alarm(|it| is_regression(it))
        .table()
}

/// Everything for a program.
pub(super) fn json(comparison: &Comparison) -> String {
    let sides: Vec<_> = comparison
        .sides
        .iter()
        .map(|side| {
            let runs = side.runs.iter();
            let runs: Vec<_> = runs
                .map(|run| json!({"name": run.name, "verdict": run.verdict.name(), "notes": run.notes}))
                .collect();
            json!({
                "name": side.name,
                "load": side.load(),
                "commit_resolution_ms": side.resolution_ms(),
                "runs": runs,
            })
        })
        .collect();
    let differences: Vec<_> = comparison
        .others()
        .flat_map(|(side, differences)| {
            let of_side = move |it| difference_json(comparison, side, it);
            differences.iter().map(of_side)
        })
        .collect();
    let document = json!({
        "format": "tidegate.compare/2",
        "sides": sides,
        "limit": comparison.terms.limit,
        "margin": comparison.terms.margin,
        "differences": differences,
        "regression": comparison.has_regression(),
    });
    format!("{document:#}\n")
}

fn difference_json(
    comparison: &Comparison,
    side: &Side,
    difference: &Difference,
) -> serde_json::Value {
    let change = difference.change;
    let interval = change.and_then(|change| change.interval);
    let value = |figure: Option<Figure>| figure.map(|figure| figure.value);
    let is_lower_bound =
        |figure: Option<Figure>| figure.is_some_and(|figure| figure.is_lower_bound);
    json!({
        "side": side.name,
        "runs": [comparison.sides[0].figures.len(), side.figures.len()],
        "metric": difference.metric.name(),
        "unit": difference.metric.unit(),
        "before": value(difference.base),
        "before_is_lower_bound": is_lower_bound(difference.base),
        "after": value(difference.other),
        "after_is_lower_bound": is_lower_bound(difference.other),
        "change": change.map(|change| change.by),
        "low": interval.map(|(low, _)| low),
        "high": interval.map(|(_, high)| high).filter(|high| high.is_finite()),
        "meaning": verdict_name(difference.meaning),
        "runs_needed": match difference.meaning {
            ComparisonVerdict::CannotTell(Uncertainty::Runs { needed }) => Some(needed),
            _ => None,
        },
        "regression": comparison.is_regression(difference),
    })
}

/// What is compared, and what a reader should know about it.
pub(super) fn preface(comparison: &Comparison) -> Entries {
    let mut entries = Entries::default();
    for (number, side) in comparison.sides.iter().enumerate() {
        let role = if number == 0 { "before" } else { "after" };
        entries.add(role, format!("{}: {}", side.title(), side.load()));
        remarks(side).for_each(|remark| entries.add("", remark));
    }
    let first = comparison.sides[0].load();
    if comparison.sides.iter().any(|side| side.load() != first) {
        let note = "the loads differ, so the target is not the only cause of a difference";
        entries.add("note", note);
    }
    let margin = percent(comparison.terms.margin);
    let method = format!(
        "Welch's t over runs, Holm over metrics, 95 % together; same: within {margin} \
         (method and calibration: docs/calibration.md)"
    );
    entries.add("method", method);
    entries
}

/// What a reader should know about the runs of a side.
fn remarks(side: &Side) -> impl Iterator<Item = String> {
    let none = side.figures.is_empty().then(|| {
        let name = &side.name;
        let which = match side.runs.len() {
            1 => format!("{name} is no valid run"),
            count => format!("none of the {count} runs in {name} is valid"),
        };
        format!("{which}, so nothing can be told: measure again with a schedule that is kept")
    });
    let resolution_ms = side.resolution_ms();
    let polled = (resolution_ms > 0.0).then(|| {
        format!("commits were seen by polling: each up to {resolution_ms:.0} ms after its block")
    });
    side.runs
        .iter()
        .flat_map(remarks_on_run)
        .chain(none)
        .chain(polled)
}

fn remarks_on_run(run: &SideRun) -> impl Iterator<Item = String> {
    let name = run.title();
    let reason = run
        .reason
        .as_deref()
        .map_or(String::new(), |it| format!(" ({it})"));
    let left_out = match run.verdict {
        ScheduleVerdict::Valid => None,
        ScheduleVerdict::Degraded => Some(""),
        ScheduleVerdict::Invalid => Some(": it is left out of the verdicts"),
    };
    let verdict = run.verdict.name();
    let schedule = left_out.map(|it| format!("the schedule of {name} was {verdict}{it}{reason}"));
    let notes = run.notes.iter().map(move |note| format!("{name}: {note}"));
    schedule.into_iter().chain(notes)
}

/// The last line: whether a regression is shown, and what could not be judged.
pub(super) fn verdict(comparison: &Comparison) -> String {
    let Some(limit) = comparison.terms.limit else {
        return String::new();
    };
    let limit = percent(limit);
    let found = comparison.others().flat_map(|(side, differences)| {
        let found = differences.iter().filter(|it| comparison.is_regression(it));
        found.map(move |it| format!("{} of {}", it.metric.name(), side.name))
    });
    let found: Vec<String> = found.collect();
    if !found.is_empty() {
        return format!("\nREGRESSION by more than {limit}: {}\n", found.join(", "));
    }
    if comparison.has_empty_side() {
        return "\ncannot tell whether anything is worse: a side has no valid run\n".into();
    }
    let open = open(comparison);
    format!("\nno regression: nothing is shown to be worse by more than {limit}{open}\n")
}

/// How much cannot be told; nothing when all can.
fn open(comparison: &Comparison) -> String {
    let all = || comparison.others().flat_map(|(_, differences)| differences);
    let open = all().filter(|it| matches!(it.meaning, ComparisonVerdict::CannotTell(_)));
    match open.count() {
        0 => String::new(),
        open => format!("; cannot tell for {open} of {} metrics", all().count()),
    }
}

/// The answer in one sentence: what is shown to have changed.
pub(super) fn headline(comparison: &Comparison) -> String {
    if comparison.terms.limit.is_some() {
        return verdict(comparison);
    }
    let sides = comparison.others().filter_map(|(side, differences)| {
        let of = |meaning: ComparisonVerdict, word: &str| {
            let found = differences.iter().filter(|it| it.meaning == meaning);
            let names: Vec<&str> = found.map(|it| it.metric.name()).collect();
            let more = match names.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let named = names[..names.len().min(NAMED)].join(", ");
            (!names.is_empty()).then(|| format!("**{word}** in {named}{more}"))
        };
        let found = [
            of(ComparisonVerdict::Worse, "worse"),
            of(ComparisonVerdict::Better, "better"),
        ];
        let found = found.into_iter().flatten().collect::<Vec<_>>().join(", ");
        (!found.is_empty()).then(|| format!("{} is {found}", side.name))
    });
    match sides.collect::<Vec<_>>().join("; ") {
        _ if comparison.has_empty_side() => {
            "**nothing can be told**: a side has no valid run".into()
        }
        none if none.is_empty() => format!("no difference is shown{}", open(comparison)),
        found => format!("against {}: {found}", comparison.sides[0].name),
    }
}

/// Metrics that a headline names.
const NAMED: usize = 3;

/// A change and its interval in a forest plot; `None` where there is none.
pub(super) fn forest_row(difference: &Difference) -> Option<ForestRow> {
    let change = difference.change?;
    let meaning = difference.meaning;
    let everything = (f64::NEG_INFINITY, f64::INFINITY);
    let (low, high) = change.interval.unwrap_or(everything);
    Some(ForestRow {
        name: difference.metric.name().to_owned(),
        by: change.by,
        low,
        high,
        tone: match meaning {
            ComparisonVerdict::Better => Tone::Accepted,
            ComparisonVerdict::Worse => Tone::Bad,
            ComparisonVerdict::Same | ComparisonVerdict::CannotTell(_) => Tone::Plan,
        },
        text: verdict_words(meaning),
    })
}

fn interval_text(difference: &Difference) -> String {
    let signed = |end| signed(difference.metric, end);
    match difference.change.and_then(|change| change.interval) {
        Some((low, high)) if high.is_finite() => format!("{} to {}", signed(low), signed(high)),
        Some((low, _)) => format!("{} or more", signed(low)),
        None => "-".into(),
    }
}

fn value_text(metric: Metric, figure: Option<Figure>) -> String {
    let Some(Figure {
        value,
        is_lower_bound,
    }) = figure
    else {
        return "-".into();
    };
    let value_text = match metric {
        Metric::Lost => format!("{:.2} %", value * 100.0),
        Metric::Committed | Metric::Accepted => format!("{value:.1}/s"),
        Metric::Accept(_) | Metric::Commit(_) if value < 10.0 => format!("{value:.3} ms"),
        Metric::Accept(_) | Metric::Commit(_) => format!("{value:.1} ms"),
    };
    match is_lower_bound {
        true => format!("≥ {value_text}"),
        false => value_text,
    }
}

/// A change; of shares in percentage points.
fn signed(metric: Metric, change: f64) -> String {
    let unit = match metric {
        Metric::Lost => "pp",
        _ => "%",
    };
    // No minus before a zero.
    let percent = (change * 1000.0).round() / 10.0 + 0.0;
    format!("{percent:+.1} {unit}")
}
