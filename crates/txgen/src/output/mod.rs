//! What a person sees before and after a run: its plan, and its end, read in ten seconds. What is seen meanwhile is in
//! [`crate::live`].

pub mod recorded;

pub(crate) use harness::{note, print};
pub use report::text::grouped;

use measure::{LatencyKind, LoadModel, RateStats, StepRow, Strength, Summary, judge};
use pacing::{Arrivals, Nanos, Profile};
use report::chart::columns;
use report::text::{by_name, by_size, or_dash, tenths};
use report::{Entries, Table, titled};

use crate::plan::{Load, Nodes, Plan};
use crate::threshold::ThresholdVerdict;

/// Describes the plan in a few lines and, for a load with a known length, draws its rate.
pub fn preview(plan: &Plan) -> String {
    let until = until(&plan.load);
    let mut entries = Entries::default();
    entries.add("load", describe_load(&plan.load));
    if !plan.part.is_whole() {
        entries.add("part", plan.part.to_string());
    }
    if let Some(start) = plan.start_at {
        entries.add("start", start.to_string());
    }
    let duration = plan.duration();
    let count = plan.planned();
    entries.add("transactions", count.map_or(until.into(), grouped));
    if let Load::Open { schedule, .. } = &plan.load {
        let peak = duration.map(|_| schedule.profile().peak().to_string());
        entries.add("peak", peak.unwrap_or_else(|| until.into()));
    }
    let duration = duration.map(|duration| duration.to_string());
    entries.add("duration", duration.unwrap_or_else(|| until.into()));
    entries.add("workload", plan.workload.to_string());
    entries.add("seed", plan.seed.to_string());
    entries.add("target", describe_target(plan));
    let is_query = plan.workload.queries().is_some();
    let prefix = plan.target.facts().method_prefix;
    let prefix = if is_query { "" } else { prefix };
    entries.add("method", format!("{prefix}{}", plan.method_name()));
    match &plan.load {
        Load::Open { schedule, .. } => format!("{}\n{}", entries.text(), chart(schedule.profile())),
        Load::Flood { .. } => entries.text(),
    }
}

/// What ends a load that has no length of its own.
fn until(load: &Load) -> &'static str {
    match load {
        Load::Open {
            stop_when_saturated: true,
            ..
        } => "until the target is saturated",
        Load::Open { .. } => "until stopped",
        Load::Flood { .. } => "as long as the answers take",
    }
}

/// The load in one line.
pub fn describe_load(load: &Load) -> String {
    match load {
        Load::Open { schedule, .. } => {
            let arrivals = match schedule.arrivals() {
                Arrivals::Even => String::new(),
                arrivals => format!(" with {arrivals} arrivals"),
            };
            format!("{}{arrivals}, open loop", schedule.profile())
        }
        Load::Flood { concurrency, count } => {
            format!(
                "flood of {} with {concurrency} in flight, closed loop",
                grouped(*count)
            )
        }
    }
}

/// The target in one line.
pub fn describe_target(plan: &Plan) -> String {
    match &plan.nodes {
        Nodes::BuiltIn {
            transport, node, ..
        } => format!(
            "the built-in {} (a fast fixture, not a consensus engine) over {}, {}",
            node.kind.title(),
            match plan.target.facts().interface {
                Some(interface) => interface.into(),
                None => transport.to_string(),
            },
            connections(plan)
        ),
        Nodes::Endpoints(endpoints) => {
            let names: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
            format!("{}, {} each", names.join(", "), connections(plan))
        }
    }
}

/// How many connections there are, or will be once the round trip is known.
fn connections(plan: &Plan) -> String {
    if plan.connections == plan.most_connections {
        format!("{} connections", plan.connections)
    } else {
        format!(
            "{} to {} connections, as the rate and the round trip need",
            plan.connections, plan.most_connections
        )
    }
}

/// Columns are equal spans of time, each with the mean rate of its span; a profile without an end is
/// drawn over its first [`OPEN_STEPS`] steps.
fn chart(profile: &Profile) -> String {
    let shown = profile.duration().unwrap_or_else(|| {
        let last = profile.iter_steps().take(OPEN_STEPS).last();
        last.and_then(|step| step.end)
            .unwrap_or(Nanos::from_secs(60))
    });
    let bound = |column: u128| {
        let nanos = u128::from(shown.as_nanos()) * column / COLUMNS;
        Nanos::from_nanos(nanos as u64)
    };
    let rates = (0..COLUMNS).map(|column| {
        let (from, to) = (bound(column), bound(column + 1));
        let seconds = to.saturating_sub(from).as_secs_f64();
        let count = profile.integral(to).as_f64() - profile.integral(from).as_f64();
        if seconds > 0.0 { count / seconds } else { 0.0 }
    });
    let open = match profile.duration() {
        Some(_) => "",
        None => " …",
    };
    let rate = |rate: f64| format!("{rate:.0}/s");
    columns(
        &rates.collect::<Vec<_>>(),
        rate,
        "0s",
        &format!("{shown}{open}"),
    )
}

const COLUMNS: u128 = 60;
/// A ramp without an end is drawn this far.
const OPEN_STEPS: usize = 15;

/// Verdict, conservation, rates, latencies, steps, and what limited the run.
pub fn table(
    summary: &Summary,
    thresholds: &[ThresholdVerdict],
    stopped_by: Option<&ThresholdVerdict>,
) -> String {
    let mut head = Entries::default();
    for (line, name) in report::answer(summary).iter().zip(["answer", ""]) {
        if !line.is_empty() {
            head.add(name, line.replace("**", ""));
        }
    }
    verdict(&mut head, summary);
    conservation(&mut head, summary);
    rates(&mut head, summary);
    machine(&mut head, summary);
    let mut text = head.text() + &latencies(summary).text() + &unfinished(summary);
    if let Some(resolution) = summary.blocks.resolution() {
        text += &format!("  {resolution}\n");
    }
    if summary.steps.len() > 1 {
        text += &steps(summary);
    }
    let mut foot = Entries::default();
    ending(&mut foot, summary);
    text += &foot.text();
    text += &conditions(thresholds).text();
    let mut foot = Entries::default();
    if let Some(verdict) = stopped_by {
        let value = verdict.value_text();
        let text = format!("{}, which was {value} by then", verdict.text);
        foot.add("stopped by", text);
    }
    text + &foot.text()
}

/// What held and what did not.
fn conditions(thresholds: &[ThresholdVerdict]) -> Table {
    Table::of(thresholds)
        .text("", |_| "threshold")
        .text("", |verdict| &*verdict.text)
        .text("", |verdict| match (verdict.held, verdict.unresolved) {
            (true, _) => "held",
            (_, true) => "cannot tell",
            _ => "BROKEN",
        })
        .text("", |verdict| verdict.value_text())
        .table()
        .at_least(&[11, 0, 6])
}

fn verdict(entries: &mut Entries, summary: &Summary) {
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
    entries.add("verdict", format!("{name} ({model}{interrupted})"));
    for reason in &summary.verdict.reasons {
        entries.add("", reason);
    }
    if report::is_disturbed(summary) {
        entries.add("", report::BUSY_MACHINE);
    }
}

/// How busy the machine was, and whether a node was on it.
fn machine(entries: &mut Entries, summary: &Summary) {
    let Some(machine) = &summary.machine else {
        return;
    };
    let shared = if machine.has_node {
        "; a node is on it"
    } else {
        ""
    };
    entries.add("machine", report::machine_text(machine) + shared);
}

fn conservation(entries: &mut Entries, summary: &Summary) {
    let (offered, fate) = (&summary.offered, &summary.fate);
    let planned = [(offered.sent, "sent"), (offered.unsent, "unsent")];
    let planned = sum(offered.planned, &planned) + &in_brackets(&offered.unsent_by_reason);
    entries.add("planned", planned);
    let sent = [
        (fate.accepted, "accepted"),
        (fate.rejected, "rejected"),
        (fate.errors, "errors"),
        (fate.unanswered, "unanswered"),
    ];
    let rejected = if fate.rejected_by_text.is_empty() {
        in_brackets(&titled(&fate.rejected_by_code))
    } else {
        String::new()
    };
    let errors = in_brackets(&fate.errors_by_kind);
    entries.add("sent", sum(fate.sent, &sent) + &rejected + &errors);
    for (text, count) in &fate.rejected_by_text {
        entries.add("  rejected", format!("{} × {text}", grouped(*count)));
    }
    for (text, count) in &fate.unusable_by_text {
        entries.add("  no answer", format!("{} × {text}", grouped(*count)));
    }
    for (cause, count) in &fate.sequence_gaps {
        entries.add(
            "  sequence broken",
            format!("{} × {cause}", grouped(*count)),
        );
    }
    let mut accepted = vec![
        (fate.committed, "committed"),
        (fate.commit_failed, "commit failed"),
        (fate.pending, "pending"),
    ];
    if fate.unverified > 0 {
        accepted.push((fate.unverified, "in a block without results"));
    }
    entries.add("accepted", sum(fate.accepted, &accepted));
    for (code, count) in titled(&fate.commit_failed_by_code) {
        entries.add("  commit failed", format!("{} × {code}", grouped(count)));
    }
    let anyway = fate.committed_anyway.total();
    if anyway > 0 {
        let anyway = grouped(anyway);
        entries.add(
            "",
            format!("{anyway} more are in blocks although no answer said so"),
        );
    }
}

/// `12 = 10 sent + 2 unsent`
fn sum(whole: u64, parts: &[(u64, &str)]) -> String {
    let parts = parts
        .iter()
        .map(|(count, name)| format!("{} {name}", grouped(*count)));
    format!(
        "{} = {}",
        grouped(whole),
        parts.collect::<Vec<_>>().join(" + ")
    )
}

/// The non-zero entries, in brackets.
fn in_brackets(counts: &std::collections::BTreeMap<String, u64>) -> String {
    match by_name(counts) {
        names if names.is_empty() => names,
        names => format!(" ({names})"),
    }
}

fn rates(entries: &mut Entries, summary: &Summary) {
    let rate = &summary.rate;
    let [planned, sent] =
        [rate.planned_tps, rate.sent_tps].map(|rate| or_dash(rate, |rate| format!("{rate:.2}/s")));
    entries.add("rate", format!("planned {planned}, sent {sent}"));
    let spread = |stats: Option<RateStats>| match stats {
        Some(stats) => format!(
            "{:.1}/s mean, {:.1} median, {:.1} stddev, {:.0} max",
            stats.mean, stats.median, stats.stddev, stats.max
        ),
        None => "-".into(),
    };
    entries.add("  accepted", spread(rate.accepted_tps));
    entries.add("  committed", spread(rate.committed_tps));
}

fn latencies(summary: &Summary) -> Table {
    let latency = &summary.latency_ms;
    Table::of([
        ("lateness, due to sent", &latency.lateness),
        ("  accept, response", &latency.accept_response),
        ("  accept, service", &latency.accept_service),
        ("  commit from due", &latency.commit_from_due),
        ("       from sent", &latency.commit_from_sent),
        ("       from accepted", &latency.commit_from_accepted),
    ])
    .text("latency (ms)", |row| row.0)
    .number("p50", millis, |row| row.1.figure("p50"))
    .number("p95", millis, |row| row.1.figure("p95"))
    .number("p99", millis, |row| row.1.figure("p99"))
    .number("max", millis, |row| row.1.figure("max"))
    .number("mean", millis, |row| row.1.figure("mean"))
    .count("count", |row| row.1.count)
    .table()
    .at_least(&[21, 8, 8, 8, 8, 8, 7])
}

/// Why figures are lower bounds, where some are.
fn unfinished(summary: &Summary) -> String {
    let kinds = LatencyKind::ALL.into_iter();
    let censored = kinds.map(|kind| summary.latency_ms.of(kind).censored);
    let lower = match censored.max().unwrap_or(0) {
        0 => String::new(),
        count => format!("  >= is a lower bound: {} had not ended\n", grouped(count)),
    };
    let never = summary.fate.rejected + summary.fate.commit_failed;
    match never {
        0 => lower,
        count => format!(
            "{lower}  {} more were refused or failed: their latency has no end\n",
            grouped(count)
        ),
    }
}

fn millis(value: f64) -> String {
    by_size(value, &[(10.0, 3), (1_000.0, 1)])
}

fn steps(summary: &Summary) -> String {
    let steps: &[StepRow] = &summary.steps;
    let excesses = judge::excesses(steps, summary.step_terms());
    let skipped = steps.len().saturating_sub(MAX_STEPS_SHOWN);
    let rows = steps.iter().zip(&excesses).skip(skipped);
    let figure = |name| move |(step, _): &(&StepRow, _)| step.figure(name);
    let table = Table::of(rows)
        .text("step", |(step, _)| step.name())
        .number("rate/s", tenths, |(step, _)| step.rate_tps)
        .number("sent/s", tenths, |(step, _)| step.sent_tps)
        .number("accepted/s", tenths, |(step, _)| step.accepted_tps)
        .number("commit/s", tenths, |(step, _)| step.committed_tps)
        .number("accept p99", millis, figure("accept_p99_ms"))
        .number("commit p95", millis, figure("commit_p95_ms"))
        .text("", |(step, excess)| match (judge::unjudged(step), excess) {
            (Some(why), _) => why,
            (None, Some(excess)) => excess.label(),
            (None, None) => "",
        });
    let table = table.table().text();
    match skipped {
        0 => table,
        _ => format!("{skipped} earlier steps are in steps.csv\n{table}"),
    }
}

fn ending(entries: &mut Entries, summary: &Summary) {
    let blocks = &summary.blocks;
    let rate = match blocks.per_s {
        Some(stats) => format!(", {:.2}/s", stats.mean),
        None => String::new(),
    };
    let [count, own, foreign] = [blocks.count, blocks.own_txs, blocks.foreign_txs].map(grouped);
    let text = format!("{count}{rate}, with {own} of our transactions and {foreign} others");
    entries.add("blocks", text);
    let reconnects = &summary.reconnects;
    if reconnects.planned + reconnects.broken + reconnects.not_back > 0 {
        let not_back = match reconnects.not_back {
            0 => String::new(),
            count => format!(", {count} broken and not back by the end"),
        };
        let text = format!(
            "{} planned, {} broken{not_back}; {:.1} ms down at most, {:.1} ms in all",
            reconnects.planned, reconnects.broken, reconnects.down_ms_max, reconnects.down_ms_total
        );
        entries.add("reconnects", text);
    }
    if summary.steps.len() > 1 {
        let knee = match &summary.knee {
            Some(knee) => match knee.below_tps {
                Some(below) => format!("between {:.0} and {below:.0}/s", knee.rate_tps),
                None => format!("{:.0}/s", knee.rate_tps),
            },
            None => "not found".into(),
        };
        entries.add("knee", format!("{knee}: {}", summary.knee_reason));
    }
    entries.add("limited by", report::limit_text(summary.limited_by));
    for evidence in summary.evidence.iter().take(MAX_EVIDENCE_SHOWN) {
        let strength = match evidence.strength {
            Strength::Decisive => "! ",
            Strength::Strong => "- ",
            Strength::Remark => "  ",
        };
        entries.add(
            "",
            format!("{strength}{}", report::evidence_text(summary, evidence)),
        );
    }
}

/// The rest is in summary.json.
const MAX_EVIDENCE_SHOWN: usize = 6;
/// A ramp of hours has more steps than a screen has lines.
const MAX_STEPS_SHOWN: usize = 30;
