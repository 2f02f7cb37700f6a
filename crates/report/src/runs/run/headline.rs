//! The answer: in one sentence, with bold figures between `**`, what gave first, and the figures.

use std::cmp::Reverse;

use measure::{
    Evidence, EvidenceKind, Knee, LimitedBy, LoadModel, Machine, Quantiles, RateStats,
    ScheduleVerdict, StepRow, Strength, Summary,
};

use super::RunReport;
use crate::page::{link, tag};
use crate::runs::{evidence_text, limit_text, list, run};
use crate::text::{self, escape, grouped};

/// When, against what, with which program.
pub(super) fn origin(report: &RunReport) -> String {
    let manifest = &report.manifest;
    let endpoints = manifest.endpoints.iter().map(|endpoint| {
        let node = if endpoint.built_in {
            "the built-in node"
        } else {
            &endpoint.url
        };
        match &endpoint.node_version {
            Some(version) => format!("{node} (version {version})"),
            None => node.to_owned(),
        }
    });
    let text = format!(
        "{}, against {}, by txgen {}",
        text::utc(&manifest.started),
        endpoints.collect::<Vec<_>>().join(", "),
        manifest.version
    );
    tag("p class=\"soft\"", &escape(&text))
}

pub(super) fn notes(report: &RunReport) -> String {
    if report.notes.is_empty() {
        return String::new();
    }
    let notes = report.notes.iter().map(|note| tag("p", &escape(note)));
    tag("div class=\"alert\"", &notes.collect::<String>())
}

/// The result in one line: the rate, what gave first, and how far to trust it.
pub(super) fn verdict(report: &RunReport) -> String {
    let summary = &report.summary;
    if says_nothing(summary) {
        return "**Invalid**: the run says nothing about the node.".to_owned();
    }
    let achieved = match &summary.knee {
        Some(knee) => {
            let bracket = bracket(knee).replace(" and ", " to ");
            format!("knee **{}**", bracket.trim_start_matches("between "))
        }
        None => achieved(summary),
    };
    let limit = limit_text(summary.limited_by);
    let limit = limit.split_once(": ").map_or(limit, |(what, _)| what);
    let onset = report.onsets.first();
    let first = onset.map_or(String::new(), |onset| format!(" ({onset})"));
    let gave = match summary.limited_by {
        LimitedBy::Nothing => "**nothing** limited it".to_owned(),
        LimitedBy::Unknown => format!("limit unknown{first}"),
        _ => format!("limited by the **{limit}**{first}"),
    };
    let short = if summary.interrupted {
        "interrupted: "
    } else {
        ""
    };
    let shared = match shared_machine(summary) {
        Some(_) => ", machine full",
        None => "",
    };
    let schedule = summary.verdict.schedule.name();
    format!("{short}{achieved}; {gave}; schedule **{schedule}**{shared}.")
}

/// The reason for the headline; nothing where it has all.
pub(super) fn explanation(report: &RunReport) -> String {
    let summary = &report.summary;
    if says_nothing(summary) {
        let reasons = invalid_because(summary);
        return tag(
            "p",
            &(escape(&capitalized(&reasons)) + ". " + &*busy_machine(summary)),
        );
    }
    let knee = summary.knee.as_ref().map(|_| summary.knee_reason.clone());
    let limited = match summary.limited_by {
        LimitedBy::Nothing => None,
        _ => Some(limited(summary).replace("**", "")),
    };
    let shared = shared_machine(summary).map(|machine| {
        let machine = machine_text(&machine);
        format!("The node shared this machine, which was full ({machine}): alone it may take more")
    });
    let sentences = [knee, limited, shared].into_iter().flatten();
    let sentences: String = sentences.map(|it| capitalized(&it) + ". ").collect();
    match escape(&sentences) + &*busy_machine(summary) {
        none if none.is_empty() => String::new(),
        sentences => tag("p", sentences.trim_end()),
    }
}

/// The link to what helps where other programs took the cores; nothing where none did.
fn busy_machine(summary: &Summary) -> String {
    if is_disturbed(summary) {
        let (to, text) = busy_machine_link();
        link(&to, &text)
    } else {
        String::new()
    }
}

/// Whether other programs on the machine had a part in the verdict: the generator or the node lacked a core.
pub fn is_disturbed(summary: &Summary) -> bool {
    let is_late = summary.verdict.schedule != ScheduleVerdict::Valid;
    (is_late && summary.late.causes.schedule > 0) || shared_machine(summary).is_some()
}

fn capitalized(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}

/// Whether the run is no observation of the node.
fn says_nothing(summary: &Summary) -> bool {
    summary.verdict.schedule == ScheduleVerdict::Invalid && summary.knee.is_none()
}

/// What the node did, and what gave first, with bold figures between `**`; the second is empty where the run says
/// nothing of the node.
pub fn answer(summary: &Summary) -> [String; 2] {
    if says_nothing(summary) {
        let achieved = format!(
            "**Invalid**, so it says nothing about the node: {}",
            invalid_because(summary)
        );
        return [achieved, String::new()];
    }
    let short = if summary.interrupted {
        "Before it was interrupted: "
    } else {
        ""
    };
    let achieved = format!("{short}{}", achieved(summary));
    [achieved, limited(summary) + &beside(summary)]
}

fn invalid_because(summary: &Summary) -> String {
    let reasons = summary.verdict.reasons.iter();
    let reasons: Vec<&str> = reasons
        .filter_map(|it| it.strip_prefix("invalid: "))
        .collect();
    reasons.join("; ")
}

/// Between which rates the capacity lies.
pub(super) fn bracket(knee: &Knee) -> String {
    match knee.below_tps {
        Some(below) => format!(
            "between {} and {}",
            text::number(knee.rate_tps),
            text::rate(below)
        ),
        None => text::rate(knee.rate_tps),
    }
}

/// What the node did with what it was offered.
fn achieved(summary: &Summary) -> String {
    if let Some(knee) = &summary.knee {
        let reason = summary.knee_reason.trim_start_matches("sustained ");
        return format!("the node takes **{}** ({reason})", bracket(knee));
    }
    let [low, high] = rates(summary);
    let offered = match (summary.model, summary.rate.planned_tps) {
        (LoadModel::Open, Some(_)) if low < high => {
            let (low, high) = (text::number(low), text::rate(high));
            format!("of **{low} to {high}** offered")
        }
        (LoadModel::Open, Some(rate)) => format!("of **{}** offered", text::rate(rate)),
        (LoadModel::Closed, _) => "in a closed loop, each as soon as an answer made room,".into(),
        _ => "of what was offered".into(),
    };
    let fate = &summary.fate;
    let (what, count) = match summary.blocks.count {
        0 => ("accepted", fate.accepted),
        _ => ("committed", fate.committed),
    };
    let planned = summary.offered.planned;
    let all = if count == planned {
        format!("all {}", grouped(planned))
    } else {
        format!("{} of {}", grouped(count), grouped(planned))
    };
    format!("{offered} the node {what} **{all}** transactions")
}

/// The lowest and the highest rate of the steps that offered one: a mean over them is a rate of none.
fn rates(summary: &Summary) -> [f64; 2] {
    let loaded = summary.steps.iter().filter(|step| !step.pause);
    let rates = loaded.map(|step| step.rate_tps);
    [
        rates.clone().fold(f64::INFINITY, f64::min),
        rates.fold(0.0, f64::max),
    ]
}

fn limited(summary: &Summary) -> String {
    let limit = summary.limited_by;
    let explained = limit_text(limit);
    let (what, why) = explained.split_once(": ").unwrap_or((explained, ""));
    let strongest = summary.evidence.first();
    let strongest = strongest.filter(|it| it.strength >= Strength::Strong);
    let why = strongest.map_or_else(|| why.to_owned(), |evidence| words(summary, evidence));
    match limit {
        LimitedBy::Nothing => "**nothing** limited it".to_owned(),
        LimitedBy::Unknown => format!("what limited it cannot be told: {why}"),
        _ => format!("limited by the **{what}**: {why}"),
    }
}

/// What else may have, where the node had to share its machine and is named as the limit.
fn beside(summary: &Summary) -> String {
    match shared_machine(summary) {
        Some(machine) => format!(
            "; it shared this machine, which was full ({}), so alone it may take more",
            machine_text(&machine)
        ),
        None => String::new(),
    }
}

/// The machine, where the node had to share it, it was full, and the node is named as the limit.
fn shared_machine(summary: &Summary) -> Option<Machine> {
    let machine = summary.machine.filter(Machine::limits_its_node);
    machine.filter(|_| summary.limited_by == LimitedBy::Node)
}

/// How busy the machine was.
pub fn machine_text(machine: &Machine) -> String {
    let stolen = if machine.stolen > 0.05 {
        format!(", {:.1} taken by its host", machine.stolen)
    } else {
        String::new()
    };
    let waited = machine.waited_s.map(|waited_s| {
        let waited = text::seconds(waited_s);
        format!("; something waited for a core for {waited}")
    });
    format!(
        "{:.1} of {} cores busy, {:.1} by others{stolen}{}",
        machine.busy,
        machine.cores,
        (machine.busy - machine.own).max(0.0),
        waited.unwrap_or_default()
    )
}

/// What gave first, in the order of time; the numbers are those of the marks in the plots.
pub(super) fn onsets(report: &RunReport) -> String {
    let onsets = report.onsets.iter().map(|onset| {
        let from = format!(" from {}", text::seconds(onset.at_s.round()));
        let sign = escape(&onset.sign).into_owned();
        tag("li", &(sign + &tag("span class=\"soft\"", &from)))
    });
    match onsets.len() {
        0 => String::new(),
        _ => tag("ol class=\"onsets\"", &onsets.collect::<String>()),
    }
}

/// What speaks for the conclusion; a failure whatever else was seen stands out.
pub(super) fn evidence(report: &RunReport) -> String {
    let of = |strength: Strength| {
        let evidence = report.summary.evidence.iter();
        evidence.filter(move |evidence| evidence.strength == strength)
    };
    let decisive: String = of(Strength::Decisive)
        .map(|it| {
            tag(
                "p class=\"alert bad\"",
                &escape(&words(&report.summary, it)),
            )
        })
        .collect();
    // The sentence above has the first one already.
    let is_valid = report.summary.verdict.schedule != ScheduleVerdict::Invalid;
    let said = usize::from(is_valid && decisive.is_empty());
    let strong = of(Strength::Strong)
        .map(|it| words(&report.summary, it))
        .skip(said);
    let strong: Vec<String> = strong.collect();
    if strong.is_empty() {
        decisive
    } else {
        decisive + &list(&strong)
    }
}

/// A piece of evidence in words; of refusals also the node's.
pub(super) fn words(summary: &Summary, evidence: &Evidence) -> String {
    let text = evidence_text(summary, evidence);
    if evidence.kind != EvidenceKind::Refused {
        return text;
    }
    let causes = run::refusals(summary);
    let mut causes: Vec<(&String, &u64)> = causes.iter().collect();
    causes.sort_by_key(|(_, count)| Reverse(**count));
    let causes = causes.iter().take(MAX_CAUSES).map(|(cause, _)| said(cause));
    format!("{text}: {}", causes.collect::<Vec<_>>().join(" / "))
}

/// The node's text, without the code before it; the code where there is no text.
fn said(cause: &str) -> String {
    let is_code = |text: &str| text.parse::<measure::Code>().is_ok();
    match cause.split_once(": ") {
        Some((code, text)) if is_code(code) => text.to_owned(),
        _ if is_code(cause) => format!("code {cause}"),
        _ => cause.to_owned(),
    }
}

/// The same as a line of text.
pub(super) fn onset_line(report: &RunReport) -> String {
    let onsets = report.onsets.iter().map(ToString::to_string);
    onsets.collect::<Vec<_>>().join(" → ")
}

/// The colour of a verdict on the schedule.
pub(super) const fn class(verdict: ScheduleVerdict) -> &'static str {
    match verdict {
        ScheduleVerdict::Valid => "good",
        ScheduleVerdict::Degraded => "warn",
        ScheduleVerdict::Invalid => "bad",
    }
}

/// The figures people look for first: of the step at the knee where one was found, otherwise of the whole run. A
/// mean over steps of different rates is none of them.
pub(super) fn tiles(report: &RunReport) -> String {
    let summary = &report.summary;
    let verdict = summary.verdict.schedule;
    let steps = &summary.steps;
    let knee = summary.knee.as_ref().and_then(|knee| knee.step);
    let knee = knee.and_then(|number| steps.iter().find(|step| step.step == number));
    let [low, high] = rates(summary);
    let is_steady = low >= high;
    let fate = &summary.fate;
    let lost = fate.rejected + fate.errors + fate.unanswered + fate.commit_failed + fate.pending;
    let mut tiles = vec![(verdict.name().to_owned(), "schedule")];
    match knee {
        Some(step) => tiles.extend(at_knee(step)),
        None if is_steady => tiles.extend(steady(summary)),
        None => {}
    }
    if knee.is_some() || !is_steady {
        tiles.push((grouped(fate.committed), "committed in all"));
    }
    tiles.push((
        grouped(lost),
        "rejected, failed, unanswered, pending in all",
    ));
    let last = tiles.len() - 1;
    let tiles = tiles.iter().enumerate().map(|(place, (value, name))| {
        let class = match place {
            0 => class(verdict),
            _ if place == last && lost > 0 => "bad",
            _ => "",
        };
        // There is no room for two letters.
        let value = value.replace(">= ", "≥ ");
        let value = tag(&format!("b class=\"{class}\""), &escape(&value));
        tag("li", &(value + &tag("span", name)))
    });
    tag("ul class=\"tiles\"", &tiles.collect::<String>())
}

/// What the node did at the highest rate that it sustained.
fn at_knee(step: &StepRow) -> Vec<(String, &'static str)> {
    let rate = |rate: Option<f64>| text::or_dash(rate, text::rate);
    let millis = |name| text::or_dash(step.figure(name), text::millis);
    vec![
        (text::rate(step.rate_tps), "highest step sustained"),
        (rate(step.committed_tps), "committed at the knee"),
        (millis("commit_p50_ms"), "to commit at the knee, p50"),
        (millis("commit_p99_ms"), "to commit at the knee, p99"),
        (millis("accept_p99_ms"), "to accept at the knee, p99"),
    ]
}

/// What the node did at the one rate of the run.
fn steady(summary: &Summary) -> Vec<(String, &'static str)> {
    let latency = &summary.latency_ms;
    let rate = |rate: Option<f64>| text::or_dash(rate, text::rate);
    let mean = |stats: Option<RateStats>| rate(stats.map(|stats| stats.mean));
    let millis = |latency: &Quantiles, name| text::or_dash(latency.figure(name), text::millis);
    let (accept, commit) = (&latency.accept_response, &latency.commit_from_due);
    vec![
        (rate(summary.rate.sent_tps), "sent, mean"),
        (mean(summary.rate.accepted_tps), "accepted, mean"),
        (mean(summary.rate.committed_tps), "committed, mean"),
        (millis(commit, "p50"), "to commit, p50 from due"),
        (millis(commit, "p99"), "to commit, p99 from due"),
        (millis(accept, "p99"), "to accept, p99 from due"),
    ]
}

/// Causes of refusals that a sentence names, the most frequent first.
const MAX_CAUSES: usize = 3;
/// Where to read what helps on a machine that is not the run's own, and what that is called.
pub fn busy_machine_link() -> (String, String) {
    let to = "https://github.com/tidegate/tidegate/blob/main/docs/busy-machine.md";
    (to.to_owned(), "On a busy or shared machine".to_owned())
}

/// The same as a line of a terminal.
pub const BUSY_MACHINE: &str = "what still holds, and what helps: docs/busy-machine.md";
