//! `broadcast_tx_commit` calls that wait for a block. One follower serves any number of them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use pacing::Nanos;
use rpc::FollowedBlock;
use tokio::task::JoinSet;

use super::answer;
use super::api::{Delivery, Outbox, WriteAnswer};
use super::job::{Job, Recipient, TxHash};
use crate::upstream::Nodes;

/// Calls that wait for a block with their transaction.
#[derive(Debug)]
pub(super) struct Commits {
    waiting: HashMap<TxHash, Vec<Waiter>>,
    /// When each call ends, in order: all wait equally long.
    deadlines: VecDeque<(Nanos, TxHash)>,
    count: usize,
    capacity: usize,
    timeout: Nanos,
    /// Answers on their way: the results of their blocks are being fetched.
    answering: JoinSet<()>,
}

/// One call that waits.
#[derive(Debug)]
struct Waiter {
    outbox: Arc<Outbox>,
    tag: u64,
    /// The member that answered its sync.
    check: Bytes,
    deadline: Nanos,
}

impl Waiter {
    fn deliver(&self, member: Bytes) {
        self.outbox.deliver(Delivery {
            tag: self.tag,
            answer: WriteAnswer::Member(member),
        });
    }
}

impl Commits {
    /// At most `capacity` calls wait at once, each for `timeout`.
    pub(super) fn new(capacity: usize, timeout: Nanos) -> Self {
        Self {
            waiting: HashMap::new(),
            deadlines: VecDeque::new(),
            count: 0,
            capacity,
            timeout,
            answering: JoinSet::new(),
        }
    }

    pub(super) const fn has_room(&self) -> bool {
        self.count < self.capacity
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// The check of a call has passed: from now on it waits. `now` never decreases.
    pub(super) fn add(&mut self, job: &Job, check: Bytes, now: Nanos) {
        if let (Recipient::Client { outbox, tag }, Some(hash)) = (&job.recipient, job.hash()) {
            let deadline = now.saturating_add(self.timeout);
            self.deadlines.push_back((deadline, hash));
            self.waiting.entry(hash).or_default().push(Waiter {
                outbox: Arc::clone(outbox),
                tag: *tag,
                check,
                deadline,
            });
            self.count += 1;
        }
    }

    /// Answers the calls whose transactions a block shows. Its results are fetched once for all.
    pub(super) fn answer(&mut self, block: &FollowedBlock, nodes: &Nodes, node: usize) {
        let waiters: Vec<_> = block
            .hashes
            .iter()
            .enumerate()
            .map(|(place, hash)| (place, *hash, self.take(hash)))
            .filter(|(_, _, waiters)| !waiters.is_empty())
            .collect();
        if waiters.is_empty() {
            return;
        }
        let (nodes, height) = (nodes.clone(), block.height);
        self.answering.spawn(async move {
            let results = nodes.results(node, height).await.ok();
            for (place, hash, waiters) in waiters {
                let result = results.as_ref().and_then(|all| all.tx_result(place));
                for waiter in waiters {
                    waiter.deliver(match result {
                        Some(text) => {
                            answer::committed(&waiter.check, &hash, text.as_bytes(), height)
                        }
                        None => answer::no_result(&hash, height),
                    });
                }
            }
        });
    }

    fn take(&mut self, hash: &TxHash) -> Vec<Waiter> {
        let waiters = self.waiting.remove(hash).unwrap_or_default();
        self.count -= waiters.len();
        waiters
    }

    /// Waits until the answers of a block are delivered; never ends if none are on their way.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(super) async fn answered(&mut self) {
        if self.answering.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Answers the calls whose time is over, with the node's own error and the hash.
    pub(super) fn expire(&mut self, now: Nanos) {
        while let Some((deadline, hash)) = self.deadlines.front().copied()
            && deadline <= now
        {
            self.deadlines.pop_front();
            let (over, waiting): (Vec<_>, Vec<_>) =
                (self.take(&hash).into_iter()).partition(|waiter| waiter.deadline <= now);
            for waiter in over {
                waiter.deliver(answer::commit_timed_out(&hash));
            }
            if !waiting.is_empty() {
                self.count += waiting.len();
                self.waiting.insert(hash, waiting);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use rpc::BroadcastMethod;

    use super::*;
    use crate::lane::api::WriteBody;
    use crate::ledger::Ledger;

    /// A commit of the transaction that is this one byte.
    fn job(tx: u8, outbox: &Arc<Outbox>, tag: u64) -> Job {
        Job {
            client: fairq::KeyScheme::default().key([127, 0, 0, 1].into()),
            connection: 1,
            body: WriteBody::Tx {
                method: BroadcastMethod::Commit,
                tx: Bytes::from(vec![tx]),
            },
            arrived: Nanos::ZERO,
            deadline: Nanos::from_secs(60),
            ambiguous: false,
            recipient: Recipient::Client {
                outbox: Arc::clone(outbox),
                tag,
            },
            reservation: Ledger::new(100).reserve(1).unwrap(),
        }
    }

    fn answers(outbox: &Outbox) -> Vec<(u64, String)> {
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(taken) = outbox.poll_take(&mut context) else {
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
        let mut commits = Commits::new(4, Nanos::from_secs(10));
        let check = Bytes::from_static(br#""result":{"code":0,"hash":""}"#);
        let calls = [(1, 1, 0), (1, 2, 1), (2, 3, 2), (2, 4, 3)];
        for (tx, tag, secs) in calls {
            let job = job(tx, &outbox, tag);
            commits.add(&job, check.clone(), Nanos::from_secs(secs));
        }
        assert!(!commits.has_room());
        let hash = job(1, &outbox, 0).hash().unwrap();
        assert_eq!(commits.take(&hash).len(), 2);
        assert_eq!((commits.take(&hash).len(), commits.len()), (0, 2));
        commits.expire(Nanos::from_secs(11));
        assert_eq!(answers(&outbox), []);
        for tag in [3, 4] {
            commits.expire(Nanos::from_secs(9 + tag));
            let answered = answers(&outbox);
            assert_eq!((answered.len(), answered[0].0), (1, tag));
            let text = "timed out waiting for tx to be included in a block";
            assert!(answered[0].1.contains(text));
        }
        assert!(commits.has_room() && commits.len() == 0);
    }
}
