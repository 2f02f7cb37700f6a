//! What held a run back: the evidence, ranked, and the conclusion from it.

use super::admission::{Admission, Commits};
use super::signals::{ByWorkload, mostly};
use super::{Facts, stages, steps};
use crate::format::event::UnsentReason;
use crate::format::evidence::{Evidence, EvidenceKind, LateOrUnsent, LimitedBy, Strength};
use crate::format::fate::Cohort;
use crate::format::summary::{LoadModel, Summary};
use crate::limits::{
    BACKLOG_BLOCKS, LIMITING_SHARE, LOST_AFTER_BLOCKS, SAMPLED_WITHIN, SUSTAINED_SHARE,
    UNSEEN_BLOCKS, WINDOW_S,
};
use crate::stats::silence::{self, Stretch};

/// The evidence, the most telling first, and what it comes to.
pub(super) fn limited_by(facts: Facts<'_>, admission: Admission<'_>) -> (LimitedBy, Vec<Evidence>) {
    let mut collector = EvidenceCollector {
        facts,
        found: Vec::new(),
    };
    let commits = admission.commits();
    collector.losses(commits);
    collector.silences();
    collector.silent_endpoints();
    collector.answers();
    if let Some(commits) = commits {
        collector.blocks(commits);
        collector.steps(commits);
    }
    collector.lateness();
    collector.stages();
    collector.remarks();
    let (summary, mut found) = (facts.summary, collector.found);
    found.sort_by_key(|evidence| std::cmp::Reverse((evidence.strength, evidence.txs)));
    let strongest = found.first();
    let strongest = strongest.filter(|evidence| evidence.strength >= Strength::Strong);
    let limit = match strongest.map(|evidence| evidence.points_to) {
        None | Some(LimitedBy::Node) if steps::starved(summary).is_some() => LimitedBy::Unknown,
        Some(limit) => limit,
        // What is under way at the end might have been committed in time.
        None if found.iter().any(|evidence| is_open(summary, evidence)) => LimitedBy::Unknown,
        None if summary.model == LoadModel::Closed => LimitedBy::Concurrency,
        None => LimitedBy::Nothing,
    };
    (limit, found)
}

/// Whether more was accepted and in no block than may be left out of a conclusion.
fn is_open(summary: &Summary, evidence: &Evidence) -> bool {
    let limit = summary.offered.planned as f64 * LIMITING_SHARE;
    matches!(evidence.kind, EvidenceKind::Pending { .. }) && evidence.txs as f64 > limit
}

/// A run, and what was found in it so far.
struct EvidenceCollector<'a> {
    facts: Facts<'a>,
    found: Vec<Evidence>,
}

/// The span that evidence without one has.
const WHOLE_RUN: Option<Stretch> = None;

impl EvidenceCollector<'_> {
    /// Adds what speaks against the node.
    fn add(&mut self, kind: EvidenceKind, strength: Strength, txs: u64, stretch: Option<Stretch>) {
        self.add_against(LimitedBy::Node, kind, strength, txs, stretch);
    }

    fn add_against(
        &mut self,
        points_to: LimitedBy,
        kind: EvidenceKind,
        strength: Strength,
        txs: u64,
        stretch: Option<Stretch>,
    ) {
        self.found.push(Evidence {
            kind,
            points_to,
            strength,
            txs,
            from_s: stretch.map(|stretch| stretch.from_s),
            until_s: stretch.map(|stretch| stretch.until_s),
        });
    }

    /// Strong when it touched enough of what was planned.
    fn weight(&self, txs: u64) -> Strength {
        if txs as f64 > self.facts.summary.offered.planned as f64 * LIMITING_SHARE {
            Strength::Strong
        } else {
            Strength::Remark
        }
    }

    /// The same, for a stretch: beside what fell due in a minute.
    fn add_stretch(&mut self, kind: EvidenceKind, stretch: Stretch) {
        let summary = self.facts.summary;
        let windows = (summary.time.offered_s / WINDOW_S).max(1.0);
        let due = summary.offered.planned as f64 / windows;
        let strength = if stretch.txs as f64 > due * LIMITING_SHARE {
            Strength::Strong
        } else {
            Strength::Remark
        };
        self.add(kind, strength, stretch.txs, Some(stretch));
    }

    /// Accepted, and in no block by the end.
    fn losses(&mut self, commits: Option<Commits>) {
        let Facts {
            summary,
            signals,
            context,
        } = self.facts;
        let pending = summary.fate.pending;
        if !summary.followed || pending == 0 {
            return;
        }
        let (checked, blocks) = (context.checked, signals.blocks_since_own);
        let all_seen = summary.recorder.settled_early + summary.unseen() == 0;
        let had_room = blocks >= LOST_AFTER_BLOCKS
            && !signals.may_wait_in_mempools(pending, summary.time.ended_s);
        // What was not checked may have been refused without a message.
        if all_seen && had_room && checked {
            let kind = EvidenceKind::LostAfterAccept { blocks };
            // A mempool drops without a word what a block before has made invalid.
            let by_workload = ByWorkload::of(self.facts);
            if pending < by_workload.refused + by_workload.failed {
                let strength = self.weight(pending);
                return self.add_against(LimitedBy::Workload, kind, strength, pending, WHOLE_RUN);
            }
            return self.add(kind, Strength::Decisive, pending, WHOLE_RUN);
        }
        let drained_s = (summary.time.ended_s - summary.time.offered_s).max(0.0);
        // Before a block could have come, they are only under way.
        let strength = if commits.is_none() || drained_s < self.ordinary_wait_s(0.0) {
            Strength::Remark
        } else {
            self.weight(pending)
        };
        let kind = EvidenceKind::Pending { all_seen, checked };
        self.add(kind, strength, pending, WHOLE_RUN);
    }

    /// The longest time without an answer or a block that this chain has, outside a silence of `gap_s`.
    fn ordinary_wait_s(&self, gap_s: f64) -> f64 {
        let Summary {
            blocks,
            time,
            followed,
            ..
        } = self.facts.summary;
        silence::ordinary_s(blocks.count, time.ended_s - gap_s, *followed)
    }

    /// Whether a silence is longer than is ordinary for the chain, and than the generator's own stall. While the
    /// generator stood still, no sign could be seen.
    fn is_a_silence(&self, stretch: Stretch) -> bool {
        let own_stall_s = self.facts.summary.late.generator_max_ms / 1e3;
        let limit_s = self.ordinary_wait_s(stretch.length_s());
        stretch.length_s() >= limit_s.max(OWN_STALL_MARGIN * own_stall_s)
    }

    /// Stretches in which the node gave no sign.
    fn silences(&mut self) {
        let signals = self.facts.signals;
        let answers = signals.no_answers.longest;
        if self.is_a_silence(answers) {
            self.add_stretch(EvidenceKind::NoAnswers, answers);
        }
    }

    /// Endpoints that gave no sign while others did.
    fn silent_endpoints(&mut self) {
        let signals = self.facts.signals;
        let all = signals.no_answers.longest;
        for silent in &signals.silent_endpoints {
            let Some(stretch) = silent.out_of_the_ordinary() else {
                continue;
            };
            // Rows are a second long.
            let others_too =
                stretch.from_s > all.from_s - 1.0 && stretch.until_s < all.until_s + 1.0;
            if !others_too && self.is_a_silence(stretch) {
                let endpoint = silent.endpoint.clone();
                self.add_stretch(EvidenceKind::EndpointSilent { endpoint }, stretch);
            }
        }
    }

    /// What the node did not take, or took and failed.
    fn answers(&mut self) {
        let Facts {
            summary, signals, ..
        } = self.facts;
        let (fate, refusals, mempool) = (&summary.fate, signals.refusals, signals.mempool);
        let by_workload = ByWorkload::of(self.facts);
        if fate.rejected > 0 {
            let strength = self.weight(fate.rejected);
            let points_to = mostly(by_workload.refused, fate.rejected);
            let kind = EvidenceKind::Refused;
            self.add_against(points_to, kind, strength, fate.rejected, refusals);
        }
        if let Some(refusals) = refusals
            && mempool.txs > 0
            && (mempool.since_s - refusals.from_s).abs() <= SAMPLED_WITHIN.as_secs_f64()
        {
            let full = Stretch {
                from_s: mempool.since_s,
                until_s: refusals.until_s,
                txs: mempool.txs,
            };
            let kind = EvidenceKind::MempoolFull { limit: mempool.txs };
            self.add(kind, Strength::Remark, mempool.txs, Some(full));
        }
        for (kind, txs, by_workload) in [
            (
                EvidenceKind::FailedInBlocks,
                fate.commit_failed,
                by_workload.failed,
            ),
            (
                EvidenceKind::NoUsableAnswer,
                fate.errors + fate.unanswered,
                by_workload.followed,
            ),
        ] {
            if txs > 0 {
                let points_to = mostly(by_workload, txs);
                self.add_against(points_to, kind, self.weight(txs), txs, WHOLE_RUN);
            }
        }
    }

    /// What the chain could not take up.
    fn blocks(&mut self, _: Commits) {
        let Facts {
            summary, signals, ..
        } = self.facts;
        if !summary.followed {
            return;
        }
        let silence = signals.no_blocks.longest;
        if self.is_a_silence(silence) {
            self.add_stretch(EvidenceKind::NoBlocks, silence);
        }
        let (out_of_gas, full) = (signals.out_of_gas, signals.full_blocks);
        if out_of_gas.limits() {
            let kind = EvidenceKind::BlocksOutOfGas {
                limit: out_of_gas.limit,
                block_txs: out_of_gas.txs,
            };
            self.add_stretch(kind, out_of_gas.stretch);
        } else if full.are_a_rule() && full.stretch.txs > full.largest {
            let limit = full.largest;
            self.add_stretch(EvidenceKind::BlocksFull { limit }, full.stretch);
        }
        let (Some(accepted), Some(committed)) =
            (summary.rate.accepted_tps, summary.rate.committed_tps)
        else {
            return;
        };
        let block = summary.blocks.own_txs as f64 / summary.blocks.count.max(1) as f64;
        let backlog = signals.backlog_offered;
        // What failed in a block has been taken up by it.
        let failed_tps = summary.fate.commit_failed as f64 / summary.time.offered_s;
        let slower = committed.mean + failed_tps < accepted.mean * SUSTAINED_SHARE;
        if slower && backlog as f64 > (BACKLOG_BLOCKS + UNSEEN_BLOCKS) * block {
            let grown = Stretch {
                from_s: signals.backlog.since_s,
                until_s: summary.time.offered_s,
                txs: backlog,
            };
            let strength = match summary.model {
                LoadModel::Open => self.weight(backlog),
                // The load went on as fast as answers came: blocks did not hold it back.
                LoadModel::Closed => Strength::Remark,
            };
            self.add(EvidenceKind::Backlog, strength, backlog, Some(grown));
        }
    }

    /// Steps that were offered and not sustained.
    fn steps(&mut self, _: Commits) {
        let summary = self.facts.summary;
        if summary.model == LoadModel::Closed {
            return;
        }
        let excesses = steps::excesses(&summary.steps, summary.step_terms());
        let failed = summary.steps.iter().zip(excesses);
        let failed: Vec<_> = failed
            .filter_map(|(step, excess)| {
                Some((step, excess.filter(|excess| excess.is_the_nodes())?))
            })
            .collect();
        let (Some((first, excess)), Some((last, _))) = (failed.first(), failed.last()) else {
            return;
        };
        let missing = |cohort: &Cohort, offered: u64| {
            let taken = if summary.followed {
                cohort.due_committed
            } else {
                cohort.due_accepted
            };
            offered.saturating_sub(taken)
        };
        let each = failed.iter();
        let txs = each.map(|(step, _)| missing(&step.cohort, step.counts.offered));
        let stretch = Stretch {
            from_s: first.start_s,
            until_s: last.end_s,
            txs: txs.sum(),
        };
        // What the application refuses is not committed, either.
        let by_workload = ByWorkload::of(self.facts);
        let by_workload = by_workload.refused + by_workload.failed + by_workload.followed;
        let points_to = mostly(by_workload, stretch.txs);
        let kind = EvidenceKind::StepsFailed {
            failed: failed.len() as u64,
            steps: summary.steps.iter().filter(|step| !step.pause).count() as u64,
            rate_tps: first.rate_tps,
            excess: *excess,
        };
        self.add_against(
            points_to,
            kind,
            Strength::Strong,
            stretch.txs,
            Some(stretch),
        );
    }

    /// What left late or not at all, by cause. It limited the run where so much of it was so late that the load was
    /// another one. In a closed loop nothing is due, so nothing is late.
    fn lateness(&mut self) {
        let summary = self.facts.summary;
        if summary.model == LoadModel::Closed {
            return;
        }
        let (late, displaced) = (&summary.late.causes, &summary.late.displaced);
        let unsent = |reason| summary.offered.unsent_for(reason);
        let crowded = [
            UnsentReason::MaxInFlight,
            UnsentReason::Deadline,
            UnsentReason::Broken,
        ];
        // Connections that the node left hanging or closed are short because of the node.
        let is_outage = |it: &Evidence| it.strength >= Strength::Strong && it.kind.is_an_outage();
        let outage = self.found.iter().any(is_outage);
        let own = u64::from(late.schedule >= late.source);
        let dropped = unsent(UnsentReason::CatchUp);
        let waited = u64::from(late.connection > late.schedule);
        type Kind = fn(LateOrUnsent) -> EvidenceKind;
        let causes: [(LimitedBy, Kind, u64, u64, u64); 4] = [
            (
                LimitedBy::Node,
                EvidenceKind::HeldUpByNode,
                late.node,
                displaced.held_up,
                unsent(UnsentReason::Node),
            ),
            (
                LimitedBy::Connection,
                EvidenceKind::ShortOfConnections,
                late.connection,
                displaced.crowded,
                crowded.map(unsent).iter().sum::<u64>() + dropped * waited,
            ),
            (
                LimitedBy::Schedule,
                EvidenceKind::ScheduleLate,
                late.schedule,
                displaced.behind * own,
                dropped * (1 - waited),
            ),
            (
                LimitedBy::Source,
                EvidenceKind::SourceLate,
                late.source,
                displaced.behind * (1 - own),
                unsent(UnsentReason::Source),
            ),
        ];
        for (points_to, kind, late, displaced, unsent) in causes {
            let txs = late + unsent;
            if txs == 0 {
                continue;
            }
            let strength = if points_to == LimitedBy::Connection && outage {
                Strength::Remark
            } else {
                self.weight(displaced + unsent)
            };
            let kind = kind(LateOrUnsent { late, unsent });
            self.add_against(points_to, kind, strength, txs, WHOLE_RUN);
        }
    }

    /// Which stage of the node was at work all the time, where the node held the load back.
    fn stages(&mut self) {
        let is_strong = |it: &&Evidence| it.strength >= Strength::Strong;
        let strong: Vec<&Evidence> = self.found.iter().filter(is_strong).collect();
        let by_node = strong.iter().filter(|it| it.points_to == LimitedBy::Node);
        let Some(txs) = by_node.clone().map(|it| it.txs).max() else {
            return;
        };
        let behind = strong.iter().any(|it| {
            matches!(
                it.kind,
                EvidenceKind::Backlog
                    | EvidenceKind::BlocksFull { .. }
                    | EvidenceKind::BlocksOutOfGas { .. }
            )
        });
        let Facts {
            summary, signals, ..
        } = self.facts;
        // What blocks cost is reckoned from their headers' times.
        let by_blocks = summary.followed && !signals.header_clock.was_set();
        let Some((since_s, stage)) = signals.stages.finding(by_blocks, behind) else {
            let has_other = by_node.clone().any(|it| !it.kind.is_room());
            if by_blocks && has_other && signals.stages.has_few_blocks() {
                self.doubt_room();
            }
            return;
        };
        let until_s = summary.time.offered_s;
        let stretch = since_s.map(|from_s| Stretch {
            from_s,
            until_s,
            txs,
        });
        let strength = if stages::is_told(&stage, &strong, behind) {
            Strength::Strong
        } else {
            Strength::Remark
        };
        if strength == Strength::Strong {
            self.doubt_room();
        }
        let kind = EvidenceKind::SerialStage(stage);
        self.add(kind, strength, txs, stretch);
        // Before what it explains.
        self.found.rotate_right(1);
    }

    /// Full blocks are no limit where something else may be why they come so late; all else that speaks against the node
    /// still does.
    fn doubt_room(&mut self) {
        let room = self.found.iter_mut().filter(|it| it.kind.is_room());
        room.for_each(|it| it.strength = Strength::Remark);
    }

    /// What a reader has to know beside.
    fn remarks(&mut self) {
        let summary = self.facts.summary;
        let remark = Strength::Remark;
        if summary.model == LoadModel::Closed {
            let by = LimitedBy::Concurrency;
            self.add_against(by, EvidenceKind::ClosedLoop, remark, 0, WHOLE_RUN);
        }
        let cut_off = summary.offered.unsent_by_the_end();
        // It may have been during the drain, when the plan was done.
        if summary.interrupted || cut_off > 0 {
            let by = LimitedBy::Nothing;
            self.add_against(by, EvidenceKind::EndedEarly, remark, cut_off, WHOLE_RUN);
        }
    }
}

/// A silence that is not longer than the generator's own stall may be that stall.
const OWN_STALL_MARGIN: f64 = 1.25;
