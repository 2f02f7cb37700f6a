//! Which stage of a node was at work most of the time, by its own metrics: the calls of its application that it times.

use std::collections::BTreeMap;

use crate::format::evidence::{Evidence, EvidenceKind, LimitedBy, Stage, StageEvidence, Strength};
use crate::format::rows::NodeRow;
use crate::format::summary::Summary;
use crate::judge::stages::{BUSY_SHARE, ONE};

/// Names the stage that held the load back from the nodes' rows, where the node did: that is measured,
/// and takes the place of what answers and blocks let suppose.
pub fn name_stage(summary: &mut Summary, rows: &[NodeRow]) {
    let offered = rows
        .iter()
        .filter(|row| row.second as f64 + 1.0 <= summary.time.offered_s);
    let mut nodes: BTreeMap<&str, Vec<&NodeRow>> = BTreeMap::new();
    for row in offered.filter(|row| row.checks.is_some()) {
        nodes.entry(&row.node).or_default().push(row);
    }
    let timed = nodes
        .iter()
        .filter_map(|(node, rows)| Shares::of(node, rows));
    let busiest = timed.max_by(|one, other| one.busiest().0.total_cmp(&other.busiest().0));
    let Some(shares) = busiest.filter(|_| summary.limited_by == LimitedBy::Node) else {
        return;
    };
    let supposed = |it: &Evidence| matches!(it.kind, EvidenceKind::SerialStage(_));
    let place = summary.evidence.iter().position(supposed);
    let found = place.map(|at| summary.evidence.remove(at));
    // A stage is at work also because blocks take no more, and shows nothing of what was lost or stood still.
    let is_plainer = |it: &Evidence| it.strength >= Strength::Strong && is_plainer(&it.kind);
    let plainest = summary.evidence.iter().rposition(is_plainer);
    let behind = plainest.map_or(0, |last| last + 1);
    let place = behind.min(place.unwrap_or(behind));
    let txs = summary.evidence.first().map_or(0, |it| it.txs);
    let (share, busiest) = shares.busiest();
    let (knows_check, is_busy) = (shares.check.is_some(), share >= BUSY_SHARE);
    let evidence = Evidence {
        kind: EvidenceKind::SerialStage(StageEvidence::Metrics {
            node: shares.node,
            stage: is_busy.then_some(busiest),
            check: shares.check,
            execution: shares.execution,
            recheck: shares.recheck,
        }),
        points_to: LimitedBy::Node,
        strength: if is_busy {
            Strength::Strong
        } else {
            Strength::Remark
        },
        txs,
        from_s: None,
        until_s: None,
    };
    if is_busy {
        summary.evidence.insert(place, evidence);
    } else if let Some(found) = found {
        if knows_check {
            summary.evidence.push(evidence);
        } else {
            summary.evidence.insert(place, found);
        }
    }
}

/// What names a cause by itself, whatever stage was at work beside it.
const fn is_plainer(kind: &EvidenceKind) -> bool {
    use EvidenceKind::{
        BlocksFull, BlocksOutOfGas, EndpointSilent, FailedInBlocks, LostAfterAccept, NoAnswers,
        NoBlocks,
    };
    matches!(
        kind,
        BlocksFull { .. }
            | BlocksOutOfGas { .. }
            | EndpointSilent { .. }
            | FailedInBlocks
            | LostAfterAccept { .. }
            | NoAnswers
            | NoBlocks
    )
}

/// The share of the time in which each stage of a node was at work.
#[derive(Debug, Clone, PartialEq)]
struct Shares {
    node: String,
    /// `None` where its calls waited for each other in every second.
    check: Option<f64>,
    execution: f64,
    recheck: f64,
}

impl Shares {
    /// `None` where there are too few seconds.
    fn of(node: &str, rows: &[&NodeRow]) -> Option<Self> {
        if rows.len() < FEWEST_SECONDS {
            return None;
        }
        let seconds = rows.len() as f64;
        let sum =
            |of: fn(&NodeRow) -> Option<f64>| rows.iter().filter_map(|row| of(row)).sum::<f64>();
        let (all, again) = (
            sum(|row| row.checks.map(|it| it as f64)),
            sum(|row| row.rechecks.map(|it| it as f64)),
        );
        let executing_s = sum(|row| row.executing_s);
        // In consensus' step Commit a block is stored, executed and committed, and the mempool checked again.
        let left_s = (sum(|row| row.commit_step_s) - executing_s).max(0.0);
        let mean_s = sum(|row| row.checking_s) / all.max(1.0);
        let alone_s = alone_s(rows).unwrap_or(mean_s);
        let check = Some((all - again).max(0.0) * alone_s / seconds);
        Some(Self {
            node: node.to_owned(),
            check: check.filter(|share| *share <= *ONE.end()),
            execution: executing_s / seconds,
            recheck: left_s.min(again * mean_s) / seconds,
        })
    }

    /// The largest share, and the stage.
    fn busiest(&self) -> (f64, Stage) {
        let stages = [
            (self.execution, Stage::Execution),
            (self.recheck, Stage::Recheck),
            (self.check.unwrap_or_default(), Stage::Check),
        ];
        let busier = |one: (f64, Stage), other: (f64, Stage)| {
            if other.0 > one.0 { other } else { one }
        };
        stages.into_iter().fold((0.0, Stage::Execution), busier)
    }
}

/// What a call of CheckTx takes when it waits for no other: the shortest mean of a second. A node counts its wait
/// for the application with it.
fn alone_s(rows: &[&NodeRow]) -> Option<f64> {
    let means = rows.iter().filter_map(|row| {
        let checks = row.checks.filter(|checks| *checks >= FEWEST_CHECKS)?;
        Some(row.checking_s? / checks as f64)
    });
    means.min_by(f64::total_cmp)
}

/// Two seconds are chance.
const FEWEST_SECONDS: usize = 3;
/// Fewer calls make no mean.
const FEWEST_CHECKS: u64 = 20;
