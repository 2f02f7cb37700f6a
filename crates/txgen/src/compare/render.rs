//! A comparison as text, Markdown and JSON.

use std::fmt::Write as _;

use measure::{Difference, Drawn, Meaning, Metric};
use serde_json::json;

use super::Comparison;

/// Tables for a terminal.
pub(super) fn text(comparison: &Comparison) -> String {
    let mut text = preface(comparison);
    for (side, differences, drawn) in comparison.others() {
        let base = comparison.sides[0].title();
        let _ = writeln!(
            text,
            "\n{} against {base} ({})",
            side.title(),
            drawn_words(drawn)
        );
        let _ = writeln!(
            text,
            "{:<20}{:>12}{:>12}{:>10}  {:<22}",
            "metric", "before", "after", "change", "95 % interval"
        );
        for difference in differences {
            let row = Row::new(comparison, difference);
            let line = format!(
                "{:<20}{:>12}{:>12}{:>10}  {:<22}{}",
                row.metric, row.base, row.other, row.change, row.interval, row.meaning
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    text.push_str(&verdict(comparison));
    text
}

/// Tables for a review.
pub(super) fn markdown(comparison: &Comparison) -> String {
    let mut text = String::new();
    for line in preface(comparison).lines() {
        let _ = writeln!(text, "{line}  ");
    }
    for (side, differences, drawn) in comparison.others() {
        let base = comparison.sides[0].title();
        let _ = writeln!(
            text,
            "\n### {} against {base} ({})\n\n| metric | before | after | change | 95 % interval | |\n|---|--:|--:|--:|---|---|",
            side.title(),
            drawn_words(drawn)
        );
        for difference in differences {
            let row = Row::new(comparison, difference);
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {} | {} | {} |",
                row.metric, row.base, row.other, row.change, row.interval, row.meaning
            );
        }
    }
    let _ = write!(text, "\n{}", verdict(comparison).trim_start());
    text
}

/// Everything for a program.
pub(super) fn json(comparison: &Comparison) -> String {
    let sides: Vec<_> = comparison
        .sides
        .iter()
        .map(|side| {
            let runs: Vec<_> = side
                .runs
                .iter()
                .map(|run| json!({"name": run.name, "verdict": run.verdict, "notes": run.notes}))
                .collect();
            json!({"name": side.name, "load": side.load(), "runs": runs})
        })
        .collect();
    let differences: Vec<_> = comparison
        .others()
        .flat_map(|(side, differences, drawn)| {
            differences.iter().map(move |difference| {
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
            })
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

/// What is compared, and what a reader should know about it.
pub(super) fn preface(comparison: &Comparison) -> String {
    let mut text = String::new();
    for (number, side) in comparison.sides.iter().enumerate() {
        let role = if number == 0 { "before" } else { "after" };
        let _ = writeln!(text, "{role:<8} {}: {}", side.title(), side.load());
        for run in &side.runs {
            if run.verdict != "valid" {
                let _ = writeln!(
                    text,
                    "{:<8} the schedule of {} was {}",
                    "", run.name, run.verdict
                );
            }
            for note in &run.notes {
                let _ = writeln!(text, "{:<8} {}: {note}", "", run.name);
            }
        }
    }
    let first = comparison.sides[0].load();
    if comparison.sides.iter().any(|side| side.load() != first) {
        let _ = writeln!(
            text,
            "note     the loads differ: what differs is not only the target's doing"
        );
    }
    text
}

/// The last line: whether there is a regression.
pub(super) fn verdict(comparison: &Comparison) -> String {
    let Some(limit) = comparison.limit else {
        return String::new();
    };
    let limit = limit * 100.0;
    let names: Vec<String> = comparison
        .others()
        .flat_map(|(side, differences, _)| {
            differences
                .iter()
                .filter(|difference| comparison.is_regression(difference))
                .map(move |difference| format!("{} of {}", difference.metric.name(), side.name))
        })
        .collect();
    if names.is_empty() {
        return format!(
            "\nno regression: nothing is worse by more than {limit:.3} % beyond chance\n"
        );
    }
    format!(
        "\nREGRESSION by more than {limit:.3} %: {}\n",
        names.join(", ")
    )
}

/// A difference in words.
pub(super) struct Row {
    pub(super) metric: &'static str,
    pub(super) base: String,
    pub(super) other: String,
    pub(super) change: String,
    pub(super) interval: String,
    pub(super) meaning: String,
}

impl Row {
    pub(super) fn new(comparison: &Comparison, difference: &Difference) -> Self {
        let metric = difference.metric;
        let value =
            |value: Option<f64>| value.map_or("-".into(), |value| value_text(metric, value));
        let change = difference.change;
        let meaning = match comparison.is_regression(difference) {
            true => "REGRESSION",
            false => meaning_word(difference.meaning()),
        };
        Self {
            metric: metric.name(),
            base: value(difference.base),
            other: value(difference.other),
            change: change.map_or("-".into(), |change| signed(metric, change.by)),
            interval: change
                .filter(|change| change.low.is_finite())
                .map_or("-".into(), |change| {
                    format!(
                        "{} to {}",
                        signed(metric, change.low),
                        signed(metric, change.high)
                    )
                }),
            meaning: meaning.into(),
        }
    }
}

fn value_text(metric: Metric, value: f64) -> String {
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

pub(super) fn drawn_words(drawn: Drawn) -> &'static str {
    match drawn {
        Drawn::Runs => "interval over runs",
        Drawn::Stretches => "interval over stretches of time",
    }
}
