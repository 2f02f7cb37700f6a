//! Writes that are offered to the node once more: after a broken connection, after a refusal by a full
//! mempool, and behind earlier ones of their account.
//!
//! Nothing is sent again before it is known what the node has: the blocks of the outage are read,
//! and one more block is awaited, because a restarted node may still commit what it had proposed.
//! What blocks show needs no further offer; the rest is offered again in the old order, before
//! anything else. A node that kept its mempool answers "already exists in cache", which does no
//! harm.

use std::collections::{HashSet, VecDeque};

use control::Hold;
use pacing::Nanos;

use super::job::{Job, TxHash};

/// The writes to be offered again, in order, and whether they may be by now.
#[derive(Debug, Default)]
pub(super) struct Reoffers {
    waiting: VecDeque<Job>,
    /// Refused by a full mempool, in order. They go out before those that are waiting.
    refused: Vec<Job>,
    /// When a node that refused is asked again.
    refused_until: Option<Nanos>,
    /// Those that wait for a block behind others of their account, in order.
    after_block: Vec<Job>,
    /// The node has them already; whether their check passed shows in a block.
    unconfirmed: VecDeque<Job>,
    recovery: Recovery,
}

/// From a broken connection to the moment at which it is known what the node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Recovery {
    #[default]
    NotNeeded,
    Disconnected,
    /// The connections are up again since this instant.
    AwaitingBlock(Nanos),
}

impl Reoffers {
    /// The connections broke while these were under way. NotNeeded => Disconnected
    pub(super) fn disconnected(&mut self, mut under_way: Vec<Job>) {
        for job in &mut under_way {
            job.ambiguous = true;
        }
        // What was under way was sent before anything that waits to be sent again.
        under_way.append(&mut self.refused);
        under_way.append(&mut self.after_block);
        self.refused_until = None;
        self.put_in_front(under_way);
        self.recovery = Recovery::Disconnected;
    }

    /// The connections are up again. Disconnected => AwaitingBlock, or NotNeeded if there is
    /// nothing to offer again.
    pub(super) fn connected(&mut self, now: Nanos, nothing_retained: bool) {
        self.recovery = match self.recovery {
            Recovery::NotNeeded => Recovery::NotNeeded,
            _ if nothing_retained && self.waiting.is_empty() => Recovery::NotNeeded,
            _ => Recovery::AwaitingBlock(now),
        };
    }

    /// Whether it is known now what the node has: a block came after the connections, or the chain
    /// has shown none for so long that none is to be expected. `interval` is the chain's own, 0 while
    /// unknown.
    pub(super) fn can_end_recovery(
        &self,
        now: Nanos,
        last_block: Option<Nanos>,
        interval: Nanos,
    ) -> bool {
        let Recovery::AwaitingBlock(since) = self.recovery else {
            return false;
        };
        last_block.is_some_and(|block| block > since)
            || now.saturating_sub(since) > patience(interval)
    }

    /// AwaitingBlock => NotNeeded. What the node had accepted and no block has shown goes first.
    pub(super) fn end_recovery(&mut self, accepted: Vec<Job>) {
        self.recovery = Recovery::NotNeeded;
        self.put_in_front(accepted);
    }

    /// The mempool is full: this one waits, and nothing is sent before `until`.
    pub(super) fn refused(&mut self, job: Job, until: Nanos) {
        self.refused_until.get_or_insert(until);
        self.refused.push(job);
    }

    /// The application's mempool is full: this one waits, and nothing is sent before a block, which makes room
    /// and takes back what checks have counted.
    pub(super) fn refused_until_block(&mut self, job: Job, now: Nanos, interval: Nanos) {
        let until = now.saturating_add(patience(interval));
        self.refused_until = self.refused_until.max(Some(until));
        self.refused.push(job);
    }

    /// This one waits for a block behind others of its account; other accounts go on.
    pub(super) fn await_block(&mut self, job: Job) {
        self.after_block.push(job);
    }

    /// Whether one that fits waits for a block.
    pub(super) fn awaits_block(&self, fits: impl Fn(&Job) -> bool) -> bool {
        self.after_block.iter().any(fits)
    }

    /// A block makes room in a full mempool, and counts the sequences of what it holds.
    pub(super) fn room_made(&mut self, now: Nanos) {
        let jobs = std::mem::take(&mut self.after_block);
        self.put_in_front(jobs);
        self.refused_until = self.refused_until.map(|until| until.min(now));
    }

    /// Goes on after a refusal. Only while nothing is under way, so that order holds.
    pub(super) fn end_refusal(&mut self, now: Nanos) {
        if self.refused_until.is_some_and(|until| until <= now) {
            self.refused_until = None;
            let refused = std::mem::take(&mut self.refused);
            self.put_in_front(refused);
        }
    }

    /// When a node that refused is asked again.
    pub(super) const fn refused_until(&self) -> Option<Nanos> {
        self.refused_until
    }

    /// Why nothing may be sent at the moment.
    pub(super) fn hold(&self) -> Option<Hold> {
        if self.recovery != Recovery::NotNeeded {
            return Some(Hold::Recovery);
        }
        self.refused_until.map(|_| Hold::Refused)
    }

    /// The node has this one already, and its answer was lost.
    pub(super) fn await_confirmation(&mut self, job: Job) {
        self.unconfirmed.push_back(job);
    }

    /// No connection takes this one.
    pub(super) fn push(&mut self, job: Job) {
        self.waiting.push_back(job);
    }

    /// This one waits behind others of its account that are here or under way.
    pub(super) fn push_behind(&mut self, job: Job) {
        match self.refused_until {
            // In the order of the answers, which is that of the account.
            Some(_) => self.refused.push(job),
            None => self.waiting.push_back(job),
        }
    }

    /// Whether one that fits is here.
    pub(super) fn any(&self, fits: impl Fn(&Job) -> bool) -> bool {
        self.refused.iter().chain(&self.waiting).any(fits)
    }

    /// The next one to be sent.
    pub(super) fn pop(&mut self) -> Option<Job> {
        self.waiting.pop_front()
    }

    /// Takes out those that a block shows.
    pub(super) fn take_shown(&mut self, block: &[TxHash]) -> Vec<(TxHash, Job)> {
        if self.waiting.is_empty() && self.unconfirmed.is_empty() && self.after_block.is_empty() {
            return Vec::new();
        }
        let hashes: HashSet<&TxHash> = block.iter().collect();
        self.take_if(|job| job.hash().is_some_and(|hash| hashes.contains(&hash)))
            .into_iter()
            .filter_map(|job| Some((job.hash()?, job)))
            .collect()
    }

    /// Takes out those whose deadline is over.
    pub(super) fn take_expired(&mut self, now: Nanos) -> Vec<Job> {
        self.take_if(|job| job.deadline <= now)
    }

    /// Takes out everything.
    pub(super) fn take_all(&mut self) -> Vec<Job> {
        let mut all = std::mem::take(&mut self.refused);
        all.append(&mut self.after_block);
        all.extend(self.take_if(|_| true));
        all
    }

    fn take_if(&mut self, matches: impl Fn(&Job) -> bool) -> Vec<Job> {
        let mut taken: Vec<Job> = self
            .after_block
            .extract_if(.., |job| matches(job))
            .collect();
        for list in [&mut self.waiting, &mut self.unconfirmed] {
            if list.iter().any(&matches) {
                let (matching, others) = std::mem::take(list).into_iter().partition(&matches);
                *list = others;
                taken.extend::<VecDeque<Job>>(matching);
            }
        }
        taken
    }

    fn put_in_front(&mut self, jobs: Vec<Job>) {
        for job in jobs.into_iter().rev() {
            self.waiting.push_front(job);
        }
    }

    /// Whether any wait that no mempool refused.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// How many wait to be sent.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.refused.len()
    }

    /// Whether nothing waits, neither to be sent nor for a block.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0 && self.unconfirmed.is_empty() && self.after_block.is_empty()
    }
}

/// How long a block is awaited on a chain with this interval between them, 0 while unknown.
fn patience(interval: Nanos) -> Nanos {
    let patience = interval.saturating_mul(INTERVALS);
    patience.clamp(NO_BLOCK, LONGEST_NO_BLOCK)
}

/// A chain that makes no empty blocks makes none while the node's mempool is empty.
const NO_BLOCK: Nanos = Nanos::from_secs(5);
/// Blocks of many chains are further apart: so many of the chain's own intervals are awaited,
const INTERVALS: u64 = 3;
/// but no longer than this. Without empty blocks an interval may be an hour.
const LONGEST_NO_BLOCK: Nanos = Nanos::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::testing::write;

    fn job(name: u8, deadline: u64) -> Job {
        let mut job = write(vec![name]);
        job.deadline = at(deadline);
        job
    }

    fn names(jobs: &[Job]) -> Vec<u8> {
        jobs.iter().map(|job| job.tx().unwrap()[0]).collect()
    }

    fn at(secs: u64) -> Nanos {
        Nanos::from_secs(secs)
    }

    #[test]
    fn what_was_under_way_goes_before_what_was_refused_and_what_waited() {
        let mut reoffers = Reoffers::default();
        reoffers.push(job(5, 60));
        reoffers.refused(job(3, 60), at(2));
        reoffers.refused(job(4, 60), at(2));
        reoffers.disconnected(vec![job(1, 60), job(2, 60)]);
        assert_eq!(reoffers.hold(), Some(Hold::Recovery));
        assert!(reoffers.refused_until().is_none());
        reoffers.connected(at(2), true);
        assert!(!reoffers.can_end_recovery(at(3), Some(at(2)), Nanos::ZERO));
        assert!(reoffers.can_end_recovery(at(3), Some(at(3)), Nanos::ZERO));
        reoffers.end_recovery(vec![job(0, 60)]);
        assert_eq!(reoffers.hold(), None);
        let all = reoffers.take_all();
        assert_eq!(names(&all), [0, 1, 2, 3, 4, 5]);
        let ambiguous = all.iter().map(|job| job.ambiguous);
        assert_eq!(
            ambiguous.collect::<Vec<_>>(),
            [false, true, true, false, false, false]
        );
    }

    #[test]
    fn acknowledged_67_recovery_ends_without_a_block_after_a_while_and_at_once_if_nothing_is_at_stake()
     {
        let mut reoffers = Reoffers::default();
        reoffers.disconnected(vec![job(1, 60)]);
        assert!(!reoffers.can_end_recovery(at(100), Some(at(99)), Nanos::ZERO));
        reoffers.connected(at(100), true);
        assert!(!reoffers.can_end_recovery(at(105), None, Nanos::ZERO));
        assert!(reoffers.can_end_recovery(at(106), None, Nanos::ZERO));
        // Where blocks are six seconds apart, or an hour.
        assert!(!reoffers.can_end_recovery(at(117), None, at(6)));
        assert!(reoffers.can_end_recovery(at(119), None, at(6)));
        assert!(!reoffers.can_end_recovery(at(159), None, at(3_600)));
        assert!(reoffers.can_end_recovery(at(161), None, at(3_600)));

        let mut reoffers = Reoffers::default();
        reoffers.disconnected(Vec::new());
        reoffers.connected(at(1), false);
        assert!(reoffers.hold().is_some());
        reoffers.connected(at(1), true);
        assert_eq!(reoffers.hold(), None);
    }

    #[test]
    fn a_refusal_holds_everything_until_its_time_or_a_block() {
        let mut reoffers = Reoffers::default();
        reoffers.push(job(2, 60));
        reoffers.refused(job(1, 60), at(2));
        assert!(reoffers.hold().is_some());
        reoffers.end_refusal(at(1));
        assert!(reoffers.hold().is_some());
        reoffers.room_made(at(1));
        reoffers.end_refusal(at(1));
        assert_eq!(reoffers.hold(), None);
        assert_eq!(
            names(&[reoffers.pop().unwrap(), reoffers.pop().unwrap()]),
            [1, 2]
        );
        assert!(reoffers.is_empty());
    }

    /// Those that two refusals left between them are not overtaken by the second.
    #[test]
    fn account_80_who_waits_behind_a_refused_one_keeps_its_place_before_the_next_refused_one() {
        let mut reoffers = Reoffers::default();
        reoffers.refused(job(1, 60), at(2));
        reoffers.push_behind(job(2, 60));
        reoffers.refused(job(3, 60), at(2));
        reoffers.push_behind(job(4, 60));
        reoffers.end_refusal(at(2));
        assert_eq!(names(&reoffers.take_all()), [1, 2, 3, 4]);
    }

    /// The application counts a refused transaction's sequence until a block: earlier it would be refused as used.
    #[test]
    fn account_80_what_an_application_refused_waits_for_a_block_and_not_for_less() {
        let mut reoffers = Reoffers::default();
        reoffers.refused(job(1, 600), at(1));
        reoffers.refused_until_block(job(2, 600), at(1), at(6));
        reoffers.end_refusal(at(18));
        assert_eq!(reoffers.hold(), Some(Hold::Refused));
        reoffers.room_made(at(18));
        reoffers.end_refusal(at(18));
        assert_eq!(
            names(&[reoffers.pop().unwrap(), reoffers.pop().unwrap()]),
            [1, 2]
        );
        // Where no block comes, three intervals are enough.
        reoffers.refused_until_block(job(3, 600), at(20), at(6));
        reoffers.end_refusal(at(38));
        assert_eq!(reoffers.hold(), None);
    }

    #[test]
    fn account_80_who_waits_for_a_block_behind_others_of_its_account_holds_nobody_else() {
        let mut reoffers = Reoffers::default();
        reoffers.await_block(job(2, 60));
        reoffers.await_block(job(3, 60));
        reoffers.push_behind(job(1, 60));
        assert_eq!((reoffers.hold(), reoffers.len()), (None, 1));
        assert!(!reoffers.any(|job| names(std::slice::from_ref(job)) == [2]));
        assert!(reoffers.awaits_block(|job| names(std::slice::from_ref(job)) == [2]));
        reoffers.room_made(at(1));
        assert_eq!(names(&reoffers.take_all()), [2, 3, 1]);
        // Deadlines, blocks and the end reach them too.
        reoffers.await_block(job(4, 10));
        assert!(!reoffers.is_empty());
        assert_eq!(names(&reoffers.take_expired(at(10))), [4]);
        reoffers.await_block(job(5, 10));
        let shown = reoffers.take_shown(&[job(5, 0).hash().unwrap()]);
        assert_eq!(shown.len(), 1);
        assert!(reoffers.is_empty());
    }

    #[test]
    fn shown_and_expired_writes_are_taken_out() {
        let mut reoffers = Reoffers::default();
        reoffers.push(job(1, 10));
        reoffers.push(job(2, 60));
        reoffers.await_confirmation(job(3, 10));
        reoffers.await_confirmation(job(4, 60));
        let hash = |name| job(name, 0).hash().unwrap();
        let shown = reoffers.take_shown(&[hash(9), hash(4), hash(2)]);
        let shown: Vec<Job> = shown.into_iter().map(|(_, job)| job).collect();
        assert_eq!(names(&shown), [2, 4]);
        assert_eq!(names(&reoffers.take_expired(at(10))), [1, 3]);
        assert!(reoffers.is_empty());
    }
}
