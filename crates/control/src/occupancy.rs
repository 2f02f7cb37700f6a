//! How many transactions the node's mempool holds.

use std::collections::VecDeque;

use pacing::Nanos;

use crate::throughput::BlockSeen;

/// An upper estimate of what the mempool holds, from two sides.
///
/// *Counted*: what was accepted here and not committed yet, what is under way, and the estimated
/// part of others. *Bounded*: the depth the node told last, and everything sent since it was asked.
/// Both are upper bounds but for what others sent in the last half second, so the smaller one
/// counts. The first is exact when a block is seen, the second when the node was asked; the second
/// also heals the first when transactions leave the mempool without a block (a failed recheck, a
/// restart).
#[derive(Clone, Debug)]
pub struct Occupancy {
    /// Sent and not answered.
    under_way: u64,
    /// Accepted and in no block yet.
    uncommitted: u64,
    /// Ever sent, ever accepted.
    sent: u64,
    accepted: u64,
    /// Transactions of others at `anchor`, and how many more a second.
    others: f64,
    anchor: Nanos,
    others_rate: f64,
    last_block: Option<Nanos>,
    told: Option<Told>,
    trail: Trail,
    /// `accepted` at each of the last blocks, the oldest first.
    ages: VecDeque<u64>,
    forgotten: u64,
}

/// What the node said about its depth, and where the counts were when it was asked.
#[derive(Clone, Copy, Debug)]
struct Told {
    at: Nanos,
    txs: u64,
    mark: Mark,
}

/// Blocks after which an accepted transaction that is in none of them is taken for lost. A block
/// takes what waits longest, and what waits is kept below a few blocks.
const BLOCKS_TO_LIVE: usize = 16;
/// How long the word of the node counts.
const TOLD_TO_LIVE: Nanos = Nanos::from_secs(5);
/// A block is announced within this time.
const ANNOUNCING: Nanos = Nanos::from_millis(150);
/// Weight of the last block in the rate of others.
const OTHERS_WEIGHT: f64 = 0.3;

impl Occupancy {
    /// An empty mempool.
    pub fn new(now: Nanos) -> Self {
        Self {
            under_way: 0,
            uncommitted: 0,
            sent: 0,
            accepted: 0,
            others: 0.0,
            anchor: now,
            others_rate: 0.0,
            last_block: None,
            told: None,
            trail: Trail::default(),
            ages: VecDeque::with_capacity(BLOCKS_TO_LIVE + 1),
            forgotten: 0,
        }
    }

    /// So many are under way: what was sent and neither accepted nor refused yet. The caller knows.
    pub fn under_way(&mut self, count: usize) {
        self.under_way = count as u64;
    }

    /// So many were sent.
    pub fn sent(&mut self, now: Nanos, count: usize) {
        self.sent += count as u64;
        self.under_way += count as u64;
        self.mark(now);
    }

    /// So many of those that `sent` told of were not sent after all.
    pub fn unsent(&mut self, count: usize) {
        self.sent = self.sent.saturating_sub(count as u64);
        self.under_way = self.under_way.saturating_sub(count as u64);
    }

    /// The node took so many.
    pub fn accepted(&mut self, now: Nanos, count: usize) {
        let count = count as u64;
        self.under_way = self.under_way.saturating_sub(count);
        self.accepted += count;
        self.uncommitted += count;
        self.mark(now);
    }

    /// The node refused one.
    pub const fn refused(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// The node held so many when it was asked at `asked`.
    pub fn told(&mut self, asked: Nanos, txs: usize) {
        let mark = self.trail.at(asked).unwrap_or_else(|| self.now());
        let ours = (mark.under_way + mark.uncommitted) as f64;
        self.others = (txs as f64 - ours).max(0.0);
        self.anchor = asked;
        self.told = Some(Told {
            at: asked,
            txs: txs as u64,
            mark,
        });
    }

    /// The node refused a transaction because it held `max` of them.
    pub fn full(&mut self, now: Nanos, max: usize) {
        let ours = self.uncommitted as f64;
        self.others = self.others_at(now).max(max as f64 - ours);
        self.anchor = now;
        self.told = Some(Told {
            at: now,
            txs: max as u64,
            mark: self.now(),
        });
    }

    /// A block. Returns what the mempool held just before it, and how much of the block was ours.
    pub fn block(&mut self, block: &BlockSeen) -> (f64, f64) {
        let at = block.observed;
        let mark = self.trail.at(at).unwrap_or_else(|| self.now());
        let peak = self.peak(at, mark);
        let txs = block.txs as u64;
        let ours = (block.ours).map_or(mark.uncommitted + mark.under_way, |ours| ours as u64);
        let ours = ours.min(txs);
        self.uncommitted = self.uncommitted.saturating_sub(ours);
        self.others_left(at, (txs - ours) as f64);
        self.forget_old();
        self.trail.committed(at, ours);
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
            let young = self.accepted - old;
            self.forgotten += self.uncommitted.saturating_sub(young);
            self.uncommitted = self.uncommitted.min(young);
        }
    }

    /// The mempool was lost, or it is another node's.
    pub fn reset(&mut self, now: Nanos) {
        let (sent, accepted) = (self.sent, self.accepted);
        *self = Self {
            sent,
            accepted,
            forgotten: self.forgotten,
            ..Self::new(now)
        };
    }

    /// What the mempool holds at most.
    pub fn at(&self, now: Nanos) -> f64 {
        self.estimate(now, self.now())
    }

    fn estimate(&self, at: Nanos, mark: Mark) -> f64 {
        let counted = self.counted(at, mark);
        let Some(told) = &self.told else {
            return counted;
        };
        let age = at.saturating_sub(told.at);
        if age > TOLD_TO_LIVE {
            return counted;
        }
        let since = mark.sent.saturating_sub(told.mark.sent) + told.mark.under_way;
        let bounded = (told.txs + since) as f64 + self.others_rate * age.as_secs_f64();
        counted.min(bounded)
    }

    /// Just before a block the word of the node does not count when it is younger than the way of
    /// an announcement: the block may have been made already.
    fn peak(&self, at: Nanos, mark: Mark) -> f64 {
        match &self.told {
            Some(told) if at.saturating_sub(told.at) >= ANNOUNCING => self.estimate(at, mark),
            _ => self.counted(at, mark),
        }
    }

    fn counted(&self, at: Nanos, mark: Mark) -> f64 {
        (mark.under_way + mark.uncommitted) as f64 + self.others_at(at)
    }

    fn others_at(&self, at: Nanos) -> f64 {
        self.others + self.others_rate * at.saturating_sub(self.anchor).as_secs_f64()
    }

    /// Transactions a second that others commit.
    pub const fn others_rate(&self) -> f64 {
        self.others_rate
    }

    /// Accepted transactions that were given up because no block showed them.
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    const fn now(&self) -> Mark {
        Mark {
            at: Nanos::MAX,
            sent: self.sent,
            under_way: self.under_way,
            uncommitted: self.uncommitted,
        }
    }

    fn mark(&mut self, now: Nanos) {
        let mark = Mark {
            at: now,
            ..self.now()
        };
        self.trail.push(mark);
    }
}

/// The counts at an instant.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Nanos,
    sent: u64,
    under_way: u64,
    uncommitted: u64,
}

/// The counts of the last seconds, because blocks and depths are seen some time after they were
/// true.
#[derive(Clone, Debug, Default)]
struct Trail(VecDeque<Mark>);

/// Marks are this far apart, and so many are kept: five seconds.
const MARK_EVERY: Nanos = Nanos::from_millis(10);
const MARKS: usize = 512;

impl Trail {
    fn push(&mut self, mark: Mark) {
        match self.0.back_mut() {
            Some(last) if mark.at.saturating_sub(last.at) < MARK_EVERY => {
                // The instant of the first, the counts of the last: never later than true.
                *last = Mark {
                    at: last.at,
                    ..mark
                };
            }
            _ => {
                if self.0.len() == MARKS {
                    self.0.pop_front();
                }
                self.0.push_back(mark);
            }
        }
    }

    /// The counts at that instant, or the oldest that are known; none when nothing changed since.
    fn at(&self, at: Nanos) -> Option<Mark> {
        let after = self.0.partition_point(|mark| mark.at <= at);
        if after == self.0.len() {
            return None;
        }
        self.0.get(after.saturating_sub(1)).copied()
    }

    /// A block seen late: the counts since then did not know of it.
    fn committed(&mut self, at: Nanos, ours: u64) {
        let after = self.0.partition_point(|mark| mark.at <= at);
        for mark in self.0.range_mut(after..) {
            mark.uncommitted = mark.uncommitted.saturating_sub(ours);
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
        occupancy.told(at(500), 350);
        assert_eq!(occupancy.at(at(500)), 350.0);
        occupancy.block(&block(350, Some(100), at(1_000)));
        assert_eq!(occupancy.at(at(1_000)), 0.0);
        // The next second they send as many again.
        occupancy.block(&block(250, Some(0), at(2_000)));
        assert!(occupancy.others_rate() > 70.0);
        assert!(occupancy.at(at(2_500)) > 35.0);
    }

    /// Transactions that leave the mempool without a block do not close the gate: the word of the
    /// node bounds the count, and after some blocks they are forgotten.
    #[test]
    fn what_is_in_no_block_is_forgotten() {
        let mut occupancy = Occupancy::new(at(0));
        sent_and_accepted(&mut occupancy, 0, 400);
        occupancy.told(at(1_000), 20);
        assert_eq!(occupancy.at(at(1_000)), 20.0);
        // The node is silent from now on.
        assert_eq!(occupancy.at(at(8_000)), 400.0);
        for second in 8..8 + BLOCKS_TO_LIVE as u64 + 1 {
            occupancy.block(&block(0, Some(0), at(second * 1_000)));
        }
        assert_eq!(occupancy.at(at(30_000)), 0.0);
        assert_eq!(occupancy.forgotten(), 400);
    }

    #[test]
    fn a_refusal_tells_the_depth() {
        let mut occupancy = Occupancy::new(at(0));
        sent_and_accepted(&mut occupancy, 0, 400);
        occupancy.full(at(500), 5_000);
        assert_eq!(occupancy.at(at(500)), 5_000.0);
        occupancy.block(&block(5_000, Some(400), at(1_000)));
        assert_eq!(occupancy.at(at(1_000)), 0.0);
        occupancy.full(at(1_100), 5_000);
        occupancy.reset(at(1_200));
        assert_eq!(occupancy.at(at(1_200)), 0.0);
    }

    #[test]
    fn the_trail_is_bounded_and_its_oldest_mark_stands_for_older_ones() {
        let mut occupancy = Occupancy::new(at(0));
        sent_and_accepted(&mut occupancy, 0, 20_000);
        assert_eq!(occupancy.trail.0.len(), MARKS);
        let (peak, _) = occupancy.block(&block(1, Some(1), at(10)));
        assert!(peak > 14_000.0);
    }
}
