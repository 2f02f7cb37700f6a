//! Blocks of the best chain, from asking for its tip: over JSON-RPC, or as a peer to which the node announces new ones.

use std::collections::VecDeque;
use std::time::Duration;

use pacing::Nanos;
use tokio_util::sync::CancellationToken;

use super::branch::Branch;
use super::observe::PeerSource;
use super::{BitcoinBlock, BitcoinClient};
use crate::peer::PeerNetwork;
use rpc::{
    Arrival, BlockAnswer, BlockSource, ChainStatus, ClientError, Endpoint, FollowEvent,
    FollowOptions, FollowedBlock, Follower, FollowerWorker, HeaderTime, Height, Loss, Query,
    Question, SourceBlock, SourceEvent, finished,
};

/// Where the blocks of a chain come from.
pub(super) trait Source: Send {
    /// The hash of the newest block of the best chain.
    fn best(&mut self) -> impl Future<Output = Result<[u8; 32], ClientError>> + Send;

    /// A block by its hash.
    fn block(
        &mut self,
        hash: &[u8; 32],
    ) -> impl Future<Output = Result<BitcoinBlock, ClientError>> + Send;

    /// The blocks that the node announced since this was asked, with when it first did, whatever branch they are on.
    fn announced(&mut self) -> Vec<([u8; 32], Nanos)> {
        Vec::new()
    }

    /// Waits for a message that the node sends unasked. Cancel safe.
    fn wait(&mut self) -> impl Future<Output = Result<Wake, ClientError>> + Send;
}

/// A message that a node sends unasked.
pub(super) enum Wake {
    /// The node announced a block at this instant.
    Block(Nanos),
    /// It announced transactions.
    Accepted(Vec<Announced>),
}

/// Transactions that a node announced together.
#[derive(Debug)]
pub(super) struct Announced {
    pub(super) at: Nanos,
    /// In the order of bytes in which they are shown.
    pub(super) txs: Vec<[u8; 32]>,
}

impl Source for BitcoinClient {
    async fn best(&mut self) -> Result<[u8; 32], ClientError> {
        self.best_block().await
    }

    async fn block(&mut self, hash: &[u8; 32]) -> Result<BitcoinBlock, ClientError> {
        Self::block(self, hash).await
    }

    async fn wait(&mut self) -> Result<Wake, ClientError> {
        std::future::pending().await
    }
}

/// Prepares to follow the best chain of a Bitcoin node: the blocks that come after the worker runs
/// (the future that is given), each once it has [`FollowOptions::confirmations`], as observed at that
/// instant.
///
/// The tip is asked for every 100 ms or [`FollowOptions::poll_interval`], whichever is less, and more often when a
/// block is expected; the new blocks are those between it and what
/// is known. A block that leaves the best chain before its depth is never delivered; one that leaves it
/// afterwards is reported ([`FollowEvent::Reorganised`]).
///
/// # Errors
/// [`ClientError::Setup`] when TLS is needed and cannot be set up.
pub fn follow_bitcoin<C>(
    endpoint: &Endpoint,
    options: FollowOptions,
    clock: C,
    shutdown: CancellationToken,
) -> Result<(Follower, impl Future<Output = ()> + Send + use<C>), ClientError>
where
    C: Fn() -> Nanos + Clone + Send + 'static,
{
    let client = BitcoinClient::new(endpoint, options.client())?;
    Ok(follow_source(client, options, clock, shutdown))
}

/// Prepares to follow the best chain of a Bitcoin node as one of its peers, over a connection of its own on which
/// nothing is sent but questions: blocks as [`follow_bitcoin`] tells of them, asked for when the node announces one
/// and at least ten times a second, and transactions when it announces them ([`FollowEvent::Accepted`]). Nodes announce
/// those some at a time, so that an announcement is later than the acceptance by up to their interval
/// (`--trickleinterval` of btcd, 10 s by default).
pub fn follow_bitcoin_peer<C>(
    endpoint: &Endpoint,
    network: PeerNetwork,
    options: FollowOptions,
    clock: C,
    shutdown: CancellationToken,
) -> (Follower, impl Future<Output = ()> + Send + use<C>)
where
    C: Fn() -> Nanos + Clone + Send + Sync + 'static,
{
    let limit = options.timeout.min(PEER_TIMEOUT);
    let source = PeerSource::new(endpoint, network, limit, clock.clone());
    follow_source(source, options, clock, shutdown)
}

fn follow_source<C, S>(
    source: S,
    mut options: FollowOptions,
    clock: C,
    shutdown: CancellationToken,
) -> (Follower, impl Future<Output = ()> + Send + use<C, S>)
where
    C: Fn() -> Nanos + Clone + Send + 'static,
    S: Source + 'static,
{
    options.from = Height::Next;
    options.poll_interval = options.poll_interval.min(MOST_BETWEEN_POLLS);
    let look = Look {
        source,
        clock: clock.clone(),
        branch: None,
        beside: VecDeque::new(),
        confirmations: options.confirmations,
    };
    let source = BestChain {
        idle: Some(Box::new(look)),
        looking: None,
        announced: None,
        holds_since: None,
        latest: 0,
        ready: VecDeque::new(),
        events: VecDeque::new(),
    };
    let (follower, worker) = FollowerWorker::new(source, options, clock, shutdown);
    (follower, worker.run())
}

/// The best chain of a node as a source of the blocks that are deep enough: those are found with its status.
struct BestChain<C, S> {
    /// What looks at the chain, while it does not.
    idle: Option<Box<Look<C, S>>>,
    looking: Option<Query<Looked<C, S>>>,
    /// When the node announced a block that was not looked for yet.
    announced: Option<Nanos>,
    /// What waits in `events`, and what a look finds, was seen no earlier.
    holds_since: Option<Nanos>,
    /// The highest block that is, or was, in `ready`.
    latest: u64,
    /// Blocks that were found and not asked for yet.
    ready: VecDeque<FollowedBlock>,
    events: VecDeque<SourceEvent>,
}

/// What is needed to look at the chain.
struct Look<C, S> {
    source: S,
    clock: C,
    branch: Option<Branch>,
    /// Blocks on other branches that were reported, the oldest first.
    beside: VecDeque<[u8; 32]>,
    confirmations: u64,
}

/// What looked, and what it found.
type Looked<C, S> = (Box<Look<C, S>>, Result<Found, ClientError>);

/// Which blocks are deep enough, those of them that are new, which ones arrived, and what left the chain.
type Found = (ChainStatus, Vec<FollowedBlock>, Vec<FollowEvent>);

impl<C, S> BlockSource for BestChain<C, S>
where
    C: Fn() -> Nanos + Send + 'static,
    S: Source + 'static,
{
    fn ask(&mut self, question: Question) {
        match question {
            Question::Status(asked) => {
                let Some(mut look) = self.idle.take() else {
                    return;
                };
                let announced = self.announced.take();
                self.holds_since.get_or_insert(asked);
                self.looking = Some(Box::pin(async move {
                    let found = look.look(asked, announced).await;
                    (look, found)
                }));
            }
            Question::Block(height) => {
                let answer = self.block(height);
                self.events.push_back(SourceEvent::Block(answer));
            }
        }
    }

    async fn next(&mut self) -> SourceEvent {
        loop {
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            if self.looking.is_some() {
                let (look, found) = finished(&mut self.looking).await;
                self.idle = Some(look);
                self.on_found(found);
                continue;
            }
            self.holds_since = self.announced;
            let Some(look) = &mut self.idle else {
                return std::future::pending().await;
            };
            match look.source.wait().await {
                Ok(Wake::Block(at)) => {
                    self.announced = self.announced.or(Some(at));
                    self.holds_since = self.announced;
                    return SourceEvent::NewBlock;
                }
                Ok(Wake::Accepted(announced)) => {
                    let first = announced.first().map(|first| first.at);
                    self.holds_since = self.announced.or(first);
                    let told = announced.into_iter().map(|Announced { at, txs }| {
                        SourceEvent::Told(Box::new(FollowEvent::Accepted { observed: at, txs }))
                    });
                    self.events.extend(told);
                }
                Err(error) => return SourceEvent::Lost(Loss::of_block(&error)),
            }
        }
    }

    fn holds_since(&self) -> Option<Nanos> {
        self.holds_since
    }
}

impl<C, S> BestChain<C, S> {
    fn block(&mut self, height: u64) -> BlockAnswer {
        let earliest = self.ready.front().map_or(0, |block| block.height);
        let found = self.ready.pop_front_if(|block| block.height == height);
        match found {
            Some(content) => BlockAnswer::Found(Box::new(SourceBlock {
                content,
                ..SourceBlock::default()
            })),
            None => {
                let status = ChainStatus {
                    latest: self.latest,
                    earliest,
                    ..ChainStatus::default()
                };
                BlockAnswer::Absent(status, "more blocks came than are read at once".into())
            }
        }
    }

    fn on_found(&mut self, found: Result<Found, ClientError>) {
        let status = found.map(|(status, blocks, told)| {
            self.latest = status.latest;
            self.ready.extend(blocks);
            self.events.extend(
                told.into_iter()
                    .map(|event| SourceEvent::Told(Box::new(event))),
            );
            status
        });
        let status = status.map_err(|error| Loss::of_block(&error));
        self.events.push_back(SourceEvent::Status(status));
    }
}

impl<C: Fn() -> Nanos + Send, S: Source> Look<C, S> {
    /// Brings the branch to the node's tip. A tip that the node announced was there at that instant.
    async fn look(&mut self, asked: Nanos, announced: Option<Nanos>) -> Result<Found, ClientError> {
        let best = self.source.best().await?;
        let now = (self.clock)();
        let seen = announced.unwrap_or(now);
        let heard = self.source.announced();
        let branch = match &mut self.branch {
            Some(branch) => branch,
            none => {
                let tip = self.source.block(&best).await?;
                none.insert(Branch::behind(tip, self.confirmations))
            }
        };
        let mut new: Vec<BitcoinBlock> = Vec::new();
        let mut next = (branch.tip().hash != best).then_some(best);
        // From the tip back to a block that is known.
        while let Some(hash) = next {
            let block = self.source.block(&hash).await?;
            let previous = block.previous.filter(|hash| !branch.has(hash));
            let goes_on = block.height > branch.lowest() && new.len() < MOST_AT_ONCE;
            next = previous.filter(|_| goes_on);
            new.push(block);
        }
        new.reverse();
        let mut arrived: Vec<FollowEvent> = new
            .iter()
            .filter(|block| !self.beside.contains(&block.hash))
            .map(|block| {
                let announced = heard.iter().find(|(hash, _)| *hash == block.hash);
                match announced {
                    Some((_, at)) => arrival(block, *at, None),
                    None => arrival(block, now, Some(now.saturating_sub(asked))),
                }
            })
            .collect();
        let taken = branch.extend(new);
        for (hash, at) in heard {
            if branch.has(&hash) || self.beside.contains(&hash) {
                continue;
            }
            // A node need not give what is on no chain of its own.
            if let Ok(block) = self.source.block(&hash).await {
                arrived.push(arrival(&block, at, None));
            }
            self.beside.push_back(hash);
            if self.beside.len() > MOST_BESIDE {
                self.beside.pop_front();
            }
        }
        arrived.extend(taken);
        let blocks = std::iter::from_fn(|| branch.next()).map(followed).collect();
        let status = ChainStatus {
            latest: branch.highest(),
            seen: Some(seen),
            announced: announced.is_some(),
            ..ChainStatus::default()
        };
        Ok((status, blocks, arrived))
    }
}

fn arrival(block: &BitcoinBlock, at: Nanos, resolution: Option<Nanos>) -> FollowEvent {
    FollowEvent::Arrived(Arrival {
        hash: block.hash,
        height: block.height,
        at,
        resolution,
        bytes: block.size,
        txs: block.txs.len() as u64,
    })
}

fn followed(block: BitcoinBlock) -> FollowedBlock {
    FollowedBlock {
        hash: Some(block.hash),
        height: block.height,
        header_time: HeaderTime {
            unix_seconds: block.time,
            nanos: 0,
        },
        hashes: block.txs,
        codes_known: true,
        bytes: block.size,
        ..FollowedBlock::default()
    }
}

/// A node that is busy connecting blocks leaves questions of peers open for seconds.
const PEER_TIMEOUT: Duration = Duration::from_secs(5);
/// The resolution of commit latencies over JSON-RPC, where blocks are not announced.
const MOST_BETWEEN_POLLS: Duration = Duration::from_millis(100);
/// A node that is replaced by one on another chain would be asked for all of its blocks.
const MOST_AT_ONCE: usize = 1_000;
/// Blocks on branches that lost, of hours in which every second one does.
const MOST_BESIDE: usize = 1_000;
