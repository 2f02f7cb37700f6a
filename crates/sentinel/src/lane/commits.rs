//! Blocks, and what waits for them: `broadcast_tx_commit` calls, any number of which one follower serves, and a node that
//! takes over, which reads what nodes made known while another one took the writes.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fairq::ClientKey;
use pacing::Nanos;
use rpc::FollowedBlock;
use tokio::task::JoinSet;

use super::answer;
use super::api::{Delivery, Outbox, WriteAnswer};
use super::job::{CommitPlace, Job, Recipient, TxHash};
use crate::budget::{Budget, Kind};
use crate::refusal::{Reason, Refusal};
use crate::upstream::{Nodes, UpstreamError};

/// Calls that wait for a block with their transaction.
#[derive(Debug)]
pub(super) struct Commits {
    waiting: HashMap<TxHash, Vec<Waiter>>,
    /// When each call ends, in order: all wait equally long.
    deadlines: VecDeque<(Nanos, TxHash)>,
    budget: Budget,
    /// Places in all, and what each that is taken has a clone of.
    capacity: usize,
    taken: Arc<()>,
    timeout: Nanos,
    /// Blocks that came while writes sent before them had no answer, the oldest first.
    early: VecDeque<EarlyBlock>,
    /// Calls whose transactions a block shows.
    due: Vec<(BlockPlace, TxHash)>,
    /// Answers on their way: the results of their blocks are being fetched.
    answering: JoinSet<()>,
}

/// One call that waits.
#[derive(Debug)]
struct Waiter {
    outbox: Arc<Outbox>,
    tag: u64,
    client: ClientKey,
    _place: Option<Box<CommitPlace>>,
    /// The member that answered its sync.
    check: Bytes,
    deadline: Nanos,
}

/// A block that may show transactions whose answers are still to be read.
#[derive(Debug)]
struct EarlyBlock {
    node: usize,
    height: u64,
    observed: Nanos,
    places: HashMap<TxHash, usize>,
}

/// Where a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockPlace {
    node: usize,
    height: u64,
    place: usize,
    /// Transactions of the block.
    txs: usize,
}

/// Calls to be answered with the results of a block: their transaction's place in it and its hash.
type Shown = Vec<(usize, TxHash, Vec<Waiter>)>;

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
    pub(super) fn new(budget: Budget, capacity: usize, timeout: Nanos) -> Self {
        Self {
            waiting: HashMap::new(),
            deadlines: VecDeque::new(),
            budget,
            capacity,
            taken: Arc::new(()),
            timeout,
            early: VecDeque::new(),
            due: Vec::new(),
            answering: JoinSet::new(),
        }
    }

    /// Gives a commit that is about to be sent its place to wait. A write that the node had accepted before has none.
    ///
    /// # Errors
    /// There is no place, or the client may have no more.
    pub(super) fn admit(&self, job: &Job) -> Result<(), Refusal> {
        let mut place = job.notes.commit_place.borrow_mut();
        if place.is_some() || !matches!(job.recipient, Recipient::Client { .. }) {
            return Ok(());
        }
        let free = (self.capacity + 1).saturating_sub(Arc::strong_count(&self.taken));
        if free == 0 {
            let text = "too many broadcast_tx_commit calls wait for a block; use broadcast_tx_sync";
            return Err(Refusal::new(Reason::Rate, text).retry_after(Duration::from_secs(1)));
        }
        let held = self
            .budget
            .hold(job.client, Kind::Commit, (free, self.capacity))?;
        *place = Some(Box::new(CommitPlace(held, Arc::clone(&self.taken))));
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.values().map(Vec::len).sum()
    }

    /// Whether no call waits and no answer is on its way.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.answering.is_empty()
    }

    /// The check of a call has passed that went to the node at `sent`: from now on it waits. `now`
    /// never decreases.
    pub(super) fn add(&mut self, job: &Job, check: Bytes, sent: Nanos, now: Nanos) {
        if let Recipient::Client { outbox, tag } = &job.recipient {
            let hash = job.hash();
            let deadline = now.saturating_add(self.timeout);
            self.deadlines.push_back((deadline, hash));
            self.waiting.entry(hash).or_default().push(Waiter {
                outbox: Arc::clone(outbox),
                tag: *tag,
                client: job.client,
                _place: job.notes.commit_place.take(),
                check,
                deadline,
            });
            let place = self.place(&hash, sent);
            self.due.extend(place.map(|place| (place, hash)));
        }
    }

    /// Whether a block has shown a transaction, sent at this instant, before its answer was read.
    pub(super) fn has_shown(&self, hash: &TxHash, sent: Nanos) -> bool {
        self.place(hash, sent).is_some()
    }

    /// The early block that shows a transaction sent at this instant.
    fn place(&self, hash: &TxHash, sent: Nanos) -> Option<BlockPlace> {
        let mut later = self.early.iter().filter(|block| block.observed >= sent);
        later.find_map(|block| {
            Some(BlockPlace {
                node: block.node,
                height: block.height,
                place: *block.places.get(hash)?,
                txs: block.places.len(),
            })
        })
    }

    /// A block. It is kept while writes sent before it have no answer; `oldest` is when the oldest write
    /// under way was sent.
    pub(super) fn block(&mut self, block: &FollowedBlock, node: usize, oldest: Option<Nanos>) {
        let waiting = |(_, hash): &(usize, &TxHash)| self.waiting.contains_key(*hash);
        let shown = block.hashes.iter().enumerate().filter(waiting);
        self.due.extend(shown.map(|(place, hash)| {
            let at = BlockPlace {
                node,
                height: block.height,
                place,
                txs: block.hashes.len(),
            };
            (at, *hash)
        }));
        let early = |observed| oldest.is_some_and(|sent| sent <= observed);
        self.early.retain(|block| early(block.observed));
        if early(block.observed) {
            self.early.push_back(EarlyBlock {
                node,
                height: block.height,
                observed: block.observed,
                places: (block.hashes.iter().copied()).zip(0..).collect(),
            });
            forget_oldest(&mut self.early, |block| block.places.len());
        }
    }

    /// Answers the calls whose transactions blocks have shown. The results of a block are fetched once for all its calls;
    /// where these are few, each asks for its own, which the node writes and sends without those of all others.
    pub(super) fn answer_due(&mut self, nodes: &Nodes) {
        for ((node, height, txs), shown) in self.take_due() {
            let is_alone = are_few(shown.len(), txs);
            let answering = answer_shown(nodes.clone(), (node, height), shown, is_alone);
            self.answering.spawn(answering);
        }
    }

    /// The calls that are due, by block, of as many blocks as may be asked about; the others stay due.
    fn take_due(&mut self) -> HashMap<(usize, u64, usize), Shown> {
        let mut blocks: HashMap<_, Shown> = HashMap::new();
        let free = MOST_ANSWERING.saturating_sub(self.answering.len());
        let due = if free == 0 {
            Vec::new()
        } else {
            std::mem::take(&mut self.due)
        };
        for (at, hash) in due {
            let block = (at.node, at.height, at.txs);
            if blocks.len() == free && !blocks.contains_key(&block) {
                self.due.push((at, hash));
                continue;
            }
            let waiters = self.take(&hash);
            if !waiters.is_empty() {
                let shown = blocks.entry(block).or_default();
                shown.push((at.place, hash, waiters));
            }
        }
        blocks
    }

    fn take(&mut self, hash: &TxHash) -> Vec<Waiter> {
        self.waiting.remove(hash).unwrap_or_default()
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
            if let Entry::Occupied(mut waiting) = self.waiting.entry(hash) {
                let is_over = |waiter: &mut Waiter| waiter.deadline <= now;
                for waiter in waiting.get_mut().extract_if(.., is_over) {
                    waiter.deliver(answer::commit_timed_out(&hash));
                }
                if waiting.get().is_empty() {
                    waiting.remove();
                }
            }
        }
    }
}

/// Answers calls that a block shows, from their transactions' own results or else from those of the block.
async fn answer_shown(nodes: Nodes, (node, height): (usize, u64), shown: Shown, is_alone: bool) {
    let version = nodes.version(node).unwrap_or_default();
    let mut all = None;
    for (place, hash, waiters) in shown {
        let own = match waiters.first().filter(|_| is_alone) {
            Some(first) => nodes.tx_result(node, first.client, (&hash, height)).await,
            None => Err(UpstreamError::Refused(String::new())),
        };
        // The node indexes no transactions.
        if all.is_none() && matches!(own, Err(UpstreamError::Refused(_))) {
            all = nodes.results(node, height).await.ok();
        }
        let own = own.as_ref().ok().and_then(|own| own.tx_result(0));
        let result = own.or_else(|| all.as_ref()?.tx_result(place));
        for waiter in waiters {
            waiter.deliver(match result {
                Some(text) => {
                    let executed = (text.as_bytes(), height);
                    answer::committed(version, &waiter.check, &hash, executed)
                }
                None => answer::no_result(&hash, height),
            });
        }
    }
}

/// Whether so many calls ask for their own transactions rather than for the results of all `txs` of a block.
const fn are_few(calls: usize, txs: usize) -> bool {
    calls <= MOST_ALONE && calls * RESULTS_A_QUESTION <= txs
}

/// A question costs a node about as much as so many results: some 10 kB of JSON (617 bytes each were measured with
/// a kvstore).
const RESULTS_A_QUESTION: usize = 16;
/// Questions about one block: they go one after the other, over one connection.
const MOST_ALONE: usize = 8;
/// Blocks that a node is asked about at once, over a connection each. Calls of others wait, and are asked about together.
const MOST_ANSWERING: usize = 16;

/// Forgets the oldest of the blocks that are kept, if they are too many or have too many transactions.
fn forget_oldest<B>(blocks: &mut VecDeque<B>, txs: impl Fn(&B) -> usize) {
    while blocks.len() > BLOCKS || blocks.iter().map(&txs).sum::<usize>() > HASHES {
        blocks.pop_front();
    }
}

/// Transactions of the blocks that are kept, some 5 MB: what some minutes bring, and more than a node brings while it owes
/// an answer (for at most `upstream.timeout`, then its connection is given up).
const HASHES: usize = 1 << 17;
/// Blocks that are kept, for chains whose blocks are empty.
const BLOCKS: usize = 256;

/// Blocks of passive nodes, the oldest first, and whose they are. When such a node takes over, they tell
/// what the one before it has committed, which is not to be offered again.
#[derive(Debug, Default)]
pub(super) struct PassiveBlocks(VecDeque<(usize, FollowedBlock)>);

impl PassiveBlocks {
    /// A passive node made this block known.
    pub(super) fn note(&mut self, node: usize, block: FollowedBlock) {
        self.0.push_back((node, block));
        forget_oldest(&mut self.0, |(_, block)| block.hashes.len());
    }

    /// The height of the highest; 0 without any.
    pub(super) fn height(&self) -> u64 {
        let heights = self.0.iter().map(|(_, block)| block.height);
        heights.max().unwrap_or(0)
    }

    /// Takes all of them.
    pub(super) fn take(&mut self) -> VecDeque<(usize, FollowedBlock)> {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests;
