//! Who waits for a block: one follower serves any number of `broadcast_tx_commit` calls.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use pacing::Nanos;

use super::answer;
use super::api::{Delivery, Outbox, WriteAnswer};
use super::job::TxHash;

/// Calls that wait for a block with their transaction.
#[derive(Debug)]
pub(super) struct Commits {
    waiting: HashMap<TxHash, Vec<Waiter>>,
    /// When each call gives up, in order: all wait equally long.
    deadlines: VecDeque<(Nanos, TxHash)>,
    count: usize,
    capacity: usize,
}

/// One call that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) outbox: Arc<Outbox>,
    pub(super) tag: u64,
    /// The member that answered its sync.
    pub(super) check: Bytes,
    pub(super) deadline: Nanos,
}

impl Waiter {
    /// Answers with the block's result.
    pub(super) fn committed(&self, hash: &TxHash, tx_result: &[u8], height: u64) {
        self.deliver(answer::committed(&self.check, hash, tx_result, height));
    }

    /// Answers that it is in a block whose result cannot be had.
    pub(super) fn no_result(&self, hash: &TxHash, height: u64) {
        self.deliver(answer::no_result(hash, height));
    }

    fn deliver(&self, member: Bytes) {
        self.outbox.deliver(Delivery {
            tag: self.tag,
            answer: WriteAnswer::Member(member),
        });
    }
}

impl Commits {
    /// At most `capacity` calls wait at once.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            waiting: HashMap::new(),
            deadlines: VecDeque::new(),
            count: 0,
            capacity,
        }
    }

    pub(super) const fn has_room(&self) -> bool {
        self.count < self.capacity
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// Adds a call. Deadlines never decrease from call to call.
    pub(super) fn add(&mut self, hash: TxHash, waiter: Waiter) {
        self.deadlines.push_back((waiter.deadline, hash));
        self.waiting.entry(hash).or_default().push(waiter);
        self.count += 1;
    }

    /// The calls that waited for a transaction.
    pub(super) fn take(&mut self, hash: &TxHash) -> Vec<Waiter> {
        let waiters = self.waiting.remove(hash).unwrap_or_default();
        self.count -= waiters.len();
        waiters
    }

    /// Answers the calls whose time is over, with the node's own error and the hash.
    pub(super) fn expire(&mut self, now: Nanos) -> usize {
        let mut expired = 0;
        while let Some((deadline, hash)) = self.deadlines.front().copied()
            && deadline <= now
        {
            self.deadlines.pop_front();
            let Some(waiters) = self.waiting.get_mut(&hash) else {
                continue;
            };
            waiters.retain(|waiter| {
                let over = waiter.deadline <= now;
                if over {
                    waiter.deliver(answer::commit_timed_out(&hash));
                    expired += 1;
                }
                !over
            });
            if waiters.is_empty() {
                self.waiting.remove(&hash);
            }
        }
        self.count -= expired;
        expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(outbox: &Arc<Outbox>, tag: u64, deadline: u64) -> Waiter {
        Waiter {
            outbox: outbox.clone(),
            tag,
            check: Bytes::from_static(br#""result":{"code":0,"hash":""}"#),
            deadline: Nanos::from_secs(deadline),
        }
    }

    fn answers(outbox: &Outbox) -> Vec<(u64, String)> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let std::task::Poll::Ready(taken) = outbox.poll_take(&mut context) else {
            return Vec::new();
        };
        let text = |answer| match answer {
            WriteAnswer::Member(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        };
        taken
            .into_iter()
            .map(|one| (one.tag, text(one.answer)))
            .collect()
    }

    #[test]
    fn every_call_of_a_transaction_is_answered_once() {
        let outbox = Outbox::new();
        let mut commits = Commits::new(3);
        commits.add([1; 32], waiter(&outbox, 1, 10));
        commits.add([1; 32], waiter(&outbox, 2, 11));
        commits.add([2; 32], waiter(&outbox, 3, 12));
        assert!(!commits.has_room());
        for waiter in commits.take(&[1; 32]) {
            waiter.committed(&[1; 32], answer::NOT_EXECUTED, 5);
        }
        assert_eq!(commits.len(), 1);
        let answered = answers(&outbox);
        assert_eq!(answered.len(), 2);
        assert!(answered[0].1.contains("\"height\":\"5\""));
        assert_eq!(commits.expire(Nanos::from_secs(11)), 0);
        assert_eq!(commits.expire(Nanos::from_secs(12)), 1);
        let answered = answers(&outbox);
        assert_eq!(answered[0].0, 3);
        assert!(
            answered[0]
                .1
                .contains("timed out waiting for tx to be included in a block")
        );
        assert!(commits.has_room() && commits.len() == 0);
    }
}
