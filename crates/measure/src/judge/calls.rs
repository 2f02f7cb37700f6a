//! Which stage of a node was at work most of the time, by its own metrics: the calls of its application that it times.

use std::collections::BTreeMap;
use std::fmt;

use crate::evidence::{Evidence, EvidenceKind, LimitedBy, Strength};
use crate::rows::NodeRow;
use crate::stages::{BUSY_SHARE, ONE};
use crate::summary::Summary;

/// Names the stage that held the load back from what the nodes' rows say of it, where the node did: that is measured,
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
    let supposed = |it: &Evidence| it.kind == EvidenceKind::SerialStage;
    let place = summary.evidence.iter().position(supposed);
    let found = place.map(|at| summary.evidence.remove(at));
    // A stage is at work also because blocks take no more, and says nothing of what was lost or stood still.
    let is_plainer = |it: &Evidence| it.strength >= Strength::Strong && is_plainer(it.kind);
    let plainest = summary.evidence.iter().rposition(is_plainer);
    let behind = plainest.map_or(0, |last| last + 1);
    let place = behind.min(place.unwrap_or(behind));
    let txs = summary.evidence.first().map_or(0, |it| it.txs);
    let evidence = |strength, text| Evidence {
        kind: EvidenceKind::SerialStage,
        points_to: LimitedBy::Node,
        strength,
        txs,
        from_s: None,
        until_s: None,
        limit: None,
        endpoint: None,
        text,
    };
    let (share, stage) = shares.busiest();
    if share >= BUSY_SHARE {
        let text = format!(
            "{stage} was at work {:.0} % of the time: {shares}",
            share * 100.0
        );
        summary
            .evidence
            .insert(place, evidence(Strength::Strong, text));
    } else if let Some(found) = found {
        match shares.check {
            None => summary.evidence.insert(place, found),
            Some(_) => {
                let text = format!("no stage of the node was at work most of the time: {shares}");
                summary.evidence.push(evidence(Strength::Remark, text));
            }
        }
    }
}

/// What names a cause by itself, whatever stage was at work beside it.
const fn is_plainer(kind: EvidenceKind) -> bool {
    use EvidenceKind::{
        BlocksFull, BlocksOutOfGas, EndpointSilent, FailedInBlocks, LostAfterAccept, NoAnswers,
        NoBlocks,
    };
    matches!(
        kind,
        BlocksFull
            | BlocksOutOfGas
            | EndpointSilent
            | FailedInBlocks
            | LostAfterAccept
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

    /// The largest share, and whose it is.
    fn busiest(&self) -> (f64, &'static str) {
        let stages = [
            (self.execution, "execution (FinalizeBlock and Commit)"),
            (
                self.recheck,
                "recheck (CheckTx of what a block left in the mempool)",
            ),
            (
                self.check.unwrap_or_default(),
                "CheckTx, which takes one transaction at a time,",
            ),
        ];
        let busier = |one: (f64, _), other: (f64, _)| if other.0 > one.0 { other } else { one };
        stages.into_iter().fold((0.0, ""), busier)
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

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [execution, recheck] = [self.execution, self.recheck].map(|share| share * 100.0);
        match self.check {
            Some(check) => write!(f, "CheckTx {:.0} %", check * 100.0),
            None => f.write_str("CheckTx unknown, as its calls waited for each other all the time"),
        }?;
        let node = &self.node;
        write!(
            f,
            ", execution {execution:.0} %, recheck {recheck:.0} %, by the metrics of {node}"
        )
    }
}

/// Two seconds are chance.
const FEWEST_SECONDS: usize = 3;
/// Fewer calls make no mean.
const FEWEST_CHECKS: u64 = 20;
