//! How many transactions the node's mempool holds.

use std::collections::VecDeque;

use pacing::Nanos;

use crate::throughput::BlockSeen;

/// An upper estimate of what the mempool holds, from two sides.
///
/// *Counted*: what was accepted here and not committed yet, what is under way, and the estimated
/// part of others. *Bounded*: the depth that the node reported last, and everything sent since it
/// was asked. Both are upper bounds but for what others sent in the last half second, so the smaller
/// one counts. The first is exact when a block is seen, the second when the node was asked; the
/// second also corrects the first when transactions leave the mempool without a block (a failed
/// recheck, a restart).
#[derive(Clone, Debug)]
pub(crate) struct Occupancy {
    counts: Counts,
    /// Ever accepted.
    accepted: u64,
    /// Transactions of others at `anchor`, and how many more a second.
    others: f64,
    anchor: Nanos,
    others_rate: f64,
    last_block: Option<Nanos>,
    report: Option<DepthReport>,
    history: History,
    /// `accepted` at each of the last blocks, the oldest first.
    ages: VecDeque<u64>,
}

/// What was counted here.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Ever sent.
    sent: u64,
    /// Sent and not answered.
    under_way: u64,
    /// Accepted and in no block yet.
    uncommitted: u64,
}

impl Counts {
    /// What the mempool holds of it.
    fn held(self) -> f64 {
        (self.under_way + self.uncommitted) as f64
    }
}

/// What the node reported as its depth, and the counts when it was asked.
#[derive(Clone, Copy, Debug)]
struct DepthReport {
    at: Nanos,
    txs: u64,
    counts: Counts,
}

/// Blocks after which an accepted transaction that is in none of them counts as lost. A block
/// takes what waits longest, and what waits is kept below a few blocks.
const BLOCKS_TO_LIVE: usize = 16;
/// How long the depth that the node reported counts.
const REPORT_TO_LIVE: Nanos = Nanos::from_secs(5);
/// A block is announced within this time.
const ANNOUNCING: Nanos = Nanos::from_millis(150);
/// Weight of the last block in the rate of others.
const OTHERS_WEIGHT: f64 = 0.3;

impl Occupancy {
    /// An empty mempool.
    pub(crate) fn new(now: Nanos) -> Self {
        Self {
            counts: Counts::default(),
            accepted: 0,
            others: 0.0,
            anchor: now,
            others_rate: 0.0,
            last_block: None,
            report: None,
            history: History::default(),
            ages: VecDeque::with_capacity(BLOCKS_TO_LIVE + 1),
        }
    }

    /// So many are under way: what was sent and neither accepted nor refused yet. The caller counts them.
    pub(crate) const fn under_way(&mut self, count: usize) {
        self.counts.under_way = count as u64;
    }

    /// So many were sent.
    pub(crate) fn sent(&mut self, now: Nanos, count: usize) {
        self.counts.sent += count as u64;
        self.counts.under_way += count as u64;
        self.history.push(now, self.counts);
    }

    /// So many of those that `sent` counted were not sent after all.
    pub(crate) fn unsent(&mut self, count: usize) {
        self.counts.sent = self.counts.sent.saturating_sub(count as u64);
        self.counts.under_way = self.counts.under_way.saturating_sub(count as u64);
    }

    /// The node took so many.
    pub(crate) fn accepted(&mut self, now: Nanos, count: usize) {
        let count = count as u64;
        self.accepted += count;
        self.counts.under_way = self.counts.under_way.saturating_sub(count);
        self.counts.uncommitted += count;
        self.history.push(now, self.counts);
    }

    /// The node refused one.
    pub(crate) const fn refused(&mut self) {
        self.counts.under_way = self.counts.under_way.saturating_sub(1);
    }

    /// The node held so many when it was asked at `asked`.
    pub(crate) fn depth(&mut self, asked: Nanos, txs: usize) {
        let counts = self.counts_at(asked);
        self.others = (txs as f64 - counts.held()).max(0.0);
        self.report(asked, txs, counts);
    }

    /// The node refused a transaction because it held `max` of them.
    pub(crate) fn full(&mut self, now: Nanos, max: usize) {
        let ours = self.counts.uncommitted as f64;
        self.others = self.others_at(now).max(max as f64 - ours);
        self.report(now, max, self.counts);
    }

    fn report(&mut self, at: Nanos, txs: usize, counts: Counts) {
        self.anchor = at;
        let txs = txs as u64;
        self.report = Some(DepthReport { at, txs, counts });
    }

    /// The counts at an instant of the last seconds.
    fn counts_at(&self, at: Nanos) -> Counts {
        self.history.at(at).unwrap_or(self.counts)
    }

    /// A block. Returns what the mempool held just before it, and how much of the block was ours.
    pub(crate) fn block(&mut self, block: &BlockSeen) -> (f64, f64) {
        let at = block.observed;
        let counts = self.counts_at(at);
        let peak = self.peak(at, counts);
        let txs = block.txs as u64;
        let ours = (block.ours).map_or(counts.uncommitted + counts.under_way, |ours| ours as u64);
        let ours = ours.min(txs);
        self.counts.uncommitted = self.counts.uncommitted.saturating_sub(ours);
        self.others_left(at, (txs - ours) as f64);
        self.forget_old();
        self.history.committed(at, ours);
        (peak, ours as f64)
    }

    fn others_left(&mut self, at: Nanos, txs: f64) {
        self.others = (self.others_at(at) - txs).max(0.0);
        self.anchor = self.anchor.max(at);
        if let Some(last) = self.last_block {
            let interval = at.saturating_sub(last).as_secs_f64();
            if interval > 0.0 {
                self.others_rate += OTHERS_WEIGHT * (txs / interval - self.others_rate);
            }
        }
        self.last_block = Some(at);
    }

    fn forget_old(&mut self) {
        self.ages.push_back(self.accepted);
        if self.ages.len() > BLOCKS_TO_LIVE {
            let old = self.ages.pop_front().unwrap_or(0);
            let uncommitted = &mut self.counts.uncommitted;
            *uncommitted = (*uncommitted).min(self.accepted - old);
        }
    }

    /// What the mempool holds at most.
    pub(crate) fn at(&self, now: Nanos) -> f64 {
        self.estimate(now, self.counts)
    }

    fn estimate(&self, at: Nanos, counts: Counts) -> f64 {
        let counted = self.counted(at, counts);
        let Some(report) = &self.report else {
            return counted;
        };
        let age = at.saturating_sub(report.at);
        if age > REPORT_TO_LIVE {
            return counted;
        }
        let since = counts.sent.saturating_sub(report.counts.sent) + report.counts.under_way;
        let bounded = (report.txs + since) as f64 + self.others_rate * age.as_secs_f64();
        counted.min(bounded)
    }

    /// Just before a block a depth does not count that is younger than the block's announcement may
    /// be: the block may have been made already.
    fn peak(&self, at: Nanos, counts: Counts) -> f64 {
        match &self.report {
            Some(report) if at.saturating_sub(report.at) >= ANNOUNCING => self.estimate(at, counts),
            _ => self.counted(at, counts),
        }
    }

    fn counted(&self, at: Nanos, counts: Counts) -> f64 {
        counts.held() + self.others_at(at)
    }

    fn others_at(&self, at: Nanos) -> f64 {
        self.others + self.others_rate * at.saturating_sub(self.anchor).as_secs_f64()
    }
}

/// The counts of the last seconds, because blocks and depths are seen some time after they were
/// true.
#[derive(Clone, Debug, Default)]
struct History(VecDeque<(Nanos, Counts)>);

/// Entries are this far apart, and so many are kept: five seconds.
const EVERY: Nanos = Nanos::from_millis(10);
const ENTRIES: usize = 512;

impl History {
    fn push(&mut self, now: Nanos, counts: Counts) {
        match self.0.back_mut() {
            // The instant of the first, the counts of the last: never later than true.
            Some((at, last)) if now.saturating_sub(*at) < EVERY => *last = counts,
            _ => {
                if self.0.len() == ENTRIES {
                    self.0.pop_front();
                }
                self.0.push_back((now, counts));
            }
        }
    }

    fn after(&self, at: Nanos) -> usize {
        self.0.partition_point(|(entry, _)| *entry <= at)
    }

    /// The counts at that instant, or the oldest that are known; none when nothing changed since.
    fn at(&self, at: Nanos) -> Option<Counts> {
        let after = self.after(at);
        if after == self.0.len() {
            return None;
        }
        let (_, counts) = self.0.get(after.saturating_sub(1))?;
        Some(*counts)
    }

    /// A block seen late: the counts since then did not know of it.
    fn committed(&mut self, at: Nanos, ours: u64) {
        let after = self.after(at);
        for (_, counts) in self.0.range_mut(after..) {
            counts.uncommitted = counts.uncommitted.saturating_sub(ours);
        }
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

    fn sent_and_accepted(occupancy: &mut Occupancy, from_ms: u64, count: usize) {
        for ms in 0..count as u64 {
            occupancy.sent(at(from_ms + ms), 1);
            occupancy.accepted(at(from_ms + ms + 2), 1);
        }
    }

    #[test]
    fn what_is_sent_stays_until_a_block_or_a_refusal_takes_it() {
        let mut occupancy = Occupancy::new(at(0));
        occupancy.sent(at(1), 10);
        assert_eq!(occupancy.at(at(1)), 10.0);
        occupancy.unsent(2);
        occupancy.accepted(at(3), 5);
        occupancy.refused();
        assert_eq!(occupancy.at(at(3)), 7.0);
        let (peak, ours) = occupancy.block(&block(5, Some(5), at(900)));
        assert_eq!((peak, ours), (7.0, 5.0));
        assert_eq!(occupancy.at(at(900)), 2.0);
        occupancy.under_way(0);
        assert_eq!(occupancy.at(at(900)), 0.0);
    }

    /// A block is read some time after it was announced; what was sent since does not count.
    #[test]
    fn the_peak_is_that_of_the_announcement() {
        let mut occupancy = Occupancy::new(at(0));
        sent_and_accepted(&mut occupancy, 0, 1_000);
        let (peak, _) = occupancy.block(&block(900, Some(900), at(950)));
        assert!((930.0..=960.0).contains(&peak), "{peak}");
        assert_eq!(occupancy.at(at(1_010)), 100.0);
    }

    /// Without knowing whose transactions a block has, all that may be ours are taken for ours.
    #[test]
    fn unknown_shares_are_taken_for_ours() {
        let mut occupancy = Occupancy::new(at(0));
        sent_and_accepted(&mut occupancy, 0, 100);
        let (_, ours) = occupancy.block(&block(70, None, at(500)));
        assert_eq!((ours, occupancy.at(at(500))), (70.0, 30.0));
    }

    #[test]
    fn others_are_what_the_node_holds_more() {
        let mut occupancy = Occupancy::new(at(0));
        sent_and_accepted(&mut occupancy, 0, 100);
        occupancy.depth(at(500), 350);
        assert_eq!(occupancy.at(at(500)), 350.0);
        occupancy.block(&block(350, Some(100), at(1_000)));
        assert_eq!(occupancy.at(at(1_000)), 0.0);
        // The next second they send as many again.
        occupancy.block(&block(250, Some(0), at(2_000)));
        assert!(occupancy.others_rate > 70.0);
        assert!(occupancy.at(at(2_500)) > 35.0);
    }

    /// Transactions that leave the mempool without a block do not close the gate: the depth that the
    /// node reports bounds the count, and after some blocks they are forgotten.
    #[test]
    fn what_is_in_no_block_is_forgotten() {
        let mut occupancy = Occupancy::new(at(0));
        sent_and_accepted(&mut occupancy, 0, 400);
        occupancy.depth(at(1_000), 20);
        assert_eq!(occupancy.at(at(1_000)), 20.0);
        // The node reports nothing from now on.
        assert_eq!(occupancy.at(at(8_000)), 400.0);
        for second in 8..8 + BLOCKS_TO_LIVE as u64 + 1 {
            occupancy.block(&block(0, Some(0), at(second * 1_000)));
        }
        assert_eq!(occupancy.at(at(30_000)), 0.0);
    }

    #[test]
    fn a_refusal_tells_the_depth() {
        let mut occupancy = Occupancy::new(at(0));
        sent_and_accepted(&mut occupancy, 0, 400);
        occupancy.full(at(500), 5_000);
        assert_eq!(occupancy.at(at(500)), 5_000.0);
        occupancy.block(&block(5_000, Some(400), at(1_000)));
        assert_eq!(occupancy.at(at(1_000)), 0.0);
    }

    #[test]
    fn the_history_is_bounded_and_its_oldest_entry_stands_for_older_ones() {
        let mut occupancy = Occupancy::new(at(0));
        sent_and_accepted(&mut occupancy, 0, 20_000);
        assert_eq!(occupancy.history.0.len(), ENTRIES);
        let (peak, _) = occupancy.block(&block(1, Some(1), at(10)));
        assert!(peak > 14_000.0);
    }
}
