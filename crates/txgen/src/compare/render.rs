//! A comparison as text, Markdown and JSON.

use measure::{ComparisonVerdict, ScheduleVerdict};
use report::text::percent;
use report::{ComparedSide, Entries};
use serde_json::json;

use super::Comparison;
use super::side::{Side, SideRun};

/// Tables for a terminal.
pub(super) fn text(comparison: &Comparison) -> String {
    let mut text = preface(comparison).text();
    for side in comparison.others() {
        text += &format!("\n{}\n{}", side.heading(), side.table().text());
    }
    text + &verdict(comparison)
}

/// Tables for a review.
pub(super) fn markdown(comparison: &Comparison) -> String {
    let preface = preface(comparison).text();
    let lines = preface.lines().map(|line| format!("{line}  \n"));
    let mut text: String = lines.collect();
    for side in comparison.others() {
        text += &format!("\n### {}\n\n{}", side.heading(), side.table().markdown());
    }
    text + "\n" + verdict(comparison).trim_start()
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
    let others = comparison.others();
    let differences: Vec<_> = others.iter().flat_map(ComparedSide::json).collect();
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
    let others = comparison.others();
    let found = others.iter().flat_map(|side| {
        let found = side.differences.iter().filter(|it| side.is_regression(it));
        found.map(|it| format!("{} of {}", it.metric.name(), side.name))
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
    let all = || comparison.others.iter().flatten();
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
    let others = comparison.others();
    let sides = others.iter().filter_map(|side| {
        let of = |meaning: ComparisonVerdict, word: &str| {
            let found = side.differences.iter().filter(|it| it.meaning == meaning);
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
