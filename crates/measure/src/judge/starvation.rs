//! A node that lacked the processor because other programs of its machine had it: what it did not do then is no statement
//! about the node.

use super::admission::Admission;
use super::{Excess, Shortfall, excesses};
use crate::format::evidence::{Evidence, EvidenceKind, LimitedBy, Strength};
use crate::format::processor::NodeProcessor;
use crate::format::summary::Summary;

/// Why nobody knows whose limit was reached: the node lacked the processor in every step that it did not sustain. A single
/// one that it did not sustain although it had the processor shows its own limit.
pub(super) fn finding(summary: &Summary) -> Option<String> {
    let excesses = excesses(&summary.steps, summary.step_terms());
    if excesses.iter().flatten().any(Excess::is_the_nodes) {
        return None;
    }
    let failed = summary.steps.iter().zip(excesses);
    let mut failed = failed.filter_map(|(step, excess)| Some((step, excess?)));
    let (step, excess) = failed.find(|(_, it)| matches!(it.shortfall, Shortfall::Starved(_)))?;
    Some(format!(
        "whose limit it is cannot be told: at {:.0}/s the node took less than it was offered, and {excess} (give it a \
         machine of its own, or end what runs beside it)",
        step.rate_tps
    ))
}

/// What was found against the node speaks against its machine, where the node lacked the processor.
pub(super) fn evidence(
    summary: &Summary,
    found: &[Evidence],
    admission: Admission<'_>,
) -> Option<Evidence> {
    let excesses = excesses(&summary.steps, summary.step_terms());
    let is_the_nodes = excesses.iter().flatten().any(Excess::is_the_nodes);
    let speaks_against_it =
        |it: &Evidence| it.points_to == LimitedBy::Node && it.strength >= Strength::Strong;
    let is_starved = summary.node_processor().is_starved()
        && !is_the_nodes
        && found.iter().any(speaks_against_it);
    if !is_starved && !admission.bars_machine() {
        return None;
    }
    let shares = summary
        .steps
        .iter()
        .map(|step| step.node_processor.lost_share());
    let (planned, fate) = (summary.offered.planned, &summary.fate);
    let taken = if summary.followed {
        fate.committed
    } else {
        fate.accepted
    };
    Some(Evidence {
        kind: EvidenceKind::NodeStarved {
            lost_share: shares.fold(0.0, f64::max),
        },
        points_to: LimitedBy::Machine,
        strength: Strength::Decisive,
        txs: planned.saturating_sub(taken),
        from_s: None,
        until_s: None,
    })
}

/// Why a point that a search would call broken says nothing.
pub(super) fn words(processor: &NodeProcessor) -> String {
    let percent = processor.lost_share() * 100.0;
    format!(
        "whose limit that is cannot be told: other programs had {percent:.0} % of the processor time that the node wanted"
    )
}
