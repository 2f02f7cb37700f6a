//! Whose transactions the node holds, as far as is known here.

use std::collections::VecDeque;

use pacing::Nanos;

use crate::throughput::BlockSeen;

/// Own transactions sent and in no block yet, and those of others that the node last reported.
///
/// Own ones are counted: sent, answered, seen in a block. Some leave the mempool without a block (a
/// failed recheck, a restart), so the count is bounded by the depth that the node reported last and
/// everything that was not answered by then, and what was in none of many blocks is forgotten.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    /// Sent and not answered.
    under_way: u64,
    /// Accepted and in no block yet.
    uncommitted: u64,
    /// Ever sent, ever accepted.
    sent: u64,
    accepted: u64,
    /// `accepted` at each of the last blocks, the oldest first.
    ages: VecDeque<u64>,
    /// What had been answered of `sent` at recent instants.
    answered: VecDeque<(Nanos, u64)>,
    others: u64,
    report: Option<DepthReport>,
    /// When the last block was announced, and when anything was heard of the chain.
    last_block: Nanos,
    heard: Nanos,
}

/// What the node reported as its depth, and what had been answered when it was asked.
#[derive(Clone, Copy, Debug)]
struct DepthReport {
    txs: u64,
    answered: u64,
}

/// Blocks after which an accepted transaction that is in none of them counts as dropped by the node.
/// A block takes what waits longest, and the window keeps what waits below a few blocks.
const LOST: usize = 16;
/// After so long without a block or a depth neither can be relied on.
pub(crate) const SILENCE: Nanos = Nanos::from_secs(10);
/// Instants kept, which are milliseconds apart under load: a depth is older than that never.
const INSTANTS: usize = 1_024;

impl Account {
    /// An empty mempool.
    pub(crate) fn new(now: Nanos) -> Self {
        Self {
            under_way: 0,
            uncommitted: 0,
            sent: 0,
            accepted: 0,
            ages: VecDeque::with_capacity(LOST + 1),
            answered: VecDeque::new(),
            others: 0,
            report: None,
            last_block: Nanos::ZERO,
            heard: now,
        }
    }

    /// So many are under way: what was sent and not answered yet. The caller counts them.
    pub(crate) const fn under_way(&mut self, count: usize) {
        self.under_way = count as u64;
    }

    /// So many were sent.
    pub(crate) fn sent(&mut self, now: Nanos, count: usize) {
        let answered = self.sent.saturating_sub(self.under_way);
        if self.answered.len() == INSTANTS {
            self.answered.pop_front();
        }
        self.answered.push_back((now, answered));
        self.sent += count as u64;
        self.under_way += count as u64;
    }

    /// So many of those that `sent` counted were not sent after all.
    pub(crate) fn unsent(&mut self, count: usize) {
        self.sent = self.sent.saturating_sub(count as u64);
        self.under_way = self.under_way.saturating_sub(count as u64);
    }

    /// The node took so many.
    pub(crate) fn accepted(&mut self, count: usize) {
        self.accepted += count as u64;
        self.under_way = self.under_way.saturating_sub(count as u64);
        self.uncommitted += count as u64;
    }

    /// The node refused one.
    pub(crate) const fn refused(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// The node held so many when it was asked at `asked`. One that was asked before the last block
    /// says nothing of what the block left.
    pub(crate) fn depth(&mut self, asked: Nanos, txs: usize) {
        self.heard = self.heard.max(asked);
        if asked <= self.last_block {
            return;
        }
        let after = self.answered.partition_point(|(at, _)| *at <= asked);
        let known = self.answered.get(after.saturating_sub(1));
        let answered = known.map_or(self.sent, |(_, answered)| *answered);
        let txs = txs as u64;
        self.others = txs.saturating_sub(self.counted());
        self.report = Some(DepthReport { txs, answered });
    }

    /// The node refused a transaction because it held `max` of them. How many of those are others'.
    pub(crate) fn full(&mut self, max: usize) -> u64 {
        self.others = (max as u64).saturating_sub(self.counted());
        self.others
    }

    /// A block; how many of its transactions were ours. Where that is not known, all that may be.
    pub(crate) fn block(&mut self, block: &BlockSeen) -> u64 {
        let txs = block.txs as u64;
        let ours = block
            .ours
            .map_or(self.counted(), |ours| ours as u64)
            .min(txs);
        self.uncommitted = self.uncommitted.saturating_sub(ours);
        self.others = self.others.saturating_sub(txs - ours);
        self.last_block = self.last_block.max(block.observed);
        self.heard = self.heard.max(block.observed);
        self.ages.push_back(self.accepted);
        if self.ages.len() > LOST {
            let old = self.ages.pop_front().unwrap_or(0);
            self.uncommitted = self.uncommitted.min(self.accepted - old);
        }
        ours
    }

    /// Own transactions sent and in no block yet. While neither blocks nor depths are known, only
    /// those that are not answered.
    pub(crate) fn own(&self, now: Nanos) -> u64 {
        if self.is_blind(now) {
            return self.under_way;
        }
        match &self.report {
            Some(report) => {
                let later = self.sent.saturating_sub(report.answered);
                self.counted().min(report.txs + later)
            }
            None => self.counted(),
        }
    }

    fn counted(&self) -> u64 {
        self.under_way + self.uncommitted
    }

    /// Transactions of others, as last reported and less those that blocks have taken since.
    pub(crate) fn others(&self, now: Nanos) -> u64 {
        if self.is_blind(now) { 0 } else { self.others }
    }

    /// Whether neither a block nor a depth was seen for long.
    pub(crate) fn is_blind(&self, now: Nanos) -> bool {
        now.saturating_sub(self.heard) > SILENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    fn block(txs: usize, ours: Option<usize>, observed: Nanos) -> BlockSeen {
        BlockSeen {
            height: 1,
            txs,
            ours,
            observed,
        }
    }

    fn sent_and_accepted(account: &mut Account, from_ms: u64, count: usize) {
        for ms in 0..count as u64 {
            account.sent(at(from_ms + ms), 1);
            account.accepted(1);
        }
    }

    #[test]
    fn what_is_sent_stays_until_a_block_or_a_refusal_takes_it() {
        let mut account = Account::new(at(0));
        account.sent(at(1), 10);
        assert_eq!(account.own(at(1)), 10);
        account.unsent(2);
        account.accepted(5);
        account.refused();
        assert_eq!(account.own(at(3)), 7);
        assert_eq!(account.block(&block(5, Some(5), at(900))), 5);
        assert_eq!(account.own(at(900)), 2);
        account.under_way(0);
        assert_eq!(account.own(at(900)), 0);
    }

    /// Without knowing whose transactions a block has, all that may be ours are taken for ours.
    #[test]
    fn unknown_shares_are_taken_for_ours() {
        let mut account = Account::new(at(0));
        sent_and_accepted(&mut account, 0, 100);
        assert_eq!(account.block(&block(70, None, at(500))), 70);
        assert_eq!(account.own(at(500)), 30);
    }

    #[test]
    fn others_are_what_the_node_holds_more() {
        let mut account = Account::new(at(0));
        sent_and_accepted(&mut account, 0, 100);
        account.depth(at(500), 350);
        assert_eq!((account.own(at(500)), account.others(at(500))), (100, 250));
        account.block(&block(300, Some(100), at(1_000)));
        assert_eq!((account.own(at(1_000)), account.others(at(1_000))), (0, 50));
        // Asked before the block: it counts what the block has taken.
        account.depth(at(999), 350);
        assert_eq!(account.others(at(1_000)), 50);
        assert_eq!(account.full(5_000), 5_000);
    }

    /// Transactions that leave the mempool without a block do not close the window: the depth that the
    /// node reports bounds the count, and after some blocks they are forgotten.
    #[test]
    fn what_is_in_no_block_is_forgotten() {
        let mut account = Account::new(at(0));
        sent_and_accepted(&mut account, 0, 400);
        account.depth(at(1_000), 20);
        assert_eq!(account.own(at(1_000)), 21);
        account.sent(at(1_001), 7);
        assert_eq!(account.own(at(1_001)), 28);

        let mut account = Account::new(at(0));
        sent_and_accepted(&mut account, 0, 400);
        for second in 1..=LOST as u64 + 1 {
            account.block(&block(0, Some(0), at(second * 1_000)));
        }
        assert_eq!(account.own(at(17_000)), 0);
    }

    /// A node that shows neither blocks nor depths is not waited for.
    #[test]
    fn in_silence_only_what_is_not_answered_counts() {
        let mut account = Account::new(at(0));
        sent_and_accepted(&mut account, 0, 400);
        account.sent(at(500), 3);
        assert_eq!(account.own(at(10_000)), 403);
        assert_eq!(account.own(at(10_001)), 3);
        account.depth(at(10_002), 400);
        assert_eq!(account.own(at(10_002)), 403);
    }
}
