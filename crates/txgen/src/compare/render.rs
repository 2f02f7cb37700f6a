//! A comparison as text, Markdown and JSON, and for a CI system.

use measure::{Difference, Gate, LoadDifference, ScheduleVerdict};
use report::text::percent;
use report::{ComparedSide, Entries, gate_name};
use serde_json::{Value, json};

use super::side::{Side, SideRun};
use super::{Comparison, Method};
use crate::ci::{CaseEnd, CiCase, CiReport};

/// The answer, then tables for a terminal.
pub(super) fn text(comparison: &Comparison) -> String {
    let answer = headline(comparison).replace("**", "");
    let mut text = format!(
        "{answer}\n\n{}{}",
        abouts(comparison).text(),
        preface(comparison).text()
    );
    for side in comparison.others() {
        text += &format!("\n{}\n{}", side.heading(), side.table().text());
    }
    text
}

/// The answer, then tables for a review.
pub(super) fn markdown(comparison: &Comparison) -> String {
    let preface = abouts(comparison).text() + &preface(comparison).text();
    let lines = preface.lines().map(|line| format!("{line}  \n"));
    let mut text = format!("{}\n\n{}", headline(comparison), lines.collect::<String>());
    for side in comparison.others() {
        text += &format!("\n### {}\n\n{}", side.heading(), side.table().markdown());
    }
    text
}

/// Everything for a program.
pub(super) fn document(comparison: &Comparison) -> Value {
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
                "about": side.about,
                "load": side.load(),
                "commit_resolution_ms": side.resolution_ms(),
                "runs": runs,
            })
        })
        .collect();
    let others = comparison.others();
    let differences: Vec<_> = others.iter().flat_map(ComparedSide::json).collect();
    let doubts = others.iter().zip(&comparison.found).map(|(side, found)| {
        let differing = found.doubts.differing.iter().map(|it| {
            json!({"field": it.field.name(), "before": it.base, "after": it.other, "varied": it.is_varied})
        });
        json!({
            "side": side.name,
            "one_after_the_other": found.doubts.is_ordered,
            "differing": differing.collect::<Vec<_>>(),
        })
    });
    json!({
        "format": "tidegate.compare/3",
        "sides": sides,
        "doubts": doubts.collect::<Vec<_>>(),
        "limit": comparison.terms.limit,
        "margin": comparison.terms.margin,
        "differences": differences,
        "gate": comparison.is_gated().then(|| gate_name(comparison.gate())),
    })
}

/// What the names of the sides stand for, where that differs from the name.
pub(super) fn abouts(comparison: &Comparison) -> Entries {
    let mut entries = Entries::default();
    let sides = comparison.sides.iter();
    let abouts = sides.filter_map(|side| Some((&side.name, side.about.as_ref()?)));
    abouts.for_each(|(name, about)| entries.add(name, about));
    entries
}

/// What is compared, and what a reader should know about it.
pub(super) fn preface(comparison: &Comparison) -> Entries {
    let mut entries = Entries::default();
    differing(comparison).for_each(|it| entries.add("differs", it));
    for (number, side) in comparison.sides.iter().enumerate() {
        let role = if number == 0 { "before" } else { "after" };
        entries.add(role, format!("{}: {}", side.title(), side.load()));
        for remark in remarks(side) {
            entries.add("", remark);
        }
    }
    if comparison.is_disturbed() {
        entries.add("", report::BUSY_MACHINE);
    }
    for (side, found) in comparison.others().iter().zip(&comparison.found) {
        if found.doubts.is_ordered {
            let (base, name) = (side.base, side.name);
            entries.add("note", format!(
                "nearly all runs of {base} began before those of {name}, or after them, so that what drifts with time \
                 looks like a difference: measure in turns (txgen ab)"
            ));
        }
    }
    let margin = percent(comparison.terms.margin);
    let method = match &comparison.method {
        Method::Repeats => {
            "Welch's t over runs; verdicts by Holm, intervals by Bonferroni, each right together in 95 %".to_owned()
        }
        Method::Turns { course, .. } => {
            entries.add("runs", course);
            "blocks of ABBA and BAAB; intervals right together in 95 %, also of those who look after each".to_owned()
        }
    };
    let where_told = "(method and calibration: docs/calibration.md)";
    entries.add(
        "method",
        format!("{method}; same: within {margin} {where_told}"),
    );
    entries
}

/// In what the loads of the sides differ, one sentence each.
pub(super) fn differing(comparison: &Comparison) -> impl Iterator<Item = String> {
    let differing = comparison.found.iter().flat_map(|it| &it.doubts.differing);
    differing.map(differing_words)
}

/// One difference of the loads.
fn differing_words(differing: &LoadDifference) -> String {
    let listed = |values: &[String]| match values {
        [first, _, _, _, ..] => format!("{first} and {} others", values.len() - 1),
        few => few.join(", "),
    };
    let [base, other] = [&differing.base, &differing.other].map(|it| listed(it));
    let title = differing.field.title();
    let varied = if differing.is_varied {
        ", which is what is compared".into()
    } else if differing.spoils_nothing() {
        String::new()
    } else {
        let field = differing.field.name();
        format!("; where this is what you compare, pass --varied {field}")
    };
    format!("{title} differs: {base} before, {other} after{varied}")
}

/// What a reader should know about the runs of a side.
fn remarks(side: &Side) -> Vec<String> {
    let schedules = [ScheduleVerdict::Degraded, ScheduleVerdict::Invalid];
    let schedules = schedules
        .into_iter()
        .filter_map(|verdict| schedule_remark(side, verdict));
    let late = side
        .runs
        .iter()
        .filter(|run| run.verdict != ScheduleVerdict::Invalid);
    let busy = late.filter_map(|run| {
        let metrics: Vec<&str> = run.busy.iter().map(|metric| metric.name()).collect();
        (!metrics.is_empty()).then(|| (metrics.join(", "), run.title()))
    });
    let busy = by_text(busy).into_iter().map(|(metrics, runs)| {
        format!("the generator was late itself in {runs}, whose {metrics} do not count")
    });
    let notes = side.runs.iter().flat_map(|run| {
        let notes = run.notes.iter();
        notes.map(|note| (note.clone(), run.title()))
    });
    let notes = by_text(notes).into_iter();
    let notes = notes.map(|(note, runs)| format!("{runs}: {note}"));
    let none = side.figures.is_empty().then(|| {
        let name = &side.name;
        let which = match side.runs.len() {
            1 => format!("{name} is no valid run"),
            count => format!("none of the {count} runs in {name} is valid"),
        };
        format!(
            "{which}, so nothing can be told: measure again with a schedule that is kept; its figures are shown in \
             parentheses"
        )
    });
    let resolution_ms = side.resolution_ms();
    let polled = (resolution_ms > 0.0).then(|| {
        format!("commits were seen by polling: each up to {resolution_ms:.0} ms after its block")
    });
    schedules
        .chain(busy)
        .chain(notes)
        .chain(none)
        .chain(polled)
        .collect()
}

/// How many runs had this verdict on their schedules, with the reason of the first one; `None` where none had.
fn schedule_remark(side: &Side, verdict: ScheduleVerdict) -> Option<String> {
    let runs: Vec<&SideRun> = side
        .runs
        .iter()
        .filter(|run| run.verdict == verdict)
        .collect();
    let first = runs.first()?;
    let title = first.title();
    let reason = first.reason.as_deref();
    let reason = reason.map_or(String::new(), |it| format!(" ({it})"));
    let (name, all) = (verdict.name(), side.runs.len());
    let (it_is, they_are) = match verdict {
        ScheduleVerdict::Invalid => (
            ": it is left out of the verdicts",
            ": they are left out of the verdicts",
        ),
        _ => ("", ""),
    };
    Some(match runs.len() {
        1 => format!("the schedule of {title} was {name}{it_is}{reason}"),
        count => format!(
            "the schedules of {count} of {all} runs were {name}{they_are}; the first one is {title}{reason}"
        ),
    })
}

/// Each text once, with the names that have it, in the order in which they come.
fn by_text(found: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut texts: Vec<(String, String)> = Vec::new();
    for (text, name) in found {
        match texts.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) => *names += &format!(", {name}"),
            None => texts.push((text, name)),
        }
    }
    texts
}

/// Whether a regression is shown, and what could not be judged.
fn verdict(comparison: &Comparison, limit: f64) -> String {
    let limit = percent(limit);
    let others = comparison.others();
    let with = |gate: Gate| {
        let found = others.iter().flat_map(|side| {
            let found = side.differences.iter().filter(|it| it.gate == Some(gate));
            found.map(|it| format!("{} of {}", it.metric.name(), side.name))
        });
        found.collect::<Vec<String>>().join(", ")
    };
    match comparison.gate() {
        Gate::Regression => {
            format!(
                "\nREGRESSION by more than {limit}: {}\n",
                with(Gate::Regression)
            )
        }
        _ if comparison.has_empty_side() => {
            "**cannot tell** whether anything is worse: a side has no valid run".into()
        }
        Gate::Open => format!(
            "**undecided**: it is not shown that nothing is worse by more than {limit}; open: {}",
            with(Gate::Open)
        ),
        Gate::Within => format!("**no regression**: nothing is worse by more than {limit}"),
    }
}

/// The answer in one sentence: what is shown to have changed.
pub(super) fn headline(comparison: &Comparison) -> String {
    match (&comparison.method, comparison.terms.limit) {
        (Method::Turns { answer, .. }, _) => answer.clone(),
        (Method::Repeats, Some(limit)) => verdict(comparison, limit),
        (Method::Repeats, None) => ComparedSide::answer(&comparison.others()),
    }
}

impl Comparison {
    /// What a CI system gets.
    pub(crate) fn for_ci(&self) -> CiReport {
        let others = self.others();
        let metrics = others.iter().flat_map(|side| {
            let differences = side.differences.iter();
            differences.map(|difference| case(side, difference, self.is_gated()))
        });
        let empty = self.sides.iter().filter(|side| side.figures.is_empty());
        let empty = empty.map(|side| CiCase {
            suite: side.name.clone(),
            name: "runs".into(),
            end: CaseEnd::Untold,
            detail: "no run of this side is valid".into(),
        });
        CiReport {
            answer: headline(self).replace("**", "").trim().to_owned(),
            cases: metrics.chain(empty).collect(),
            details: markdown(self),
            folder: self.page_folder.clone(),
            ..CiReport::default()
        }
    }
}

fn case(side: &ComparedSide<'_>, difference: &Difference, is_gated: bool) -> CiCase {
    let end = match difference.gate.filter(|_| is_gated) {
        Some(Gate::Regression) => CaseEnd::Broken,
        Some(Gate::Open) => CaseEnd::Untold,
        Some(Gate::Within) | None => CaseEnd::Passed,
    };
    CiCase {
        suite: format!("{} against {}", side.name, side.base),
        name: difference.metric.name().into(),
        end,
        detail: side.words(difference),
    }
}
