//! Blocks of the best chain, from asking for its tip.

use std::time::Duration;

use pacing::Nanos;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::api::{BitcoinBlock, BitcoinClient};
use super::branch::Branch;
use crate::client::{ClientError, HeaderTime};
use crate::endpoint::Endpoint;
use crate::follower::{FollowEvent, FollowOptions, FollowedBlock, Follower};

/// The side of a follower of a Bitcoin node that works; see [`follow_bitcoin`].
pub struct BitcoinFollowerWorker<C> {
    client: BitcoinClient,
    options: FollowOptions,
    clock: C,
    sender: mpsc::Sender<FollowEvent>,
    shutdown: CancellationToken,
    branch: Option<Branch>,
    connected: bool,
    /// When the tip was asked for last: a new one may be that much older.
    asked: Nanos,
}

/// Prepares to follow the best chain of a Bitcoin node: the blocks that come after the worker runs
/// ([`BitcoinFollowerWorker::run`]), each once it has [`FollowOptions::confirmations`], as observed at that
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
) -> Result<(Follower, BitcoinFollowerWorker<C>), ClientError>
where
    C: Fn() -> Nanos + Send,
{
    let (sender, receiver) = mpsc::channel(options.events.max(1));
    let worker = BitcoinFollowerWorker {
        client: BitcoinClient::new(endpoint, options.client())?,
        options,
        clock,
        sender,
        shutdown,
        branch: None,
        connected: false,
        asked: Nanos::ZERO,
    };
    Ok((Follower::new(receiver), worker))
}

/// Nobody listens any more.
struct Deaf;

impl<C: Fn() -> Nanos + Send> BitcoinFollowerWorker<C> {
    /// Works until shutdown or until the [`Follower`] is dropped.
    ///
    /// # Cancel safety
    /// Dropping the future ends the follower; events that were not handed over are lost.
    pub async fn run(mut self) {
        let shutdown = self.shutdown.clone();
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            // Only that nobody listens ends it.
            _ = self.poll() => {}
        }
    }

    async fn poll(&mut self) -> Result<(), Deaf> {
        let mut ticks = interval(self.options.poll_interval.min(MOST_BETWEEN_POLLS));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let asked = (self.clock)();
            match self.look().await {
                Ok(events) => {
                    self.asked = asked;
                    self.reconnected().await?;
                    for event in events {
                        self.tell(event).await?;
                    }
                    // A block that comes into being from now on is seen at a later look.
                    self.tell(FollowEvent::Watermark(asked)).await?;
                }
                Err(error) => self.lost(&error).await?,
            }
        }
    }

    /// Brings the branch to the node's tip: what comes of it.
    async fn look(&mut self) -> Result<Vec<FollowEvent>, ClientError> {
        let best = self.client.best_block().await?;
        let observed = (self.clock)();
        let Some(branch) = &mut self.branch else {
            let tip = self.client.block(&best).await?;
            self.branch = Some(Branch::behind(tip, self.options.confirmations));
            return Ok(Vec::new());
        };
        let mut new: Vec<BitcoinBlock> = Vec::new();
        let mut next = (branch.tip().hash != best).then_some(best);
        // From the tip back to a block that is known.
        while let Some(hash) = next {
            let block = self.client.block(&hash).await?;
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
        let resolution = Some(observed.saturating_sub(self.asked));
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
        })
        .await
    }

    async fn tell(&self, event: FollowEvent) -> Result<(), Deaf> {
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
        codes: Vec::new(),
        codespaces: Vec::new(),
        codes_known: true,
        gas: None,
        bytes: block.size,
        proposer: String::new(),
    }
}

/// The resolution of commit latencies: blocks are not announced over JSON-RPC.
const MOST_BETWEEN_POLLS: Duration = Duration::from_millis(100);
/// A node that is replaced by one on another chain would be asked for all of its blocks.
const MOST_AT_ONCE: usize = 1_000;
