//! The one place that judges a mesh run: whether the load was offered as planned, and what gave first.
//!
//! Evidence comes before conclusions: each piece is something that was seen, and when it began. A cause is
//! something that was at its limit when, or shortly before, the first symptom began. `report` has the sentences.

use std::collections::BTreeMap;

use harness::BitRate;
use measure::limits::{SUSTAINED_SHARE, UNSENT_SHARE_INVALID};
use measure::{Evidence, EvidenceKind, LimitedBy, MeshEvidence, ScheduleVerdict, Strength};
use serde::Serialize;

use super::account::{Account, GENERATOR, NodeSecond};
use super::crew::MachineSecond;
use crate::settings::{CpuShare, PerNode};

/// What the judge needs beside the account.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds<'a> {
    /// The rates that the nodes write at most.
    pub(crate) node_rate: &'a [PerNode<BitRate>],
    /// The share of a CPU that they have.
    pub(crate) node_cpu: &'a [PerNode<CpuShare>],
    /// What they write together at most.
    pub(crate) switch: Option<BitRate>,
    /// Entries per transaction: EPS that a transaction per second makes at every node.
    pub(crate) entries: f64,
    /// The user stopped the run: what was not offered by then has no meaning.
    pub(crate) interrupted: bool,
}

/// What gave first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct GaveFirst {
    /// The second in which the first symptom began.
    pub(crate) since_s: u64,
    /// The step of the profile, from 0.
    pub(crate) step: u32,
    /// The first symptom.
    pub(crate) symptom: Evidence,
    /// What was at its limit then; `None` when nothing was that is measured.
    pub(crate) cause: Option<Evidence>,
}

impl GaveFirst {
    /// Whether the generator failed by itself.
    pub(crate) fn is_generator(&self) -> bool {
        let cause = self.cause.as_ref().map(|it| &it.kind);
        matches!(
            cause,
            Some(EvidenceKind::Mesh(MeshEvidence::OfferShort { .. }))
        )
    }

    /// Whether other programs had the CPUs that the mesh lacked.
    pub(crate) fn is_disturbed(&self) -> bool {
        let cause = self.cause.as_ref();
        cause.is_some_and(|it| it.points_to == LimitedBy::Unknown)
    }
}

/// Everything that the judge concludes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Judgement {
    /// How well the load was offered. Degraded: not in time, but only after something of the mesh had given, so later
    /// steps are no evidence for higher rates. Invalid: the run is no evidence about the mesh.
    pub(crate) schedule: ScheduleVerdict,
    pub(crate) gave_first: Option<GaveFirst>,
    /// In the order of time.
    pub(crate) evidence: Vec<Evidence>,
    /// What was still under way at the end; `None` when all had arrived.
    pub(crate) undrained: Option<String>,
}

/// Judges a run.
pub(crate) fn judge(account: &Account, bounds: &Bounds<'_>) -> Judgement {
    let nodes = account.offered_rows();
    let generator = nodes.iter().find(|rows| rows[0].node == GENERATOR);
    let generator = generator.map_or(&[][..], Vec::as_slice);
    let in_all = (!bounds.interrupted).then(|| shortfall_in_all(generator, account));
    let shortfall = shortfall(generator).or(in_all.flatten());
    let drops = drops(&nodes);
    let offered = generator
        .iter()
        .map(|row| (row.second, row.counters.offered));
    let offered: BTreeMap<u64, u64> = offered.collect();
    let missing = missing_entries(&nodes, &offered, bounds.entries);
    let outages = outages(&nodes, &offered, bounds.entries, account);
    let mut symptoms: Vec<&Evidence> = [&missing, &drops, &shortfall]
        .into_iter()
        .flatten()
        .collect();
    symptoms.sort_by_key(|it| since_s(it));
    let first = symptoms.first().copied();
    let causes = [
        ended(account),
        at_limit(&nodes, |row| rate_reached(row, bounds.node_rate)),
        switch_full(&nodes, bounds.switch),
        at_limit(&nodes, |row| cpu_full(row, bounds.node_cpu)),
        machine_full(account, first.map_or(0, since_s)),
    ];
    let gave_first = first.map(|symptom| {
        let since = since_s(symptom);
        // What explains most comes first.
        let all = causes.iter().chain([&shortfall, &drops]).flatten();
        let mut early = all.filter(|it| since_s(it) <= since + REACH_S);
        let mut steps = account.steps.iter().rev();
        GaveFirst {
            since_s: since,
            step: steps
                .find(|it| it.step.start.as_secs() <= since)
                .map_or(0, |it| it.step.index),
            symptom: symptom.clone(),
            cause: early.next().cloned(),
        }
    });
    let schedule = match (&shortfall, &gave_first) {
        (None, _) => ScheduleVerdict::Valid,
        (Some(_), Some(first)) if !first.is_generator() => ScheduleVerdict::Degraded,
        (Some(_), _) => ScheduleVerdict::Invalid,
    };
    let mut evidence: Vec<Evidence> = symptoms
        .into_iter()
        .chain(causes.iter().flatten())
        .chain(&outages)
        .cloned()
        .collect();
    evidence.sort_by_key(since_s);
    Judgement {
        schedule,
        gave_first,
        evidence,
        undrained: None,
    }
}

fn since_s(evidence: &Evidence) -> u64 {
    evidence.from_s.unwrap_or_default().max(0.0) as u64
}

/// Evidence from a second on.
fn evidence(found: MeshEvidence, points_to: LimitedBy, txs: u64, from_s: f64) -> Evidence {
    Evidence {
        kind: EvidenceKind::Mesh(found),
        points_to,
        strength: Strength::Strong,
        txs,
        from_s: Some(from_s),
        until_s: None,
    }
}

/// What is found in the first of two rows in a row in which something is found: a single second may be anything.
fn onset<'a, R, T>(
    rows: impl IntoIterator<Item = &'a R>,
    mut find: impl FnMut(&R) -> Option<T>,
) -> Option<T>
where
    R: 'a,
{
    let mut first = None;
    for row in rows {
        let found = find(row);
        if found.is_some() && first.is_some() {
            return first;
        }
        first = found;
    }
    None
}

/// The earliest onset in the rows of any node.
fn at_limit(
    nodes: &[Vec<&NodeSecond>],
    find: impl Fn(&NodeSecond) -> Option<Evidence>,
) -> Option<Evidence> {
    let onsets = nodes
        .iter()
        .filter_map(|rows| onset(rows.iter().copied(), &find));
    onsets.min_by_key(since_s)
}

/// A node saw fewer entries than were offered, with so many entries in a transaction.
fn missing_entries(
    nodes: &[Vec<&NodeSecond>],
    offered: &BTreeMap<u64, u64>,
    entries: f64,
) -> Option<Evidence> {
    at_limit(nodes, |row| {
        let offered = offered.get(&row.second).copied().unwrap_or_default();
        let (due, seen) = (offered as f64 * entries, row.counters.entries);
        let found = MeshEvidence::EntriesMissing {
            node: row.node,
            seen,
            offered,
        };
        let txs = offered.saturating_sub(seen);
        ((seen as f64) < SUSTAINED_SHARE * due - SLACK)
            .then(|| evidence(found, LimitedBy::Node, txs, row.second as f64))
    })
}

/// Stretches of whole seconds in which a node saw nothing new while entries were offered, and their ends. A second
/// without a row is one of those: a node that stands still reports none.
fn outages(
    nodes: &[Vec<&NodeSecond>],
    offered: &BTreeMap<u64, u64>,
    entries: f64,
    account: &Account,
) -> Vec<Evidence> {
    let mut found = Vec::new();
    let last = offered.iter().rfind(|(_, offered)| **offered > 0);
    let last = last.map_or(0, |(second, _)| second + 1);
    for rows in nodes {
        let node = rows[0].node;
        let ended_s = account.nodes[usize::from(node)].ended_s;
        let end = ended_s.map_or(last, |ended_s| last.min(ended_s as u64));
        let seen: BTreeMap<u64, u64> = rows
            .iter()
            .map(|row| (row.second, row.counters.entries))
            .collect();
        let (mut since, mut lacking) = (None, 0);
        for second in 0..=end {
            let is_over = second == end;
            if !is_over && seen.get(&second).is_none_or(|seen| *seen == 0) {
                let offered = offered.get(&second).copied().unwrap_or_default();
                if offered > 0 {
                    since.get_or_insert(second);
                }
                lacking += offered;
                continue;
            }
            let Some(from) = since.take() else { continue };
            let lacking = std::mem::take(&mut lacking);
            if second - from >= OUTAGE_S && lacking as f64 * entries >= OUTAGE_ENTRIES {
                let outage = MeshEvidence::Outage { node };
                found.push(Evidence {
                    until_s: (!is_over).then_some(second as f64),
                    ..evidence(outage, LimitedBy::Node, lacking, from as f64)
                });
            }
        }
    }
    found.sort_by_key(since_s);
    found.truncate(MOST_OUTAGES);
    found
}

fn drops(nodes: &[Vec<&NodeSecond>]) -> Option<Evidence> {
    let rows = nodes.iter().flatten();
    let dropped = rows.filter(|row| row.counters.dropped_full > 0);
    dropped.min_by_key(|row| row.second).map(|row| {
        let found = MeshEvidence::QueueFull { node: row.node };
        let txs = row.counters.dropped_full;
        evidence(found, LimitedBy::Node, txs, row.second as f64)
    })
}

/// The generator offered less than was due, or late.
fn shortfall(generator: &[&NodeSecond]) -> Option<Evidence> {
    let (mut due, mut offered) = (0, 0);
    onset(generator.iter().copied(), |row| {
        due += row.planned;
        offered += row.counters.offered;
        let behind = due.saturating_sub(offered) as f64;
        let late_ms = row.lateness.p99_ms.unwrap_or_default();
        let found = MeshEvidence::OfferShort {
            offered: row.counters.offered,
            planned: row.planned,
            late_ms: Some(late_ms),
        };
        let is_short = behind > row.planned as f64 * UNSENT_SHARE_INVALID + SLACK;
        (late_ms > LATE_MS || is_short).then(|| {
            let txs = due.saturating_sub(offered);
            evidence(found, LimitedBy::Schedule, txs, row.second as f64)
        })
    })
}

/// The same over the whole load: a generator without a CPU reports no second in time, and a load may be shorter
/// than the seconds in a row that are looked for.
fn shortfall_in_all(generator: &[&NodeSecond], account: &Account) -> Option<Evidence> {
    let planned = account.planned();
    let offered: u64 = generator.iter().map(|row| row.counters.offered).sum();
    let is_short = (offered as f64) < SUSTAINED_SHARE * planned as f64 - SLACK;
    is_short.then(|| {
        let found = MeshEvidence::OfferShort {
            offered,
            planned,
            late_ms: None,
        };
        evidence(found, LimitedBy::Schedule, planned - offered, 0.0)
    })
}

fn ended(account: &Account) -> Option<Evidence> {
    let ends = (0..).zip(&account.nodes);
    let ends = ends.filter_map(|(node, it)| Some((it.ended_s?, node)));
    let (at_s, node) = ends.min_by(|one, other| one.0.total_cmp(&other.0))?;
    let found = MeshEvidence::NodeEnded { node };
    Some(evidence(found, LimitedBy::Node, 0, at_s))
}

fn rate_reached(row: &NodeSecond, rates: &[PerNode<BitRate>]) -> Option<Evidence> {
    let limit = PerNode::of(rates, row.node)?.bits_per_second() / 8.0;
    let bytes = row.counters.bytes_out as f64;
    let found = MeshEvidence::RateReached {
        node: row.node,
        bytes_per_s: bytes,
        limit_bytes_per_s: limit,
    };
    (bytes >= limit * FULL_LINK).then(|| evidence(found, LimitedBy::Node, 0, row.second as f64))
}

/// All nodes together wrote what the switch carries.
fn switch_full(nodes: &[Vec<&NodeSecond>], switch: Option<BitRate>) -> Option<Evidence> {
    let limit = switch?.bits_per_second() / 8.0;
    let mut written: BTreeMap<u64, u64> = BTreeMap::new();
    for row in nodes.iter().flatten() {
        *written.entry(row.second).or_default() += row.counters.bytes_out;
    }
    let written: Vec<(u64, u64)> = written.into_iter().collect();
    onset(&written, |(second, bytes)| {
        let found = MeshEvidence::SwitchFull {
            bytes_per_s: *bytes as f64,
            limit_bytes_per_s: limit,
        };
        let is_full = *bytes as f64 >= limit * FULL_LINK;
        is_full.then(|| evidence(found, LimitedBy::Node, 0, *second as f64))
    })
}

fn cpu_full(row: &NodeSecond, shares: &[PerNode<CpuShare>]) -> Option<Evidence> {
    let cpus = row.counters.cpu_ns as f64 / 1e9;
    let node = row.node;
    let limit_cpus = PerNode::of(shares, node).map_or(1.0, |share| share.0);
    let found = MeshEvidence::CpuFull {
        node,
        cpus,
        limit_cpus,
    };
    let full = if limit_cpus < 1.0 {
        FULL_SHARE
    } else {
        FULL_CPU
    };
    (cpus >= limit_cpus * full).then(|| evidence(found, LimitedBy::Node, 0, row.second as f64))
}

/// The machine had no CPU to spare. When programs that are not of the mesh had a part of its CPUs as the first
/// symptom began, that is no evidence of what the mesh can do.
fn machine_full(account: &Account, first: u64) -> Option<Evidence> {
    let offered_s = account.duration.as_secs();
    let during = || account.machine.iter().filter(|it| it.second < offered_s);
    let is_full = |it: &MachineSecond| it.busy + it.stolen >= it.cpus * FULL_MACHINE;
    let since = onset(during(), |it| is_full(it).then_some(it.second))?;
    let at = first.max(since);
    let machine = during().find(|it| it.second == at)?;
    // As many as an onset takes.
    let seconds = at..at + 2;
    let a_second = |sum: f64| sum / 2.0;
    let rows = account.seconds.iter();
    let rows = rows.filter(|it| seconds.contains(&it.second));
    let (waited, used) = rows.fold((0, 0), |(waited, used), row| {
        (waited + row.counters.wait_ns, used + row.counters.cpu_ns)
    });
    let busy: f64 = during()
        .filter(|it| seconds.contains(&it.second))
        .map(|it| it.busy)
        .sum();
    let others = a_second(busy - used as f64 / 1e9);
    let others = Some(others).filter(|others| *others >= machine.cpus * FOREIGN);
    let found = MeshEvidence::MachineFull {
        cpus: machine.cpus,
        busy: machine.busy,
        others,
        stolen: machine.stolen,
        waited_s: a_second(waited as f64 / 1e9),
    };
    let points_to = if others.is_some() {
        LimitedBy::Unknown
    } else {
        LimitedBy::Node
    };
    Some(evidence(found, points_to, 0, since as f64))
}

/// Counts that mean nothing at low rates.
const SLACK: f64 = 2.0;
/// A single second may be anything.
const OUTAGE_S: u64 = 2;
/// So many are not all late by chance.
const OUTAGE_ENTRIES: f64 = 10.0;
/// The earliest; a page of evidence is not longer.
const MOST_OUTAGES: usize = 50;
/// Later than this is a burst of its own.
const LATE_MS: f64 = 100.0;
const FULL_CPU: f64 = 0.95;
/// What a stop takes longer is no time of the node's.
const FULL_SHARE: f64 = 0.85;
const FULL_MACHINE: f64 = 0.95;
/// Share of a full machine's CPUs with other programs, from which on the mesh is not what filled it. With nothing else
/// running the kernel's own work came to 0.01 to 0.10 of two CPUs.
const FOREIGN: f64 = 0.10;
/// Timers of a millisecond leave a little of the rate unused.
const FULL_LINK: f64 = 0.90;
/// What is at its limit up to so many seconds after the first symptom may be its cause: rows are whole
/// seconds, and an onset is that of two in a row.
const REACH_S: u64 = 1;

#[cfg(test)]
mod tests;
