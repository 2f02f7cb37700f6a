//! A comparison as text, Markdown and JSON.

use measure::{Difference, Drawn, Meaning, Metric};
use report::Table;
use report::chart::{ForestRow, Tone};
use serde_json::json;

use super::Comparison;
use super::side::Side;

/// Tables for a terminal.
pub(super) fn text(comparison: &Comparison) -> String {
    let mut text = preface(comparison);
    for (heading, table) in tables(comparison) {
        text += &format!("\n{heading}\n{}", table.text());
    }
    text + &verdict(comparison)
}

/// Tables for a review.
pub(super) fn markdown(comparison: &Comparison) -> String {
    let preface = preface(comparison);
    let lines = preface.lines().map(|line| format!("{line}  \n"));
    let mut text: String = lines.collect();
    for (heading, table) in tables(comparison) {
        text += &format!("\n### {heading}\n\n{}", table.markdown());
    }
    text + "\n" + verdict(comparison).trim_start()
}

/// Each of the other sides against the first one: a heading and a table.
pub(super) fn tables(comparison: &Comparison) -> impl Iterator<Item = (String, Table)> {
    let base = comparison.sides[0].title();
    comparison.others().map(move |(side, differences, drawn)| {
        let drawn = match drawn {
            Drawn::Runs => "interval over runs",
            Drawn::Stretches => "interval over stretches of time",
        };
        let heading = format!("{} against {base} ({drawn})", side.title());
        (heading, table(comparison, differences))
    })
}

/// One row a metric.
fn table(comparison: &Comparison, differences: &[Difference]) -> Table {
    let is_regression = |difference: &Difference| comparison.is_regression(difference);
    Table::of(differences)
        .text("metric", |it| it.metric.name())
        .code()
        .figure("before", |it| value_text(it.metric, it.base))
        .figure("after", |it| value_text(it.metric, it.other))
        .figure("change", |it| match it.change {
            Some(change) => signed(it.metric, change.by),
            None => "-".into(),
        })
        .figure("95 % interval", |it| match it.change {
            Some(change) if change.low.is_finite() => {
                let [low, high] = [change.low, change.high].map(|end| signed(it.metric, end));
                format!("{low} to {high}")
            }
            _ => "-".into(),
        })
        .text("", |it| match is_regression(it) {
            true => "REGRESSION",
            false => meaning_word(it.meaning()),
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
                .map(|run| json!({"name": run.name, "verdict": run.verdict, "notes": run.notes}))
                .collect();
            json!({"name": side.name, "load": side.load(), "runs": runs})
        })
        .collect();
    let differences: Vec<_> = comparison
        .others()
        .flat_map(|(side, differences, drawn)| {
            let of_side = move |it| difference_json(comparison, side, drawn, it);
            differences.iter().map(of_side)
        })
        .collect();
    let document = json!({
        "format": "tidegate.compare/1",
        "sides": sides,
        "limit": comparison.limit,
        "differences": differences,
        "regression": comparison.has_regression(),
    });
    format!("{document:#}\n")
}

fn difference_json(
    comparison: &Comparison,
    side: &Side,
    drawn: Drawn,
    difference: &Difference,
) -> serde_json::Value {
    let change = difference.change;
    json!({
        "side": side.name,
        "drawn": match drawn { Drawn::Runs => "runs", Drawn::Stretches => "stretches" },
        "metric": difference.metric.name(),
        "unit": difference.metric.unit(),
        "before": difference.base,
        "after": difference.other,
        "change": change.map(|change| change.by),
        "low": change.map(|change| change.low),
        "high": change.map(|change| change.high),
        "meaning": meaning_word(difference.meaning()),
        "regression": comparison.is_regression(difference),
    })
}

/// What is compared, and what a reader should know about it.
pub(super) fn preface(comparison: &Comparison) -> String {
    let mut lines = Vec::new();
    for (number, side) in comparison.sides.iter().enumerate() {
        let role = if number == 0 { "before" } else { "after" };
        lines.push((role, format!("{}: {}", side.title(), side.load())));
        for run in &side.runs {
            let name = &run.name;
            if run.verdict != "valid" {
                let verdict = run.verdict;
                lines.push(("", format!("the schedule of {name} was {verdict}")));
            }
            let notes = run.notes.iter();
            lines.extend(notes.map(|note| ("", format!("{name}: {note}"))));
        }
    }
    let first = comparison.sides[0].load();
    if comparison.sides.iter().any(|side| side.load() != first) {
        let note = "the loads differ, so the target is not the only cause of a difference";
        lines.push(("note", note.to_owned()));
    }
    let line = |(role, text)| format!("{role:<8} {text}\n");
    lines.into_iter().map(line).collect()
}

/// The last line: whether there is a regression.
pub(super) fn verdict(comparison: &Comparison) -> String {
    let Some(limit) = comparison.limit else {
        return String::new();
    };
    let limit = limit * 100.0;
    let regressions = comparison.others().flat_map(|(side, differences, _)| {
        let found = differences.iter().filter(|it| comparison.is_regression(it));
        found.map(move |it| format!("{} of {}", it.metric.name(), side.name))
    });
    let names: Vec<String> = regressions.collect();
    if names.is_empty() {
        return format!(
            "\nno regression: nothing is worse by more than {limit:.3} % beyond chance\n"
        );
    }
    let names = names.join(", ");
    format!("\nREGRESSION by more than {limit:.3} %: {names}\n")
}

/// The answer in one sentence: what changed beyond chance.
pub(super) fn headline(comparison: &Comparison) -> String {
    if comparison.limit.is_some() {
        return verdict(comparison);
    }
    let sides = comparison.others().filter_map(|(side, differences, _)| {
        let of = |meaning: Meaning, word: &str| {
            let found = differences.iter().filter(|it| it.meaning() == meaning);
            let names: Vec<&str> = found.map(|it| it.metric.name()).collect();
            let more = match names.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let named = names[..names.len().min(NAMED)].join(", ");
            (!names.is_empty()).then(|| format!("**{word}** in {named}{more}"))
        };
        let found = [of(Meaning::Worse, "worse"), of(Meaning::Better, "better")];
        let found = found.into_iter().flatten().collect::<Vec<_>>().join(", ");
        (!found.is_empty()).then(|| format!("{} is {found}", side.name))
    });
    match sides.collect::<Vec<_>>().join("; ") {
        none if none.is_empty() => "no difference beyond chance was found".to_owned(),
        found => found,
    }
}

/// Metrics that a headline names.
const NAMED: usize = 3;

/// A change and its interval in a forest plot; `None` where there is none.
pub(super) fn forest_row(difference: &Difference) -> Option<ForestRow> {
    let change = difference.change?;
    let meaning = difference.meaning();
    Some(ForestRow {
        name: difference.metric.name().to_owned(),
        by: change.by,
        low: change.low,
        high: change.high,
        tone: match meaning {
            Meaning::Better => Tone::Accepted,
            Meaning::Worse => Tone::Bad,
            Meaning::Chance | Meaning::Unknown => Tone::Plan,
        },
        text: meaning_word(meaning).to_owned(),
    })
}

fn value_text(metric: Metric, value: Option<f64>) -> String {
    let Some(value) = value else {
        return "-".into();
    };
    match metric {
        Metric::Lost => format!("{:.2} %", value * 100.0),
        Metric::Committed | Metric::Accepted => format!("{value:.1}/s"),
        Metric::Accept(_) | Metric::Commit(_) if value < 10.0 => format!("{value:.3} ms"),
        Metric::Accept(_) | Metric::Commit(_) => format!("{value:.1} ms"),
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

fn meaning_word(meaning: Meaning) -> &'static str {
    match meaning {
        Meaning::Better => "better",
        Meaning::Worse => "worse",
        Meaning::Chance => "same",
        Meaning::Unknown => "unknown",
    }
}
