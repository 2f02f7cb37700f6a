//! Every block of a chain, once, in order: what a follower tells and how it works, whatever the chain.

mod engine;
mod heights;
mod source;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pacing::Nanos;
use tokio::sync::mpsc;

use crate::client::{AnswerLimit, ClientOptions, Gas, HeaderTime};
use crate::connection::Trust;

pub use self::engine::FollowerWorker;
pub use self::source::{
    BlockAnswer, BlockSource, ChainStatus, Loss, Question, Reconnecting, SourceBlock, SourceEvent,
};

/// Where a follower begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Height {
    /// At the first block after the highest one the node has when it is first reached.
    Next,
    /// At this block, if the node still has it.
    At(u64),
}

base::settings! {
    /// How a follower works.
    #[derive(Clone, Debug)]
    pub struct FollowOptions {
        /// Where it begins. Default: the next block.
        pub from: Height = Height::Next,
        /// Whether the codes of the transactions are found. A block's results carry the events of the
        /// application, several hundred bytes for each transaction, which a node near its limits would have
        /// to write. So those of a larger block are asked for only when the header of the next one, which
        /// is waited for up to 2 s, does not show that all transactions succeeded. Default: yes.
        pub codes: bool = true,
        /// Blocks that a delivered one has on top of it, itself included, on a chain that may take blocks
        /// back. Default 1.
        pub confirmations: u64 = 1,
        /// How often the node is asked for its height at least while no subscription works; around the
        /// instant at which a block is expected it is asked up to 50 times a second. Default 250 ms.
        pub poll_interval: Duration = Duration::from_millis(250),
        /// How often it is asked although the subscription works, in case an event was lost. Default
        /// 2 s.
        pub quiet_interval: Duration = Duration::from_secs(2),
        /// How often a watermark is given. Default 50 ms.
        pub watermark_interval: Duration = Duration::from_millis(50),
        /// The longest pause between two attempts to reconnect; the first is 50 ms. Default 2 s.
        pub max_backoff: Duration = Duration::from_secs(2),
        /// How many events wait for the reader before the follower stops asking for blocks. A block
        /// of 50,000 transactions is an event of 1.6 MB, so choose it with the largest blocks in
        /// mind. Default 64.
        pub events: usize = 64,
        /// The longest one query may take. Default 30 s.
        pub timeout: Duration = Duration::from_secs(30),
        /// The longest answer in bytes. Default 512 MiB.
        pub max_answer_bytes: AnswerLimit = AnswerLimit::from(512 << 20),
        /// Whose certificates are accepted for `https` and `wss`.
        pub trust: Trust = Trust::native(),
    }
}

impl FollowOptions {
    /// The options of the client that makes the follower's queries.
    pub fn client(&self) -> ClientOptions {
        ClientOptions {
            timeout: self.timeout,
            max_answer_bytes: self.max_answer_bytes.clone(),
            trust: self.trust.clone(),
        }
    }
}

/// What a follower tells, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum FollowEvent {
    /// The node answers. Comes again after every [`Disconnected`](Self::Disconnected), and when a
    /// subscription is had later than the node.
    Connected {
        /// The height of the block that comes next.
        next: u64,
        /// Whether new blocks are announced by the node; else it is polled.
        subscribed: bool,
    },
    /// The node answers and does not announce its blocks: it is polled until it does. Comes once for each
    /// time without announcements.
    Unsubscribed {
        /// Why.
        reason: String,
    },
    /// The node or its announcements are lost; the follower goes on trying.
    Disconnected {
        /// Why.
        reason: String,
        /// Whether a connection ended or cannot be had, as when the node stops; false when the
        /// node is only silent, or ended no more than the announcements.
        closed: bool,
        /// Whether the node answered when it was asked for a block that it has, and not with the block: what is in
        /// that one and in later ones cannot be known.
        unread: bool,
    },
    /// Every block the node has was delivered.
    CaughtUp {
        /// The last one's height.
        height: u64,
    },
    /// A block.
    Block(FollowedBlock),
    /// The node accepted these transactions, as it announces to its peers.
    Accepted {
        /// When that was seen.
        observed: Nanos,
        /// Their ids.
        txs: Vec<[u8; 32]>,
    },
    /// The node has this block, on its best chain or on a branch beside it; comes once for each block, before
    /// [`Block`](Self::Block).
    Arrived(Arrival),
    /// Blocks that were delivered left the best chain.
    Reorganised {
        /// The lowest of their heights.
        height: u64,
        /// Their hashes, from that height on.
        blocks: Vec<[u8; 32]>,
        /// Ids of their transactions that the new chain does not have yet. Those that it has are not
        /// delivered again.
        taken_back: Vec<[u8; 32]>,
    },
    /// The node no longer has these blocks; the follower goes on behind them.
    Missing {
        /// The first of them.
        first: u64,
        /// The last of them.
        last: u64,
    },
    /// The results of this block are unavailable. When the node itself refused them, no more are asked for: codes
    /// are known only where the header of the next block shows that all are 0.
    CodesUnavailable {
        /// The block's height.
        height: u64,
        /// The node's message.
        reason: String,
    },
    /// No block and no acceptance that comes later was observed before this instant.
    Watermark(Nanos),
    /// The follower cannot go on; this is the last event.
    Failed(FollowError),
}

/// Why a follower cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FollowError {
    /// The chain is shorter than it was, and stays so.
    #[error(
        "the chain went back from height {known} to {latest}; it was reset or another node answers"
    )]
    WentBack {
        /// The highest block the node had.
        known: u64,
        /// The highest block it had when that was first seen.
        latest: u64,
    },
    /// A block does not follow the one before it.
    #[error(
        "block {height} does not follow the one delivered before it; the chain was replaced or another node answers"
    )]
    Replaced {
        /// Its height.
        height: u64,
    },
    /// The node is on another chain now.
    #[error("the node changed from chain '{before}' to '{now}'")]
    OtherChain {
        /// The chain followed so far.
        before: String,
        /// The chain of the block just read.
        now: String,
        /// The highest block that it is known to have.
        latest: u64,
    },
}

impl FollowError {
    /// A block of the chain that the node is on now: what it had, or nearly, when that was seen.
    pub const fn height(&self) -> u64 {
        match *self {
            Self::WentBack { latest, .. } | Self::OtherChain { latest, .. } => latest,
            Self::Replaced { height } => height,
        }
    }
}

/// A block that a node has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Its hash.
    pub hash: [u8; 32],
    /// Its height.
    pub height: u64,
    /// When the node announced it, or was found to have it.
    pub at: Nanos,
    /// How much earlier the node may have had it; `None` where it announced it.
    pub resolution: Option<Nanos>,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its transactions.
    pub txs: u64,
}

/// One block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowedBlock {
    /// Its hash; `None` where the chain identifies its blocks by height.
    pub hash: Option<[u8; 32]>,
    /// Its height.
    pub height: u64,
    /// The time in its header.
    pub header_time: HeaderTime,
    /// When the node first announced this height or a higher one, by the follower's clock; never
    /// earlier than that of the block before.
    pub observed: Nanos,
    /// How much earlier the node may have had it, where it was found by polling; `None` where the node
    /// announced it.
    pub resolution: Option<Nanos>,
    /// SHA-256 of each transaction, in the block's order.
    pub hashes: Vec<[u8; 32]>,
    /// The code of each transaction; empty when all are 0 or unknown.
    pub codes: Vec<u32>,
    /// The name space of each of `codes`.
    pub codespaces: Vec<Arc<str>>,
    /// Whether `codes` is known: false when codes were not asked for or are unavailable.
    pub codes_known: bool,
    /// The gas of the transactions; `None` where their results were not read.
    pub gas: Option<Gas>,
    /// The transactions' sizes in bytes, in sum.
    pub bytes: u64,
    /// The proposer's address, in hexadecimal.
    pub proposer: String,
}

impl FollowedBlock {
    /// The name space of the code of a transaction; empty for none.
    pub fn codespace(&self, at: usize) -> &str {
        self.codespaces.get(at).map_or("", |space| space)
    }

    /// Hash and code of each transaction; `None` where codes are not known.
    pub fn txs(&self) -> impl ExactSizeIterator<Item = ([u8; 32], Option<u32>)> + '_ {
        let code = |at: usize| {
            let code = self.codes.get(at).copied().unwrap_or(0);
            self.codes_known.then_some(code)
        };
        self.hashes
            .iter()
            .enumerate()
            .map(move |(at, hash)| (*hash, code(at)))
    }
}

/// The reader's side of a follower.
#[derive(Debug)]
pub struct Follower {
    events: mpsc::Receiver<FollowEvent>,
}

impl Follower {
    /// The side that reads what a worker sends.
    pub const fn new(events: mpsc::Receiver<FollowEvent>) -> Self {
        Self { events }
    }

    /// The next event; `None` when the worker has ended and everything was read.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<FollowEvent> {
        self.events.recv().await
    }

    /// The next event for a thread without a runtime.
    ///
    /// # Panics
    /// When called inside an asynchronous runtime.
    pub fn blocking_next(&mut self) -> Option<FollowEvent> {
        self.events.blocking_recv()
    }
}

/// A query under way.
pub type Query<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Waits for a query, if there is one. Cancel safe: the query stays where it is.
pub async fn finished<T>(query: &mut Option<Query<T>>) -> T {
    let Some(running) = query else {
        return std::future::pending().await;
    };
    let output = running.await;
    *query = None;
    output
}

/// Pauses between attempts: they double, from 50 ms.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    next: Duration,
    max: Duration,
}

impl Backoff {
    /// With a longest pause.
    pub fn new(max: Duration) -> Self {
        Self {
            next: FIRST_PAUSE.min(max),
            max,
        }
    }

    /// The next pause.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.max);
        pause
    }

    /// An attempt was of use.
    pub fn reset(&mut self) {
        self.next = FIRST_PAUSE.min(self.max);
    }
}

/// The first pause of a [`Backoff`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit() {
        let mut backoff = Backoff::new(Duration::from_millis(150));
        let pauses = [(); 4].map(|()| backoff.pause().as_millis());
        assert_eq!(pauses, [50, 100, 150, 150]);
        backoff.reset();
        assert_eq!(backoff.pause().as_millis(), 50);
    }
}
