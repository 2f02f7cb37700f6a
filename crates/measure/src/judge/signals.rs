//! What the course of a load shows beside its totals: stretches without an answer or a block, refusals and their
//! likely cause, full blocks, the fullest mempool. Taken from the rows, so that it is the same for a run that ends, one
//! that was killed and one that was merged; constant in size.

use pacing::Nanos;

use super::Facts;
use crate::format::SECOND;
use crate::format::code::Subjects;
use crate::format::event::Failure;
use crate::format::evidence::LimitedBy;
use crate::format::rows::{BlockRow, SeriesRow};
use crate::judge::endpoints::EndpointSilence;
use crate::judge::header_clock::HeaderClock;
use crate::judge::stages::Stages;
use crate::limits::{BACKLOG_BLOCKS, FROM_THE_START, SAMPLED_WITHIN};
use crate::stats::silence::{Silence, Stretch, Tenths};

/// Blocks that left transactions out, while more than a block waited.
///
/// Blocks of an even load are of one size, too, and what waits may wait for something else. So a block
/// counts only if it holds a transaction that was due before the third last block was seen: the two since had no
/// room for it. One alone may have been made before it came: while a block is executed, the next one is not seen yet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FullBlocks {
    /// Transactions in the largest block.
    pub(crate) largest: u64,
    /// How many hold what was left out, of how many since the first one, and by the last that did.
    full: u64,
    of: u64,
    of_by_last: u64,
    pub(crate) stretch: Stretch,
    /// When the last blocks were seen, the last one first.
    seen: [Option<u64>; 3],
}

impl FullBlocks {
    fn block(&mut self, block: &BlockRow) {
        let observed_s = block.observed_ns as f64 / 1e9;
        let is_full = self.was_left_out(block);
        self.seen = [Some(block.observed_ns), self.seen[0], self.seen[1]];
        self.largest = self.largest.max(block.txs);
        if is_full && self.full == 0 {
            self.stretch = Stretch {
                from_s: observed_s,
                ..Stretch::default()
            };
        }
        self.full += u64::from(is_full);
        self.of += u64::from(self.full > 0);
        if is_full {
            self.of_by_last = self.of;
            self.stretch.extend(observed_s, 0);
        }
    }

    /// Whether the block holds a transaction that the two before it left out.
    fn was_left_out(&self, block: &BlockRow) -> bool {
        let oldest_ns = block
            .commit_max_ms
            .map(|wait_ms| block.observed_ns as f64 - wait_ms * 1e6);
        let pair = oldest_ns.zip(self.seen[2]);
        pair.is_some_and(|(due_ns, seen_ns)| due_ns < seen_ns as f64)
    }

    /// After a second of offering: a block that left little behind was not full.
    fn second(&mut self, blocks: u64, backlog: u64) {
        if blocks > 0 && (backlog as f64) < BACKLOG_BLOCKS * self.largest as f64 {
            (self.full, self.of) = (0, 0);
        }
        self.stretch.txs = self.stretch.txs.max(backlog);
    }

    /// Whether it is a rule: several, and most from the first to the last.
    pub(crate) const fn are_a_rule(&self) -> bool {
        self.full >= FEWEST_FULL && 2 * self.full >= self.of_by_last
    }
}

/// Blocks that another transaction of the common gas would not fit into, while transactions waited.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OutOfGas {
    /// Gas that a block may have.
    pub(crate) limit: u64,
    /// Transactions in the last of them.
    pub(crate) txs: u64,
    /// How many there were, of how many since the first.
    full: u64,
    of: u64,
    pub(crate) stretch: Stretch,
}

impl OutOfGas {
    fn block(&mut self, block: &BlockRow, limit: Option<u64>, observed_s: f64) {
        let (Some(limit), Some(wanted)) = (limit, block.gas_wanted) else {
            return;
        };
        let common = wanted / block.txs.max(1);
        let is_full = wanted > 0 && wanted + common > limit;
        if is_full && self.full == 0 {
            self.stretch = Stretch {
                from_s: observed_s,
                ..Stretch::default()
            };
        }
        if is_full {
            (self.limit, self.txs) = (limit, block.txs);
            self.full += 1;
            self.stretch.extend(observed_s, 0);
        }
        self.of += u64::from(self.full > 0);
    }

    fn second(&mut self, backlog: u64) {
        if self.full > 0 {
            self.stretch.txs = self.stretch.txs.max(backlog);
        }
    }

    /// Whether it is a rule, and more waited than a block takes.
    pub(crate) fn limits(&self) -> bool {
        let is_rule = self.full >= FEWEST_FULL && 2 * self.full >= self.of;
        is_rule && self.stretch.txs as f64 > BACKLOG_BLOCKS * self.txs as f64
    }
}

/// The largest value, and since when it was nearly reached.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Peak {
    pub(crate) txs: u64,
    pub(crate) since_s: f64,
    /// The value then.
    level: u64,
}

impl Peak {
    fn second(&mut self, txs: u64, from_s: f64) {
        self.txs = self.txs.max(txs);
        if txs as f64 > self.level as f64 * (1.0 + ALIKE) {
            (self.level, self.since_s) = (txs, from_s);
        }
    }
}

/// Everything that shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct OverloadSignals {
    /// No answer while requests waited.
    pub(crate) no_answers: Silence,
    /// The same of single endpoints.
    pub(crate) silent_endpoints: Vec<EndpointSilence>,
    /// No block while accepted transactions waited.
    pub(crate) no_blocks: Silence,
    /// From the first second with a refusal to the last.
    pub(crate) refusals: Option<Stretch>,
    pub(crate) full_blocks: FullBlocks,
    pub(crate) out_of_gas: OutOfGas,
    /// The fullest mempool.
    pub(crate) mempool: Peak,
    /// What the fullest held in the last second with a sample, where all were known.
    mempool_last: Option<u64>,
    /// The end of that second.
    sampled_s: Option<f64>,
    /// The largest backlog while transactions were offered.
    pub(crate) backlog: Peak,
    /// Accepted and in no block when the offering ended.
    pub(crate) backlog_offered: u64,
    /// The first block after that.
    pub(crate) next_block: Option<Nanos>,
    pub(crate) stages: Stages,
    pub(crate) header_clock: HeaderClock,
    /// Blocks since the last one that contained a transaction of this run.
    pub(crate) blocks_since_own: u64,
    last_block: Option<Nanos>,
    /// Due, and neither sent nor given up.
    waiting: u64,
}

impl OverloadSignals {
    /// Takes the next block, before the second it was observed in; `gas` is what a block may have.
    pub(crate) fn block(&mut self, block: &BlockRow, gas: Option<u64>) {
        let observed_s = block.observed_ns as f64 / 1e9;
        let observed = Nanos::from_nanos(block.observed_ns);
        self.last_block = Some(observed);
        self.next_block.get_or_insert(observed);
        self.blocks_since_own = match block.own_txs {
            0 => self.blocks_since_own + 1,
            _ => 0,
        };
        self.stages.block(block);
        self.header_clock.block(block);
        self.full_blocks.block(block);
        self.out_of_gas.block(block, gas, observed_s);
    }

    /// Whether the mempools may hold so many transactions at the end of a run: they did, or some were not sampled any more.
    /// Of mempools that never were sampled nothing is known, and blocks have to show it.
    pub(crate) fn may_wait_in_mempools(&self, txs: u64, ended_s: f64) -> bool {
        self.sampled_s.is_some_and(|sampled_s| {
            let were_sampled = ended_s - sampled_s <= SAMPLED_WITHIN.as_secs_f64();
            !were_sampled || self.mempool_last.is_none_or(|waiting| waiting >= txs)
        })
    }

    /// Takes the next second.
    pub(crate) fn second(&mut self, row: &SeriesRow) {
        let counts = &row.counts;
        let (from_s, until_s) = (row.second as f64, row.second as f64 + row.span_s);
        let due = self.waiting + counts.offered;
        self.waiting = due.saturating_sub(counts.sent + counts.unsent);
        let answers = counts.accepted + counts.rejected + counts.errors;
        // Without a connection nothing is in flight; then the chain has to be silent, too.
        let is_chain_silent = counts.blocks == 0 && self.last_block.is_some();
        let cut_off = counts.sent == 0 && self.waiting > 0 && is_chain_silent;
        let waits = row.in_flight > 0 || cut_off;
        let held = if waits {
            row.in_flight + self.waiting
        } else {
            0
        };
        let start = SECOND.saturating_mul(row.second);
        // A row is of a second at most, whatever a file contains.
        let span_ns = (row.span_s.min(1.0) * 1e9) as u64;
        let end = start.saturating_add(Nanos::from_nanos(span_ns));
        let answered = if answers > 0 {
            Tenths::ALL
        } else {
            Tenths::default()
        };
        self.no_answers.pass(start, end, answered, held);
        EndpointSilence::second(&mut self.silent_endpoints, &row.silent);
        let blocks = match self.last_block.filter(|_| counts.blocks > 0) {
            None => Tenths::default(),
            // The first one ended what was silent before it, the last one begins what follows.
            Some(last) => Tenths::at([start, last.clamp(start, end)]),
        };
        self.no_blocks.pass(start, end, blocks, row.backlog);
        if counts.rejected > 0 {
            let begun = Stretch {
                from_s,
                until_s,
                txs: 0,
            };
            self.refusals.get_or_insert(begun).extend(until_s, 0);
        }
        let deepest = row.mempool_max.max(row.mempool_txs);
        if deepest.is_some() {
            (self.mempool_last, self.sampled_s) = (row.mempool_txs, Some(until_s));
        }
        self.mempool.second(deepest.unwrap_or(0), from_s);
        self.stages.second(row);
        if row.step.is_some() {
            self.backlog.second(row.backlog, from_s);
            (self.backlog_offered, self.next_block) = (row.backlog, None);
            self.full_blocks.second(counts.blocks, row.backlog);
            self.out_of_gas.second(row.backlog);
        }
    }
}

/// Sizes of blocks and mempools this close are the same: a block of several hundred transactions varies
/// by a few when they differ in size.
const ALIKE: f64 = 0.02;
/// Two blocks of one size are chance.
const FEWEST_FULL: u64 = 3;

/// Transactions that the node did not take, or not to good effect, for what they are, whenever that began.
pub(super) struct ByWorkload {
    pub(super) refused: u64,
    pub(super) failed: u64,
    /// Without an answer of their own, since one before them was refused.
    pub(super) followed: u64,
}

impl ByWorkload {
    pub(super) fn of(facts: Facts<'_>) -> Self {
        let fate = &facts.summary.fate;
        let mut refused = Subjects::of(&fate.rejected_by_code);
        if facts.summary.refused_by_workload().is_some() || refuses_from_the_start(facts) {
            refused.transaction += refused.unclear;
        }
        let followed = [Failure::SequenceBroken, Failure::Dead];
        let followed = followed.map(|kind| fate.errors_by_kind.get(kind.name()).unwrap_or(&0));
        // Those behind a refusal that the node is the cause of are the node's as well.
        let is_refused = 2 * refused.transaction > fate.rejected;
        Self {
            refused: refused.transaction,
            failed: Subjects::of(&fate.commit_failed_by_code).transaction,
            followed: followed.into_iter().sum::<u64>() * u64::from(is_refused),
        }
    }
}

/// Whether refusals began with the load: a limit of the node shows when it is reached.
fn refuses_from_the_start(facts: Facts<'_>) -> bool {
    let Facts {
        summary, signals, ..
    } = facts;
    let refused = summary.refused_by_application();
    let soon_s = FROM_THE_START * summary.time.offered_s / refused.max(1) as f64;
    let refusals = signals.refusals;
    refusals.is_some_and(|refusals| refusals.from_s <= soon_s)
}

/// The likely cause of refusals of which so many are the workload's.
pub(super) const fn mostly(by_workload: u64, of: u64) -> LimitedBy {
    if 2 * by_workload > of {
        LimitedBy::Workload
    } else {
        LimitedBy::Node
    }
}
