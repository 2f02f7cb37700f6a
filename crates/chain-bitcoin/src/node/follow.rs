//! Blocks of the best chain, from asking for its tip: over JSON-RPC, or as a peer that is told when there is a new one.

use std::time::Duration;

use pacing::Nanos;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::api::{BitcoinBlock, BitcoinClient};
use super::branch::Branch;
use super::observe::PeerSource;
use crate::peer::PeerNetwork;
use rpc::{ClientError, Endpoint, FollowEvent, FollowOptions, FollowedBlock, Follower, HeaderTime};

/// Where the blocks of a chain come from.
pub(super) trait Source: Send {
    /// The hash of the newest block of the best chain.
    fn best(&mut self) -> impl Future<Output = Result<[u8; 32], ClientError>> + Send;

    /// A block by its hash.
    fn block(
        &mut self,
        hash: &[u8; 32],
    ) -> impl Future<Output = Result<BitcoinBlock, ClientError>> + Send;

    /// Waits until an instant, or until the node says something unasked.
    fn wait(&mut self, until: Instant) -> impl Future<Output = Result<Wake, ClientError>> + Send;
}

/// Why a wait is over.
pub(super) enum Wake {
    /// Its time is.
    Due,
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

    async fn wait(&mut self, until: Instant) -> Result<Wake, ClientError> {
        sleep_until(until).await;
        Ok(Wake::Due)
    }
}

/// The side of a follower that works.
struct Worker<C, S> {
    source: S,
    options: FollowOptions,
    clock: C,
    sender: mpsc::Sender<FollowEvent>,
    shutdown: CancellationToken,
    branch: Option<Branch>,
    connected: bool,
    /// When the tip was asked for last: a new one may be that much older.
    asked: Nanos,
    /// When the last look found its tip: no later block was there before.
    observed: Nanos,
}

/// Prepares to follow the best chain of a Bitcoin node: the blocks that come after the worker runs
/// (the future that is given), each once it has [`FollowOptions::confirmations`], as observed at that
/// instant.
///
/// The tip is asked for each [`FollowOptions::poll_interval`]; the new blocks are those between it and what
/// is known. A block that leaves the best chain before its depth is never delivered; one that leaves it
/// afterwards is told of ([`FollowEvent::Reorganised`]).
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
    C: Fn() -> Nanos + Send,
{
    let client = BitcoinClient::new(endpoint, options.client())?;
    Ok(follow_source(client, options, clock, shutdown))
}

/// Prepares to follow the best chain of a Bitcoin node as one of its peers, over a connection of its own on which
/// nothing is sent but questions: blocks as [`follow_bitcoin`] tells of them, asked for when the node announces one
/// and ten times a second, and transactions when it announces them ([`FollowEvent::Accepted`]). Nodes announce
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
    C: Fn() -> Nanos + Clone + Send + Sync,
{
    let limit = options.timeout.min(PEER_TIMEOUT);
    let source = PeerSource::new(endpoint, network, limit, clock.clone());
    follow_source(source, options, clock, shutdown)
}

fn follow_source<C, S>(
    source: S,
    options: FollowOptions,
    clock: C,
    shutdown: CancellationToken,
) -> (Follower, impl Future<Output = ()> + Send)
where
    C: Fn() -> Nanos + Send,
    S: Source,
{
    let (sender, receiver) = mpsc::channel(options.events.max(1));
    let worker = Worker {
        source,
        options,
        clock,
        sender,
        shutdown,
        branch: None,
        connected: false,
        asked: Nanos::ZERO,
        observed: Nanos::ZERO,
    };
    (Follower::new(receiver), worker.run())
}

/// Nobody listens any more.
struct Deaf;

impl<C: Fn() -> Nanos + Send, S: Source> Worker<C, S> {
    /// Works until shutdown or until the [`Follower`] is dropped.
    async fn run(mut self) {
        let shutdown = self.shutdown.clone();
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            // Only that nobody listens ends it.
            _ = self.poll() => {}
        }
    }

    async fn poll(&mut self) -> Result<(), Deaf> {
        let between = self.options.poll_interval.min(MOST_BETWEEN_POLLS);
        let mut due = Instant::now();
        loop {
            let looked = match self.source.wait(due).await {
                Ok(Wake::Accepted(announced)) => {
                    self.tell_accepted(announced).await?;
                    continue;
                }
                Ok(Wake::Due) => self.look(None).await,
                Ok(Wake::Block(at)) => self.look(Some(at)).await,
                Err(error) => Err(error),
            };
            match looked {
                Ok(events) => self.tell_blocks(events).await?,
                Err(error) => self.lost(&error).await?,
            }
            due = Instant::now() + between;
        }
    }

    async fn tell_accepted(&mut self, announced: Vec<Announced>) -> Result<(), Deaf> {
        for Announced { at, txs } in announced {
            let observed = at;
            self.tell(FollowEvent::Accepted { observed, txs }).await?;
        }
        Ok(())
    }

    async fn tell_blocks(&mut self, events: Vec<FollowEvent>) -> Result<(), Deaf> {
        self.reconnected().await?;
        for event in events {
            self.tell(event).await?;
        }
        // What comes into being from now on is seen at a later look.
        self.tell(FollowEvent::Watermark(self.asked)).await
    }

    /// Brings the branch to the node's tip: what comes of it. A tip that the node announced was there at that
    /// instant; any other one may have been since the look before.
    async fn look(&mut self, announced: Option<Nanos>) -> Result<Vec<FollowEvent>, ClientError> {
        let asked = (self.clock)();
        let best = self.source.best().await?;
        let observed = announced.unwrap_or_else(&self.clock).max(self.observed);
        let Some(branch) = &mut self.branch else {
            let tip = self.source.block(&best).await?;
            self.branch = Some(Branch::behind(tip, self.options.confirmations));
            self.asked = asked;
            return Ok(Vec::new());
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
        let mut events = Vec::new();
        if let Some(taken) = branch.extend(new) {
            events.push(FollowEvent::Reorganised {
                height: taken.height,
                blocks: taken.blocks,
                taken_back: taken.txs,
            });
        }
        let resolution = match announced {
            Some(_) => None,
            None => Some(observed.saturating_sub(self.asked)),
        };
        (self.asked, self.observed) = (asked, observed);
        while let Some(block) = branch.next() {
            events.push(FollowEvent::Block(followed(block, observed, resolution)));
        }
        Ok(events)
    }

    /// Tells that the node answers, the first time and after it did not.
    async fn reconnected(&mut self) -> Result<(), Deaf> {
        let Some(branch) = self.branch.as_ref().filter(|_| !self.connected) else {
            return Ok(());
        };
        let next = branch.tip().height + 1;
        self.connected = true;
        self.tell(FollowEvent::Connected {
            next,
            subscribed: false,
        })
        .await
    }

    async fn lost(&mut self, error: &ClientError) -> Result<(), Deaf> {
        let first = std::mem::replace(&mut self.connected, false);
        if !first && self.branch.is_some() {
            return Ok(());
        }
        self.tell(FollowEvent::Disconnected {
            reason: error.to_string(),
            closed: matches!(error, ClientError::Unreachable { .. }),
            unread: error.is_an_answer(),
        })
        .await
    }

    async fn tell(&mut self, event: FollowEvent) -> Result<(), Deaf> {
        self.sender.send(event).await.map_err(|_| Deaf)
    }
}

fn followed(block: BitcoinBlock, observed: Nanos, resolution: Option<Nanos>) -> FollowedBlock {
    FollowedBlock {
        height: block.height,
        header_time: HeaderTime {
            unix_seconds: block.time,
            nanos: 0,
        },
        observed,
        resolution,
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
