//! `broadcast_tx_commit` calls that wait for a block. One follower serves any number of them.

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
    count: usize,
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
            count: 0,
            budget,
            capacity,
            taken: Arc::new(()),
            timeout,
            early: VecDeque::new(),
            due: Vec::new(),
            answering: JoinSet::new(),
        }
    }

    /// At most so many calls wait from now on, but for those that wait already.
    pub(super) const fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// Gives a commit that is about to be sent its place to wait. What the node had accepted before waits for nobody.
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

    pub(super) const fn len(&self) -> usize {
        self.count
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
            self.count += 1;
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
            let hashes = |early: &VecDeque<EarlyBlock>| -> usize {
                early.iter().map(|block| block.places.len()).sum()
            };
            while self.early.len() > EARLY || hashes(&self.early) > EARLY_HASHES {
                self.early.pop_front();
            }
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

/// Early blocks that are kept, and transactions of them: as many as a node makes while it owes an answer (for at most
/// `upstream.timeout`, then its connection is given up), some 5 MB.
const EARLY: usize = 256;
const EARLY_HASHES: usize = 1 << 17;

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::task::{Context, Poll, Waker};

    use fairq::KeyScheme;

    use super::*;
    use crate::lane::testing::write;

    /// A write of the transaction that is this one byte, whose block is awaited.
    fn job(tx: u8, outbox: &Arc<Outbox>, tag: u64) -> Job {
        let mut job = write(vec![tx]);
        let outbox = Arc::clone(outbox);
        job.recipient = Recipient::Client { outbox, tag };
        job
    }

    fn commits(capacity: usize, timeout: Nanos) -> Commits {
        let budget = Budget::new(&crate::config::Config::default(), [1, 2]);
        Commits::new(budget, capacity, timeout)
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
        let mut commits = commits(8, Nanos::from_secs(10));
        let check = Bytes::from_static(br#""result":{"code":0,"hash":""}"#);
        let calls = [(1, 1, 0), (1, 2, 1), (2, 3, 2), (2, 4, 3)];
        for (tx, tag, secs) in calls {
            let job = job(tx, &outbox, tag);
            let now = Nanos::from_secs(secs);
            assert!(commits.admit(&job).is_ok());
            commits.add(&job, check.clone(), now, now);
        }
        assert!(commits.admit(&job(3, &outbox, 5)).is_err());
        let hash = job(1, &outbox, 0).hash();
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
        assert!(commits.admit(&job(3, &outbox, 5)).is_ok() && commits.len() == 0);
    }

    /// At 2b52556 one WebSocket took all places: 40 of 44 commits of another client were refused.
    #[test]
    fn sharing_93_one_client_leaves_others_room_to_wait_for_their_blocks() {
        const ALL: usize = 200;
        let outbox = Outbox::new();
        let mut commits = commits(ALL, Nanos::from_secs(10));
        let of = |commits: &Commits, address: IpAddr, most: usize| {
            let commit = |tag| {
                let mut job = job(1, &outbox, tag);
                job.client = KeyScheme::default().key(address);
                job
            };
            let jobs = (0..most as u64).map(commit);
            jobs.take_while(|job| commits.admit(job).is_ok())
                .collect::<Vec<_>>()
        };
        let client = |last: u8| IpAddr::from([192, 0, 2, last]);
        let greedy = of(&commits, client(1), ALL);
        assert_eq!(greedy.len(), 94);
        // Under way they count already, and waiting they count until they are answered.
        let waits = |commits: &mut Commits, job: &Job| {
            let now = Nanos::from_secs(1);
            commits.add(job, Bytes::new(), now, now);
        };
        greedy.iter().for_each(|job| waits(&mut commits, job));
        drop(greedy);
        assert_eq!(of(&commits, client(1), 1).len(), 0);
        let polite: Vec<_> = (2..12).map(|last| of(&commits, client(last), 5)).collect();
        assert!(polite.iter().all(|places| places.len() == 5));
        // The networks of one /48 are a few clients.
        let network = |net: u16| IpAddr::from([0x2001, 0xdb8, 7, net, 0, 0, 0, 1]);
        let crowd: Vec<_> = (0..ALL as u16)
            .flat_map(|net| of(&commits, network(net), 1))
            .collect();
        assert!(crowd.len() < 50, "{}", crowd.len());
        assert_eq!(of(&commits, client(20), 2).len(), 2);
        drop((polite, crowd));
        commits.expire(Nanos::from_secs(100));
        assert_eq!(of(&commits, client(1), ALL).len(), 94);
    }

    /// While a node answered slowly, each block with a call that waited took one more connection to it.
    #[tokio::test]
    async fn case_93_results_are_asked_for_over_a_few_connections() {
        let outbox = Outbox::new();
        let mut commits = commits(100, Nanos::from_secs(10));
        let now = Nanos::from_secs(1);
        // Two calls for each of 20 blocks, and a last block with 40.
        for tx in 0..80_u8 {
            commits.add(&job(tx, &outbox, tx.into()), Bytes::new(), now, now);
            let hash = job(tx, &outbox, 0).hash();
            let at = BlockPlace {
                node: 0,
                height: u64::from(tx / 2).min(20),
                place: 0,
                txs: 100,
            };
            commits.due.push((at, hash));
        }
        let ask = |commits: &mut Commits| {
            let blocks = commits.take_due();
            for _ in 0..blocks.len() {
                commits.answering.spawn(std::future::pending());
            }
            let calls: usize = blocks.values().map(Vec::len).sum();
            (blocks.len(), calls)
        };
        assert_eq!(ask(&mut commits), (16, 32));
        assert_eq!(ask(&mut commits), (0, 0));
        assert_eq!((commits.len(), commits.due.len()), (48, 48));
        commits.answering.shutdown().await;
        assert_eq!(ask(&mut commits), (5, 48));
        assert_eq!((commits.len(), commits.due.len()), (0, 0));
    }

    #[test]
    fn case_93_a_few_calls_of_a_large_block_ask_for_their_own_results() {
        for (calls, txs, few) in [
            (1, 1, false),
            (1, 15, false),
            (1, 3_000, true),
            (8, 128, true),
            (9, 3_000, false),
        ] {
            assert_eq!(are_few(calls, txs), few, "{calls} of {txs}");
        }
    }

    /// A block is read on another connection than the answers, and may come before them.
    #[test]
    fn acknowledged_67_a_block_that_comes_before_the_answer_is_found() {
        let outbox = Outbox::new();
        let at = Nanos::from_secs;
        let mut commits = commits(4, at(60));
        let hash = job(1, &outbox, 0).hash();
        let block = |height| FollowedBlock {
            height,
            hashes: vec![[0; 32], hash],
            observed: at(height),
            ..FollowedBlock::default()
        };
        let sent_and_added = |commits: &mut Commits, sent| {
            commits.add(&job(1, &outbox, 0), Bytes::new(), sent, at(60));
            commits.take(&hash);
            std::mem::take(&mut commits.due)
        };
        // Nothing was under way that is older than the block.
        commits.block(&block(5), 0, None);
        commits.block(&block(6), 0, Some(at(7)));
        assert_eq!(sent_and_added(&mut commits, at(4)), []);
        commits.block(&block(10), 2, Some(at(9)));
        let place = BlockPlace {
            node: 2,
            height: 10,
            place: 1,
            txs: 2,
        };
        assert_eq!(sent_and_added(&mut commits, at(9)), [(place, hash)]);
        assert!(commits.has_shown(&hash, at(9)) && !commits.has_shown(&hash, at(11)));
        // Sent after the block: a later one will show it.
        assert_eq!(sent_and_added(&mut commits, at(11)), []);
        // Everything older is answered: the block is forgotten.
        commits.block(&block(20), 2, Some(at(21)));
        assert_eq!(commits.early.len(), 0);
        for height in 30..40 + EARLY as u64 {
            commits.block(&block(height), 2, Some(at(1)));
        }
        assert_eq!(commits.early.len(), EARLY);
        // Those of large blocks have another bound.
        let large = |number: usize| {
            let mut hash = [1; 32];
            hash[..8].copy_from_slice(&number.to_le_bytes());
            hash
        };
        let large = FollowedBlock {
            hashes: (1..EARLY_HASHES).map(large).collect(),
            ..block(1_000)
        };
        commits.block(&large, 2, Some(at(1)));
        assert_eq!(commits.early.len(), 1);
    }
}
