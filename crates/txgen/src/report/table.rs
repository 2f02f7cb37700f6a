//! The end of a run as a person reads it in ten seconds.

use std::fmt::Write as _;

use measure::{LoadModel, Quantiles, RateStats, StepRow, Summary};

use super::grouped;
use crate::run::saturation;
use crate::threshold::Verdict;

/// Verdict, conservation, rates, latencies, steps, and what limited the run.
#[must_use]
pub fn table(summary: &Summary, thresholds: &[Verdict], stopped_by: Option<&Verdict>) -> String {
    let mut text = String::new();
    verdict(&mut text, summary);
    conservation(&mut text, summary);
    rates(&mut text, summary);
    latencies(&mut text, summary);
    if summary.steps.len() > 1 {
        steps(&mut text, summary);
    }
    ending(&mut text, summary);
    conditions(&mut text, thresholds);
    if let Some(verdict) = stopped_by {
        line(
            &mut text,
            "stopped by",
            &format!(
                "{}, which was {} by then",
                verdict.text,
                verdict.value_text()
            ),
        );
    }
    text
}

/// What held and what did not.
fn conditions(text: &mut String, thresholds: &[Verdict]) {
    let widest = |longest: usize, verdict: &Verdict| longest.max(verdict.text.chars().count());
    let width = thresholds.iter().fold(0, widest);
    for verdict in thresholds {
        let held = if verdict.held { "held" } else { "BROKEN" };
        let value = verdict.value_text();
        line(
            text,
            "threshold",
            &format!("{:<width$}  {held:<6}  {value}", verdict.text),
        );
    }
}

fn verdict(text: &mut String, summary: &Summary) {
    let model = match summary.model {
        LoadModel::Open => "open loop",
        LoadModel::Closed => "closed loop: latencies are service times",
    };
    let interrupted = if summary.interrupted {
        ", interrupted"
    } else {
        ""
    };
    let name = summary.verdict.schedule.name();
    line(text, "verdict", &format!("{name} ({model}{interrupted})"));
    for reason in &summary.verdict.reasons {
        line(text, "", reason);
    }
}

fn conservation(text: &mut String, summary: &Summary) {
    let (offered, fate) = (&summary.offered, &summary.fate);
    let mut planned = format!(
        "{} = {} sent + {} unsent",
        grouped(offered.planned),
        grouped(offered.sent),
        grouped(offered.unsent)
    );
    planned.push_str(&by_name(&offered.unsent_by_reason));
    line(text, "planned", &planned);
    let mut sent = format!(
        "{} = {} accepted + {} rejected + {} errors + {} unanswered",
        grouped(fate.sent),
        grouped(fate.accepted),
        grouped(fate.rejected),
        grouped(fate.errors),
        grouped(fate.unanswered)
    );
    sent.push_str(&by_name(&fate.rejected_by_code));
    sent.push_str(&by_name(&fate.errors_by_kind));
    line(text, "sent", &sent);
    line(
        text,
        "accepted",
        &format!(
            "{} = {} committed + {} commit failed + {} pending",
            grouped(fate.accepted),
            grouped(fate.committed),
            grouped(fate.commit_failed),
            grouped(fate.pending)
        ),
    );
    let anyway = fate.committed_anyway.total();
    if anyway > 0 {
        line(
            text,
            "",
            &format!(
                "{} more are in blocks although no answer said so",
                grouped(anyway)
            ),
        );
    }
}

/// The non-zero entries, in brackets.
fn by_name(counts: &std::collections::BTreeMap<String, u64>) -> String {
    let entries: Vec<String> = counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(name, count)| format!("{name}: {}", grouped(*count)))
        .collect();
    if entries.is_empty() {
        String::new()
    } else {
        format!(" ({})", entries.join(", "))
    }
}

fn rates(text: &mut String, summary: &Summary) {
    let rate = &summary.rate;
    let plain = |rate: Option<f64>| rate.map_or("-".into(), |rate| format!("{rate:.2}/s"));
    line(
        text,
        "rate",
        &format!(
            "planned {}, sent {}",
            plain(rate.planned_tps),
            plain(rate.sent_tps)
        ),
    );
    let spread = |stats: Option<RateStats>| {
        stats.map_or("-".into(), |stats| {
            format!(
                "{:.1}/s mean, {:.1} median, {:.1} stddev, {:.0} max",
                stats.mean, stats.median, stats.stddev, stats.max
            )
        })
    };
    line(text, "  accepted", &spread(rate.accepted_tps));
    line(text, "  committed", &spread(rate.committed_tps));
}

fn latencies(text: &mut String, summary: &Summary) {
    let _ = writeln!(
        text,
        "{:<21}{:>10}{:>10}{:>10}{:>10}{:>10}{:>12}",
        "latency (ms)", "p50", "p95", "p99", "max", "mean", "count"
    );
    let latency = &summary.latency_ms;
    for (name, quantiles) in [
        ("  lateness", &latency.lateness),
        ("  accept, response", &latency.accept_response),
        ("  accept, service", &latency.accept_service),
        ("  commit from due", &latency.commit_from_due),
        ("       from sent", &latency.commit_from_sent),
        ("       from accepted", &latency.commit_from_accepted),
    ] {
        latency_row(text, name, quantiles);
    }
}

fn latency_row(text: &mut String, name: &str, quantiles: &Quantiles) {
    let _ = write!(text, "{name:<21}");
    for value in [
        quantiles.p50,
        quantiles.p95,
        quantiles.p99,
        quantiles.max,
        quantiles.mean,
    ] {
        let _ = write!(text, "{:>10}", millis(value));
    }
    let _ = writeln!(text, "{:>12}", grouped(quantiles.count));
}

fn millis(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| match value {
        value if value < 10.0 => format!("{value:.3}"),
        value if value < 1000.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    })
}

fn steps(text: &mut String, summary: &Summary) {
    let steps: &[StepRow] = &summary.steps;
    let followed = summary.blocks.count > 0;
    let excesses = saturation::excesses(steps, followed);
    let _ = writeln!(
        text,
        "{:<6}{:>10}{:>10}{:>11}{:>11}{:>11}{:>11}  ",
        "step", "rate/s", "sent/s", "accepted/s", "commit/s", "accept p99", "commit p95"
    );
    let skipped = steps.len().saturating_sub(MAX_STEPS_SHOWN);
    if skipped > 0 {
        let _ = writeln!(text, "…     {skipped} earlier steps are in steps.csv");
    }
    for (step, excess) in steps.iter().zip(excesses).skip(skipped) {
        let rate = |rate: Option<f64>| rate.map_or("-".into(), |rate| format!("{rate:.1}"));
        let mark = match (step.pause, excess) {
            (true, _) => "pause",
            (false, Some(_)) => "not sustained",
            (false, None) => "",
        };
        let _ = writeln!(
            text,
            "{:<6}{:>10.1}{:>10}{:>11}{:>11}{:>11}{:>11}  {mark}",
            step.step,
            step.rate_tps,
            rate(step.sent_tps),
            rate(step.accepted_tps),
            rate(step.committed_tps),
            millis(step.accept_p99_ms),
            millis(step.commit_p95_ms),
        );
    }
}

fn ending(text: &mut String, summary: &Summary) {
    let blocks = &summary.blocks;
    let rate = blocks
        .per_s
        .map_or(String::new(), |stats| format!(", {:.2}/s", stats.mean));
    line(
        text,
        "blocks",
        &format!(
            "{}{rate}, with {} of our transactions and {} others",
            grouped(blocks.count),
            grouped(blocks.own_txs),
            grouped(blocks.foreign_txs)
        ),
    );
    let reconnects = &summary.reconnects;
    if reconnects.planned + reconnects.broken > 0 {
        line(
            text,
            "reconnects",
            &format!(
                "{} planned, {} broken; {:.1} ms down at most, {:.1} ms in all",
                reconnects.planned,
                reconnects.broken,
                reconnects.down_ms_max,
                reconnects.down_ms_total
            ),
        );
    }
    if summary.steps.len() > 1 {
        let knee = summary
            .knee
            .as_ref()
            .map_or("not found".into(), |knee| format!("{:.0}/s", knee.rate_tps));
        line(text, "knee", &format!("{knee}: {}", summary.knee_reason));
    }
    line(text, "limited by", summary.limited_by.explain());
}

fn line(text: &mut String, name: &str, value: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{name:<13}{value}");
}

/// A ramp of hours has more steps than a screen has lines.
const MAX_STEPS_SHOWN: usize = 30;
