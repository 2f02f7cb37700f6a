//! What held a run back: the evidence, ranked, and the conclusion from it.

mod chain;

use super::{Terms, steps};
use crate::code::code_title;
use crate::event::UnsentReason;
use crate::evidence::{Evidence, EvidenceKind, LimitedBy, Strength};
use crate::limits::{LIMITING_SHARE, LOST_AFTER_BLOCKS};
use crate::plan::LoadModel;
use crate::signs::Signs;
use crate::silence::{self, Stretch};
use crate::summary::Summary;

/// The evidence, the most telling first, and what it comes to.
pub(super) fn limited_by(
    summary: &Summary,
    signs: &Signs,
    terms: Terms,
) -> (LimitedBy, Vec<Evidence>) {
    let mut case = Case {
        summary,
        signs,
        terms,
        found: Vec::new(),
    };
    case.losses();
    case.silences();
    case.silent_endpoints();
    case.answers();
    case.blocks();
    case.steps();
    case.lateness();
    case.stages();
    case.remarks();
    let mut found = case.found;
    if summary.is_blind() {
        let of_blocks = found
            .iter_mut()
            .filter(|evidence| evidence.kind.is_of_blocks());
        of_blocks.for_each(|evidence| evidence.strength = Strength::Remark);
    }
    found.sort_by_key(|evidence| std::cmp::Reverse((evidence.strength, evidence.txs)));
    let strongest = found.first();
    let limit = match strongest.filter(|evidence| evidence.strength >= Strength::Strong) {
        Some(evidence) => evidence.points_to,
        // What is under way at the end might have been committed in time.
        None if found.iter().any(|evidence| case_is_open(summary, evidence)) => LimitedBy::Unknown,
        None if summary.model == LoadModel::Closed => LimitedBy::Concurrency,
        None => LimitedBy::Nothing,
    };
    (limit, found)
}

/// Whether more was accepted and in no block than may be left out of a conclusion.
fn case_is_open(summary: &Summary, evidence: &Evidence) -> bool {
    let limit = summary.offered.planned as f64 * LIMITING_SHARE;
    evidence.kind == EvidenceKind::Pending && evidence.txs as f64 > limit
}

/// A run, and what was found in it so far.
struct Case<'a> {
    summary: &'a Summary,
    signs: &'a Signs,
    terms: Terms,
    found: Vec<Evidence>,
}

/// The span that evidence without one has.
const WHOLE_RUN: Option<Stretch> = None;

impl Case<'_> {
    fn add(
        &mut self,
        (kind, points_to): (EvidenceKind, LimitedBy),
        strength: Strength,
        txs: u64,
        stretch: Option<Stretch>,
        text: String,
    ) {
        self.add_limit((kind, points_to), strength, txs, stretch, (None, text));
    }

    /// The same of something that was full at `limit`.
    fn add_limit(
        &mut self,
        (kind, points_to): (EvidenceKind, LimitedBy),
        strength: Strength,
        txs: u64,
        stretch: Option<Stretch>,
        (limit, text): (Option<u64>, String),
    ) {
        self.found.push(Evidence {
            kind,
            points_to,
            strength,
            txs,
            from_s: stretch.map(|stretch| stretch.from_s),
            until_s: stretch.map(|stretch| stretch.until_s),
            limit,
            endpoint: None,
            text,
        });
    }

    /// Strong when it touched enough of what was planned.
    fn weight(&self, txs: u64) -> Strength {
        match txs as f64 > self.summary.offered.planned as f64 * LIMITING_SHARE {
            true => Strength::Strong,
            false => Strength::Remark,
        }
    }

    /// Accepted, and in no block by the end.
    fn losses(&mut self) {
        let (summary, signs) = (self.summary, self.signs);
        let pending = summary.fate.pending;
        if !summary.followed || pending == 0 {
            return;
        }
        let all_seen = summary.recorder.settled_early + summary.unseen() == 0;
        let had_room = signs.blocks_since_own >= LOST_AFTER_BLOCKS
            && signs.mempool_last.is_none_or(|waiting| waiting < pending);
        // What nobody checked may have been refused without a word.
        if all_seen && had_room && self.terms.checked {
            let text = format!(
                "{pending} accepted transactions were lost: none of the last {} blocks contains one of this run, \
                 although they had room",
                signs.blocks_since_own
            );
            let found = (EvidenceKind::LostAfterAccept, LimitedBy::Node);
            return self.add(found, Strength::Decisive, pending, WHOLE_RUN, text);
        }
        let drained_s = (summary.time.ended_s - summary.time.offered_s).max(0.0);
        // Before a block could have come, they are only under way.
        let strength = match drained_s < self.ordinary_wait_s(0.0) {
            true => Strength::Remark,
            false => self.weight(pending),
        };
        let seen = if all_seen {
            ""
        } else {
            " that was seen (not all were)"
        };
        let checked = match self.terms.checked {
            true => "",
            false => "; nothing says that they passed the node's check",
        };
        let text = format!(
            "{pending} accepted transactions were in no block{seen} {drained_s:.1} s after the last one was due{checked}"
        );
        let found = (EvidenceKind::Pending, LimitedBy::Node);
        self.add(found, strength, pending, WHOLE_RUN, text);
    }

    /// The longest time without an answer or a block that this chain has, outside a silence of `gap_s`.
    fn ordinary_wait_s(&self, gap_s: f64) -> f64 {
        let Summary {
            blocks,
            time,
            followed,
            ..
        } = self.summary;
        silence::ordinary_s(blocks.count, time.ended_s - gap_s, *followed)
    }

    /// Stretches in which the node gave no sign. While the generator stood still, none could be seen.
    fn silences(&mut self) {
        let own_stall_s = self.summary.late.generator_max_ms / 1e3;
        let seen = [
            (
                self.signs.no_answers.longest,
                EvidenceKind::NoAnswers,
                "answer",
                "due or sent transactions",
            ),
            (
                self.signs.no_blocks.longest,
                EvidenceKind::NoBlocks,
                "block",
                "accepted transactions",
            ),
        ];
        for (stretch, kind, sign, waiting) in seen {
            if kind == EvidenceKind::NoBlocks && !self.summary.followed {
                continue;
            }
            let limit_s = self.ordinary_wait_s(stretch.length_s());
            if stretch.length_s() < limit_s.max(OWN_STALL_MARGIN * own_stall_s) {
                continue;
            }
            let strength = self.weight(stretch.txs);
            let text = format!(
                "no {sign} from {:.1} s to {:.1} s while up to {} {waiting} waited",
                stretch.from_s, stretch.until_s, stretch.txs
            );
            let found = (kind, LimitedBy::Node);
            self.add(found, strength, stretch.txs, Some(stretch), text);
        }
    }

    /// Endpoints that gave no sign while others did.
    fn silent_endpoints(&mut self) {
        let own_stall_s = self.summary.late.generator_max_ms / 1e3;
        let all = self.signs.no_answers.longest;
        for silent in &self.signs.silent_endpoints {
            let Some(stretch) = silent.out_of_the_ordinary() else {
                continue;
            };
            let limit_s = self.ordinary_wait_s(stretch.length_s());
            // Rows are a second long.
            let others_too =
                stretch.from_s > all.from_s - 1.0 && stretch.until_s < all.until_s + 1.0;
            if others_too || stretch.length_s() < limit_s.max(OWN_STALL_MARGIN * own_stall_s) {
                continue;
            }
            let text = format!(
                "{} gave no answer from {:.1} s to {:.1} s while up to {} requests to it waited",
                silent.endpoint, stretch.from_s, stretch.until_s, stretch.txs
            );
            let found = (EvidenceKind::EndpointSilent, LimitedBy::Node);
            self.add(
                found,
                self.weight(stretch.txs),
                stretch.txs,
                Some(stretch),
                text,
            );
            if let Some(evidence) = self.found.last_mut() {
                evidence.endpoint = Some(silent.endpoint.clone());
            }
        }
    }

    /// What the node did not take, or took and failed.
    fn answers(&mut self) {
        let fate = &self.summary.fate;
        let refusals = self.signs.refusals;
        if fate.rejected > 0 {
            let since = refusals.map_or(String::new(), |seen| {
                format!(" from {:.0} s on", seen.from_s)
            });
            let text = format!("{} refused{since}", fate.rejected);
            let found = (EvidenceKind::Refused, LimitedBy::Node);
            self.add(
                found,
                self.weight(fate.rejected),
                fate.rejected,
                refusals,
                text,
            );
        }
        let mempool = self.signs.mempool;
        if let Some(refusals) = refusals
            && mempool.txs > 0
            && (mempool.since_s - refusals.from_s).abs() <= SAMPLED_WITHIN_S
        {
            let full = Stretch {
                from_s: mempool.since_s,
                until_s: refusals.until_s,
                txs: mempool.txs,
            };
            let text = format!(
                "the mempool did not grow beyond {} transactions, reached at {:.0} s, when refusals began",
                mempool.txs, mempool.since_s
            );
            let found = (EvidenceKind::MempoolFull, LimitedBy::Node);
            let text = (Some(mempool.txs), text);
            self.add_limit(found, Strength::Remark, mempool.txs, Some(full), text);
        }
        let failed = fate.commit_failed;
        if failed > 0 {
            let codes = &fate.commit_failed_by_code;
            let codes = codes
                .iter()
                .map(|(code, count)| format!("{count} {}", code_title(code)));
            let codes: Vec<String> = codes.take(MAX_CODES).collect();
            let codes = match codes.is_empty() {
                true => "another code than 0".to_owned(),
                false => codes.join(", "),
            };
            let text = format!("{failed} failed in their blocks ({codes})");
            let found = (EvidenceKind::FailedInBlocks, LimitedBy::Node);
            self.add(found, self.weight(failed), failed, WHOLE_RUN, text);
        }
        let unusable = fate.errors + fate.unanswered;
        if unusable > 0 {
            let kinds = fate.errors_by_kind.iter().filter(|(_, count)| **count > 0);
            let kinds = kinds.map(|(kind, count)| format!(", {kind} {count}"));
            let kinds: String = kinds.collect();
            let text = format!(
                "{unusable} without a usable answer (unanswered {}{kinds})",
                fate.unanswered
            );
            let found = (EvidenceKind::NoUsableAnswer, LimitedBy::Node);
            self.add(found, self.weight(unusable), unusable, WHOLE_RUN, text);
        }
    }

    /// Steps that were offered and not sustained.
    fn steps(&mut self) {
        let summary = self.summary;
        if summary.model == LoadModel::Closed {
            return;
        }
        let excesses = steps::excesses(&summary.steps, summary.followed);
        let failed = summary.steps.iter().zip(excesses);
        let failed: Vec<_> = failed
            .filter_map(|(step, excess)| {
                Some((step, excess.filter(|excess| excess.is_the_nodes())?))
            })
            .collect();
        let (Some((first, excess)), Some((last, _))) = (failed.first(), failed.last()) else {
            return;
        };
        let missing = |counts: &crate::Cohort, offered: u64| {
            offered.saturating_sub(match summary.followed {
                true => counts.due_committed,
                false => counts.due_accepted,
            })
        };
        let txs = failed
            .iter()
            .map(|(step, _)| missing(&step.cohort, step.counts.offered))
            .sum();
        let text = format!(
            "{} of {} steps were not sustained, the first at {:.0}/s: {excess}",
            failed.len(),
            summary.steps.iter().filter(|step| !step.pause).count(),
            first.rate_tps
        );
        let stretch = Stretch {
            from_s: first.start_s,
            until_s: last.end_s,
            txs,
        };
        let found = (EvidenceKind::StepsFailed, LimitedBy::Node);
        self.add(found, Strength::Strong, txs, Some(stretch), text);
    }

    /// What left late or not at all, by cause. In a closed loop nothing is due, so nothing is late.
    fn lateness(&mut self) {
        let summary = self.summary;
        if summary.model == LoadModel::Closed {
            return;
        }
        let late = &summary.late.causes;
        let unsent = |reason| summary.offered.unsent_for(reason);
        let crowded = unsent(UnsentReason::MaxInFlight) + unsent(UnsentReason::Deadline);
        let by_connections = late.connection > late.node;
        let (node, connection) = match by_connections {
            true => (0, crowded),
            false => (crowded, 0),
        };
        let causes = [
            (
                (EvidenceKind::HeldUpByNode, LimitedBy::Node),
                late.node,
                node + unsent(UnsentReason::Node),
                "while answers took long or sockets took nothing",
            ),
            (
                (EvidenceKind::ShortOfConnections, LimitedBy::Connection),
                late.connection,
                connection + unsent(UnsentReason::Broken),
                "while all connections were busy or down",
            ),
            (
                (EvidenceKind::ScheduleLate, LimitedBy::Schedule),
                late.schedule,
                unsent(UnsentReason::CatchUp),
                "because the generator's threads did not run in time",
            ),
            (
                (EvidenceKind::SourceLate, LimitedBy::Source),
                late.source,
                unsent(UnsentReason::Source),
                "because transactions were not ready",
            ),
        ];
        // Connections that the node left hanging or closed are short because of the node.
        let outage = self.found.iter().any(|evidence| {
            evidence.strength >= Strength::Strong
                && matches!(
                    evidence.kind,
                    EvidenceKind::LostAfterAccept
                        | EvidenceKind::NoAnswers
                        | EvidenceKind::NoBlocks
                        | EvidenceKind::EndpointSilent
                        | EvidenceKind::NoUsableAnswer
                )
        });
        for (found, late, unsent, why) in causes {
            if late + unsent == 0 {
                continue;
            }
            let text = format!("{late} left more than 1 ms late and {unsent} not at all {why}");
            let strength = match found.0 {
                EvidenceKind::ShortOfConnections if outage => Strength::Remark,
                _ => self.weight(late + unsent),
            };
            self.add(found, strength, late + unsent, WHOLE_RUN, text);
        }
    }

    /// What a reader has to know beside.
    fn remarks(&mut self) {
        let summary = self.summary;
        if summary.model == LoadModel::Closed {
            let text =
                "each transaction waited for an answer: answers and --concurrency set the rate";
            let found = (EvidenceKind::ClosedLoop, LimitedBy::Concurrency);
            self.add(found, Strength::Remark, 0, WHOLE_RUN, text.to_owned());
        }
        let cut_off = summary.offered.unsent_by_the_end();
        if summary.interrupted || cut_off > 0 {
            // It may have been during the drain, when the plan was done.
            let interrupted = if summary.interrupted {
                "interrupted: "
            } else {
                ""
            };
            let text = format!(
                "{interrupted}the offering ended at {:.1} s; {cut_off} of what was due had not been sent by the end",
                summary.time.offered_s
            );
            let found = (EvidenceKind::EndedEarly, LimitedBy::Nothing);
            self.add(found, Strength::Remark, cut_off, WHOLE_RUN, text);
        }
    }
}

/// A silence that is not longer than the generator's own stall may be that stall.
const OWN_STALL_MARGIN: f64 = 1.25;
/// Codes in a line of text.
const MAX_CODES: usize = 3;
/// Mempools are sampled several times a second, and rows are a second long.
const SAMPLED_WITHIN_S: f64 = 2.0;
