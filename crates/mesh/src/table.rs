//! What a mesh run comes to, as tables for a terminal and for its report.

use measure::ScheduleVerdict;
use report::text::{count, grouped, millis, number, or_dash, percent, percent_tenths, rate};
use report::{Entries, Table, mesh_evidence_text, mesh_gave_first, mesh_limit_text};

use super::judge::GaveFirst;
use super::summary::{MeshSummary, NodeSummary, StepOutcome, StepSummary};

/// The result of a run on a terminal.
pub(crate) fn text(summary: &MeshSummary) -> String {
    let answer = headline(summary).replace("**", "");
    let (variant, number_of) = (&summary.variant, summary.nodes.len());
    let mut text = format!("\n{variant} on {number_of} nodes: {answer}\n");
    if let Some(first) = &summary.verdict.gave_first {
        text += &format!("What gave first: {}.\n", gave_first(first));
    }
    for outage in summary.outages().take(OUTAGES_SHOWN) {
        let from_s = outage.from_s.unwrap_or_default();
        text += &format!(
            "Outage from {from_s:.0} s on: {}.\n",
            mesh_evidence_text(outage)
        );
    }
    if summary.steps.len() > 1 {
        text += &format!("\n{}", steps(&summary.steps).text());
    }
    text += &format!(
        "\n{}\n{}",
        nodes(&summary.nodes).text(),
        entries(summary).text()
    );
    text
}

/// The result in one line: what came back, what gave first, and how far to trust it.
pub(crate) fn headline(summary: &MeshSummary) -> String {
    let (invalid, late) = match summary.verdict.schedule {
        _ if summary.is_disturbed() => (
            "**invalid**, as other programs had CPUs that the mesh lacked; ",
            "",
        ),
        ScheduleVerdict::Valid => ("", ""),
        ScheduleVerdict::Degraded => ("", "; the generator fell behind after the mesh had"),
        ScheduleVerdict::Invalid => (
            "**invalid**, as the generator did not offer as planned; ",
            "",
        ),
    };
    let gave = match &summary.verdict.gave_first {
        Some(first) => mesh_gave_first(first.cause.as_ref()),
        None => "**nothing** gave: all that was offered came back".to_owned(),
    };
    format!("{invalid}{}; {gave}{late}.", carried(summary))
}

/// What gave first, when, and how that showed.
pub(crate) fn gave_first(first: &GaveFirst) -> String {
    format!(
        "{} (second {}, step {}: {})",
        mesh_limit_text(first.cause.as_ref()),
        first.since_s,
        first.step + 1,
        mesh_evidence_text(&first.symptom)
    )
}

/// Of one rate what came back; of several the highest that was sustained.
fn carried(summary: &MeshSummary) -> String {
    let figures = &summary.figures;
    if summary.steps.len() < 2 {
        return format!(
            "**{}** came back of {} offered",
            rate(figures.eps_host),
            rate(figures.offered_per_s),
        );
    }
    match summary.last_sustained() {
        None => "**no step was sustained**".to_owned(),
        Some(step) => format!(
            "**sustained up to {}** (step {} of {})",
            rate(step.rate),
            step.step + 1,
            summary.steps.len(),
        ),
    }
}

/// One row a step.
pub(crate) fn steps(steps: &[StepSummary]) -> Table {
    Table::of(steps)
        .figure("step", |it| (it.step + 1).to_string())
        .number("rate", rate, |it| it.rate)
        .number("offered", rate, |it| {
            it.offered as f64 / (it.to_s - it.from_s)
        })
        .rest()
        .number("EPS host", count, |it| it.eps_host)
        .number("EPS least", count, |it| it.eps_least())
        .number("EPS sum", count, |it| it.eps_sum)
        .rest()
        .number("came back", percent, |it| it.came_back)
        .number("uprate, Mbit/s", number, |it| {
            it.uprate_bytes_per_s * 8.0 / 1e6
        })
        .rest()
        .number("parcels/s", rate, |it| it.parcels_per_s)
        .rest_of_page()
        .number("MB/s", number, |it| it.bytes_per_s / 1e6)
        .rest_of_page()
        .number("duplicates", percent, |it| it.duplicate_share)
        .rest_of_page()
        .count("dropped", |it| it.dropped)
        .alarm(|it| it.dropped > 0)
        .number("p50", millis, |it| it.latency_p50_ms)
        .rest_of_page()
        .number("p99", millis, |it| it.latency_p99_ms)
        .number("lateness p99", millis, |it| it.lateness_p99_ms)
        .rest_of_page()
        .number("CPUs", number, |it| it.cpus)
        .rest()
        .text("", |it| outcome(it.outcome))
        .alarm(|it| it.outcome != StepOutcome::KeptUp)
        .table()
}

const fn outcome(outcome: StepOutcome) -> &'static str {
    match outcome {
        StepOutcome::KeptUp => "kept up",
        StepOutcome::GaveHere => "gave here",
        StepOutcome::NotOffered => "not offered as planned",
        StepOutcome::Disturbed => "disturbed by other programs",
        StepOutcome::AfterItGave => "after it gave",
        StepOutcome::KeptUpAgain => "kept up again",
    }
}

/// One row a node.
pub(crate) fn nodes(nodes: &[NodeSummary]) -> Table {
    Table::of(nodes)
        .figure("node", |it| it.node.to_string())
        .number("EPS", count, |it| it.eps)
        .count("parcels out", |it| it.total.parcels_out)
        .rest()
        .count("in", |it| it.total.parcels_in)
        .rest()
        .count("writes", |it| it.total.writes)
        .rest_of_page()
        .number("MB in", number, |it| it.total.bytes_in as f64 / 1e6)
        .rest_of_page()
        .count("first seen", |it| it.total.first_seen)
        .count("again", |it| it.total.duplicates)
        .count("dropped", |it| {
            it.total.dropped_full + it.total.dropped_link
        })
        .alarm(|it| it.total.dropped_full + it.total.dropped_link > 0)
        .number("p99", millis, |it| it.latency_ms.p99)
        .number("CPU s", number, |it| it.total.cpu_ns as f64 / 1e9)
        .rest()
        .text("", |it| match it.ended_s {
            Some(at_s) => format!("ended at {at_s:.1} s"),
            None => String::new(),
        })
        .alarm(|it| it.ended_s.is_some())
        .table()
}

/// Figures of the whole run.
pub(crate) fn entries(summary: &MeshSummary) -> Entries {
    let (figures, offered) = (&summary.figures, &summary.offered);
    let mut entries = Entries::default();
    entries.add(
        "offered",
        format!(
            "{} of {} planned",
            grouped(offered.offered),
            grouped(offered.planned)
        ),
    );
    entries.add("lateness p99", or_dash(summary.lateness_ms.p99, millis));
    entries.add(
        "latency",
        format!(
            "p50 {}, p99 {} from due to first sight",
            or_dash(summary.latency_ms.p50, millis),
            or_dash(summary.latency_ms.p99, millis)
        ),
    );
    entries.add(
        "parcels",
        format!(
            "{} per message, {} B each ({} B overhead), {} per write call",
            or_dash(figures.parcels_per_message, number),
            or_dash(figures.bytes_per_parcel, number),
            or_dash(figures.overhead_per_parcel, number),
            or_dash(figures.parcels_per_write, number),
        ),
    );
    entries.add(
        "duplicates",
        or_dash(figures.duplicate_share, percent_tenths),
    );
    entries.add(
        "CPU",
        format!(
            "{} CPUs, {} per 1,000 parcels; encode {} ns, decode {} ns a parcel",
            number(figures.cpus),
            or_dash(figures.cpu_ms_per_1000_parcels, millis),
            or_dash(figures.encode_ns, number),
            or_dash(figures.decode_ns, number),
        ),
    );
    entries.add("reach", reach(summary));
    entries.add("account", account(summary));
    entries
}

fn reach(summary: &MeshSummary) -> String {
    let reach = &summary.reach;
    format!(
        "{} of {} followed messages were seen by all nodes, the last one after p50 {}, p99 {}",
        grouped(reach.seen_by_all),
        grouped(reach.followed),
        or_dash(reach.last_ms.p50, millis),
        or_dash(reach.last_ms.p99, millis)
    )
}

fn account(summary: &MeshSummary) -> String {
    let laws = &summary.conservation;
    let sums = format!(
        "{} parcels written = {} read + {} lost with broken links; {} of {} first sights",
        grouped(laws.written),
        grouped(laws.read),
        grouped(laws.lost),
        grouped(laws.sights),
        grouped(laws.sights_due)
    );
    let undrained = summary.verdict.undrained.as_ref();
    let undrained = undrained
        .map(|it| format!("; not drained: {it}"))
        .unwrap_or_default();
    match laws.violations.as_slice() {
        [] => sums + &undrained,
        violations => format!(
            "{sums}{undrained}. DOES NOT ADD UP: {}",
            violations.join("; ")
        ),
    }
}

/// The page has all.
const OUTAGES_SHOWN: usize = 3;
