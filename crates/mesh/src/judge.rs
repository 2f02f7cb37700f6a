//! The one place that judges a mesh run: whether the load was offered as planned, and what gave first.
//!
//! Evidence comes before conclusions: each piece is something that was seen, and when it began. A cause is
//! something that was at its limit when, or shortly before, the first symptom began.

use std::collections::BTreeMap;

use harness::BitRate;
use measure::limits::{SUSTAINED_SHARE, UNSENT_SHARE_INVALID};
use serde::Serialize;

use super::account::{Account, GENERATOR, NodeSecond};
use super::machine::MachineSecond;
use crate::settings::PerNode;

/// What the judge needs beside the account.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds<'a> {
    /// The rates that the nodes write at most.
    pub(crate) node_rate: &'a [PerNode<BitRate>],
    /// Entries per transaction: EPS that a transaction per second makes at every node.
    pub(crate) entries: f64,
    /// The user stopped the run: what was not offered by then has no meaning.
    pub(crate) interrupted: bool,
}

/// What can give first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// A node ended.
    NodeEnded,
    /// The load was not offered as planned, with CPU to spare.
    Generator,
    /// A node wrote as much as its rate allows.
    Link,
    /// A node had all the CPU that it may use.
    NodeCpu,
    /// The machine had no CPU to spare, and programs that are not of the mesh had a part of it.
    OtherPrograms,
    /// The machine had no CPU to spare.
    MachineCpu,
    /// A queue was full with everything else to spare.
    Queue,
    /// Nothing that is measured was at its limit.
    Unknown,
}

/// Something that was seen, and when it began.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Finding {
    /// The second since the origin in which it began.
    pub(crate) since_s: u64,
    /// What it can be the cause of; `None` for a symptom.
    pub(crate) cause: Option<Cause>,
    /// What was seen, with its numbers.
    pub(crate) text: String,
}

/// What gave first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct GaveFirst {
    pub(crate) cause: Cause,
    /// The second in which the first symptom began.
    pub(crate) since_s: u64,
    /// The step of the profile, from 0.
    pub(crate) step: u32,
    /// In one sentence.
    pub(crate) sentence: String,
}

/// How well the load was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ScheduleKept {
    /// Everything, in time.
    Valid,
    /// Not everything in time, but only after something of the mesh had given: later steps are
    /// no evidence for higher rates.
    Degraded,
    /// The generator itself failed: the rest of the run is no evidence about the mesh.
    Invalid,
}

/// Everything that the judge concludes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Judgement {
    pub(crate) schedule: ScheduleKept,
    pub(crate) gave_first: Option<GaveFirst>,
    /// In the order of time.
    pub(crate) evidence: Vec<Finding>,
    /// What was still under way at the end; `None` when all had arrived.
    pub(crate) undrained: Option<String>,
}

/// Judges a run.
pub(crate) fn judge(account: &Account, bounds: &Bounds<'_>) -> Judgement {
    let offered_s = account.duration.as_secs();
    let seconds: Vec<&NodeSecond> = account
        .seconds
        .iter()
        .filter(|it| it.second < offered_s)
        .collect();
    let in_all = (!bounds.interrupted).then(|| shortfall_in_all(&seconds, account));
    let shortfall = shortfall(&seconds).or(in_all.flatten());
    let mut symptoms = [
        missing_entries(&seconds, bounds),
        drops(&seconds),
        shortfall.clone(),
    ];
    symptoms.sort_by_key(|finding| finding.as_ref().map_or(u64::MAX, |it| it.since_s));
    let first = symptoms
        .iter()
        .flatten()
        .next()
        .map(|finding| finding.since_s);
    let mut causes: Vec<Finding> = [
        ended(account),
        link(&seconds, bounds),
        node_cpu(&seconds),
        machine_cpu(account, offered_s, first),
    ]
    .into_iter()
    .flatten()
    .collect();
    let is_early = |finding: &&Finding| first.is_some_and(|at| finding.since_s <= at + REACH_S);
    // In the order of `causes`: what explains most comes first.
    let cause = causes.iter().find(is_early).cloned();
    let gave_first = first.map(|since_s| {
        let symptom = symptoms.iter().flatten().next().map(|it| it.text.clone());
        let step = account
            .steps
            .iter()
            .rev()
            .find(|it| it.step.start.as_secs() <= since_s);
        let step = step.map_or(0, |it| it.step.index);
        gave_first(
            cause.as_ref(),
            since_s,
            step,
            &symptom.unwrap_or_default(),
            &symptoms,
        )
    });
    let schedule = match (&shortfall, &gave_first) {
        (None, _) => ScheduleKept::Valid,
        (Some(_), Some(first)) if first.cause != Cause::Generator => ScheduleKept::Degraded,
        (Some(_), _) => ScheduleKept::Invalid,
    };
    causes.extend(symptoms.into_iter().flatten());
    causes.sort_by_key(|finding| finding.since_s);
    Judgement {
        schedule,
        gave_first,
        evidence: causes,
        undrained: None,
    }
}

fn gave_first(
    cause: Option<&Finding>,
    since_s: u64,
    step: u32,
    symptom: &str,
    symptoms: &[Option<Finding>],
) -> GaveFirst {
    let is_of = |wanted: Option<Cause>| {
        let mut early = symptoms
            .iter()
            .flatten()
            .filter(|it| it.since_s <= since_s + REACH_S);
        early.any(|finding| finding.cause == wanted)
    };
    let (cause, why) = match cause {
        Some(finding) => (
            finding.cause.unwrap_or(Cause::Unknown),
            finding.text.as_str(),
        ),
        None if is_of(Some(Cause::Generator)) => (
            Cause::Generator,
            "the generator itself, while no CPU and no link was at its limit",
        ),
        None if is_of(Some(Cause::Queue)) => (
            Cause::Queue,
            "a queue, while no CPU and no link was at its limit: it is short for the bursts, or a peer \
             does not read",
        ),
        None => (
            Cause::Unknown,
            "cannot tell: no CPU, link, queue or generator was at its limit",
        ),
    };
    GaveFirst {
        cause,
        since_s,
        step,
        sentence: format!("{why} (second {since_s}, step {}: {symptom})", step + 1),
    }
}

/// Seconds of one node.
fn of(seconds: &[&NodeSecond], node: u16) -> impl Iterator<Item = NodeSecond> {
    let rows = seconds.iter().filter(move |it| it.node == node);
    rows.map(|row| (*row).clone())
        .collect::<Vec<_>>()
        .into_iter()
}

/// The first second of the first [`IN_A_ROW`] in a row in which something holds.
fn onset(rows: impl Iterator<Item = (u64, bool)>) -> Option<u64> {
    let mut since = None;
    for (second, holds) in rows {
        match (holds, since) {
            (true, None) => since = Some(second),
            (true, Some(first)) if second + 1 >= first + IN_A_ROW => return since,
            (true, Some(_)) => {}
            (false, _) => since = None,
        }
    }
    None
}

fn nodes(seconds: &[&NodeSecond]) -> u16 {
    seconds
        .iter()
        .map(|it| it.node + 1)
        .max()
        .unwrap_or_default()
}

/// A node saw fewer entries than were offered.
fn missing_entries(seconds: &[&NodeSecond], bounds: &Bounds<'_>) -> Option<Finding> {
    let host = of(seconds, GENERATOR).map(|row| (row.second, row.counters.offered));
    let offered: BTreeMap<u64, u64> = host.collect();
    let of_second = |second: u64| offered.get(&second).copied().unwrap_or_default();
    let onsets = (0..nodes(seconds)).filter_map(|node| {
        let rows = of(seconds, node).map(|row| {
            let due = of_second(row.second) as f64 * bounds.entries;
            let seen = row.counters.entries as f64;
            (row.second, seen < SUSTAINED_SHARE * due - SLACK)
        });
        Some((onset(rows)?, node))
    });
    let (since_s, node) = onsets.min()?;
    let row = of(seconds, node).find(|row| row.second == since_s)?;
    let (came, went) = (row.counters.entries, of_second(since_s));
    Some(Finding {
        since_s,
        cause: None,
        text: format!("node {node} saw {came} new entries, of {went} offered in that second"),
    })
}

fn drops(seconds: &[&NodeSecond]) -> Option<Finding> {
    let row = seconds.iter().find(|row| row.counters.dropped_full > 0)?;
    let (node, dropped) = (row.node, row.counters.dropped_full);
    Some(Finding {
        since_s: row.second,
        cause: Some(Cause::Queue),
        text: format!("node {node} dropped {dropped} parcels at full queues"),
    })
}

/// The generator offered less than was due, or late.
fn shortfall(seconds: &[&NodeSecond]) -> Option<Finding> {
    let (mut due, mut offered) = (0, 0);
    let rows = of(seconds, GENERATOR).map(|row| {
        due += row.planned;
        offered += row.counters.offered;
        let behind = due.saturating_sub(offered) as f64;
        let is_late = row.lateness.p99_ms.is_some_and(|late| late > LATE_MS);
        (
            row.second,
            is_late || behind > row.planned as f64 * UNSENT_SHARE_INVALID + SLACK,
        )
    });
    let since_s = onset(rows)?;
    let row = of(seconds, GENERATOR).find(|row| row.second == since_s)?;
    let late = row.lateness.p99_ms.unwrap_or_default();
    Some(Finding {
        since_s,
        cause: Some(Cause::Generator),
        text: format!(
            "the generator offered {} of {} transactions in that second, p99 of the lateness {late:.0} ms",
            row.counters.offered, row.planned
        ),
    })
}

/// The same over the whole load: a generator without a CPU reports no second in time, and a load may be shorter
/// than the seconds in a row that are looked for.
fn shortfall_in_all(seconds: &[&NodeSecond], account: &Account) -> Option<Finding> {
    let planned = account.planned();
    let offered: u64 = of(seconds, GENERATOR).map(|row| row.counters.offered).sum();
    let is_short = (offered as f64) < SUSTAINED_SHARE * planned as f64 - SLACK;
    is_short.then(|| Finding {
        since_s: 0,
        cause: Some(Cause::Generator),
        text: format!(
            "the generator had offered {offered} of {planned} transactions when the load was over"
        ),
    })
}

fn ended(account: &Account) -> Option<Finding> {
    let ends = account.nodes.iter().enumerate();
    let ends = ends.filter_map(|(node, it)| Some((it.ended_s?, node)));
    let (at_s, node) = ends.min_by(|one, other| one.0.total_cmp(&other.0))?;
    Some(Finding {
        since_s: at_s.max(0.0) as u64,
        cause: Some(Cause::NodeEnded),
        text: format!("node {node} ended at {at_s:.1} s"),
    })
}

fn link(seconds: &[&NodeSecond], bounds: &Bounds<'_>) -> Option<Finding> {
    first_node(seconds, |row| {
        let limit = PerNode::of(bounds.node_rate, row.node)?.bits_per_second() / 8.0;
        let bytes = row.counters.bytes_out as f64;
        (bytes >= limit * FULL_LINK).then(|| Finding {
            since_s: row.second,
            cause: Some(Cause::Link),
            text: format!(
                "node {} wrote {:.2} MB/s of the {:.2} MB/s that it may write",
                row.node,
                bytes / 1e6,
                limit / 1e6
            ),
        })
    })
}

fn node_cpu(seconds: &[&NodeSecond]) -> Option<Finding> {
    first_node(seconds, |row| {
        let cpus = row.counters.cpu_ns as f64 / 1e9;
        (cpus >= FULL_CPU).then(|| Finding {
            since_s: row.second,
            cause: Some(Cause::NodeCpu),
            text: format!(
                "the CPU of node {}: {cpus:.2} of the one CPU that it can use",
                row.node
            ),
        })
    })
}

/// The earliest finding of any node that holds [`IN_A_ROW`].
fn first_node(
    seconds: &[&NodeSecond],
    find: impl Fn(&NodeSecond) -> Option<Finding>,
) -> Option<Finding> {
    let onsets = (0..nodes(seconds)).filter_map(|node| {
        let rows = of(seconds, node).map(|row| (row.second, find(&row).is_some()));
        let since = onset(rows)?;
        of(seconds, node)
            .find(|row| row.second == since)
            .and_then(|row| find(&row))
    });
    onsets.min_by_key(|finding| finding.since_s)
}

/// The machine had no CPU to spare. When programs that are not of the mesh had a part of its CPUs as the first
/// symptom began, that is no evidence of what the mesh can do.
fn machine_cpu(account: &Account, offered_s: u64, first: Option<u64>) -> Option<Finding> {
    let during = || account.machine.iter().filter(|it| it.second < offered_s);
    let is_full = |it: &&MachineSecond| it.busy + it.stolen >= it.cpus * FULL_MACHINE;
    let since_s = onset(during().map(|it| (it.second, is_full(&it))))?;
    let at_s = first.unwrap_or_default().max(since_s);
    let found = during().find(|it| it.second == at_s)?;
    let seconds = at_s..at_s + IN_A_ROW;
    let rows = || {
        account
            .seconds
            .iter()
            .filter(|it| seconds.contains(&it.second))
    };
    let waited: u64 = rows().map(|row| row.counters.wait_ns).sum();
    let used: u64 = rows().map(|row| row.counters.cpu_ns).sum();
    let busy: f64 = during()
        .filter(|it| seconds.contains(&it.second))
        .map(|it| it.busy)
        .sum();
    let a_second = |sum: f64| sum / IN_A_ROW as f64;
    let others = a_second(busy - used as f64 / 1e9);
    let is_disturbed = others >= found.cpus * FOREIGN;
    let whose = if is_disturbed {
        format!("{others:.2} of them by programs that are not of the mesh, ")
    } else {
        String::new()
    };
    Some(Finding {
        since_s,
        cause: Some(if is_disturbed {
            Cause::OtherPrograms
        } else {
            Cause::MachineCpu
        }),
        text: format!(
            "the CPUs of the machine: {:.2} of {:.0} busy, {whose}{:.2} stolen by other guests; the nodes \
             together waited {:.2} s for a CPU in a second",
            found.busy,
            found.cpus,
            found.stolen,
            a_second(waited as f64 / 1e9)
        ),
    })
}

/// Counts that mean nothing at low rates.
const SLACK: f64 = 2.0;
/// Later than this is a burst of its own.
const LATE_MS: f64 = 100.0;
const FULL_CPU: f64 = 0.95;
const FULL_MACHINE: f64 = 0.95;
/// Share of a full machine's CPUs with other programs, from which on the mesh is not what filled it. With nothing else
/// running the kernel's own work came to 0.01 to 0.10 of two CPUs.
const FOREIGN: f64 = 0.10;
/// Timers of a millisecond leave a little of the rate unused.
const FULL_LINK: f64 = 0.90;
/// A single second may be anything.
const IN_A_ROW: u64 = 2;
/// What is at its limit up to so many seconds after the first symptom may be its cause: rows are whole
/// seconds, and an onset is that of two in a row.
const REACH_S: u64 = 1;

#[cfg(test)]
mod tests;
