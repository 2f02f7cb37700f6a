//! `BlockSource`, what a chain implements for its follower; and a connection for announcements that reconnects by itself.

use std::pin::Pin;
use std::time::Duration;

use pacing::Nanos;
use tokio::time::{Instant, sleep_until, timeout};

use super::{Backoff, FollowEvent, FollowedBlock};
use crate::client::ClientError;
use crate::connection::{ConnectionError, Message, ReadProgress, TaskConnection};

/// Where a [`FollowerWorker`](super::FollowerWorker) gets a node's blocks and announcements from.
///
/// At most one question of each kind is under way.
pub trait BlockSource: Send {
    /// Sends a question. The answer comes from [`next`](Self::next): a [`SourceEvent::Status`] or a
    /// [`SourceEvent::Block`].
    fn ask(&mut self, question: Question);

    /// The next event.
    ///
    /// # Cancel safety
    /// All progress is in `self`: nothing is lost when the future is dropped.
    fn next(&mut self) -> impl Future<Output = SourceEvent> + Send;

    /// The earliest stamp of the events that [`next`](Self::next) has not returned yet; `None` for a source that
    /// stamps no events itself, or holds none.
    fn holds_since(&self) -> Option<Nanos> {
        None
    }
}

/// A question to a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Which blocks the node has, asked at this instant.
    Status(Nanos),
    /// The block of this height.
    Block(u64),
}

/// An event of a source.
#[derive(Debug)]
pub enum SourceEvent {
    /// New blocks will be announced.
    Open,
    /// The node announced this block.
    Height(u64),
    /// The node announced a block, and only its status shows which.
    NewBlock,
    /// New blocks cannot be announced, for this reason; the source tries again.
    Refused(String),
    /// New blocks are not announced any more; the source tries again.
    Lost(Loss),
    /// A question of the source's own was not answered; the source asks again.
    Unanswered(Loss),
    /// An event that only this chain has; the follower passes it on.
    Told(Box<FollowEvent>),
    /// The answer to [`Question::Status`].
    Status(Result<ChainStatus, Loss>),
    /// The answer to [`Question::Block`].
    Block(BlockAnswer),
}

/// Which blocks a node has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainStatus {
    /// The chain it is on; empty where a chain has no name.
    pub chain_id: String,
    /// The highest block that may be delivered; 0 = none.
    pub latest: u64,
    /// The lowest block that it has; 0 or 1 when it has not thrown any away.
    pub earliest: u64,
    /// When the highest one was seen, if the source stamped it; else it is seen now.
    pub seen: Option<Nanos>,
    /// Whether the node had announced it, at that instant.
    pub announced: bool,
}

/// The answer to a question for a block.
#[derive(Debug)]
pub enum BlockAnswer {
    /// The block.
    Found(Box<SourceBlock>),
    /// The node has no such block: the blocks that it has, and its message.
    Absent(ChainStatus, String),
    /// No answer.
    Unknown(Loss),
}

/// A block as a source gives it.
#[derive(Debug, Default)]
pub struct SourceBlock {
    /// Its content; the worker adds when it was observed.
    pub content: FollowedBlock,
    /// The chain it belongs to, as in [`ChainStatus::chain_id`].
    pub chain_id: String,
    /// Its own hash.
    pub hash: Option<[u8; 32]>,
    /// The hash of the block before, where that is to be checked.
    pub last_hash: Option<[u8; 32]>,
    /// Why the codes of its transactions are unavailable, if they are.
    pub codes_unavailable: Option<String>,
}

/// Why something was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What happened.
    pub reason: String,
    /// Whether the connection ended, as when the node stops.
    pub closed: bool,
    /// Whether the node answered a question for a block without giving the block.
    pub unread: bool,
}

impl Loss {
    /// The node sends nothing, or ended only the announcements.
    pub fn open(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            closed: false,
            unread: false,
        }
    }

    /// A connection ended.
    pub fn closed(reason: impl Into<String>) -> Self {
        Self {
            closed: true,
            ..Self::open(reason)
        }
    }

    /// The node did not give a block.
    pub fn unread(reason: impl Into<String>) -> Self {
        Self {
            unread: true,
            ..Self::open(reason)
        }
    }

    /// A query that failed.
    pub fn of(error: &ClientError) -> Self {
        Self {
            closed: matches!(error, ClientError::Unreachable { .. }),
            ..Self::open(error.to_string())
        }
    }

    /// A query for a block that failed.
    pub fn of_block(error: &ClientError) -> Self {
        Self {
            unread: error.is_an_answer(),
            ..Self::of(error)
        }
    }
}

/// A connection on which a [`BlockSource`] receives announcements. After each loss and each failed attempt it waits
/// before it connects again.
pub struct Reconnecting {
    connect: Box<dyn Fn() -> Connecting + Send>,
    state: State,
    backoff: Backoff,
}

/// A connection under way, or why there is none.
type Connecting = Pin<Box<dyn Future<Output = Result<TaskConnection, String>> + Send>>;

enum State {
    Waiting(Instant),
    Connecting(Connecting),
    Open(Box<TaskConnection>),
}

impl Reconnecting {
    /// Connects with `connect`, which has 10 s; `max_backoff` is the longest pause between two attempts.
    pub fn new<F>(max_backoff: Duration, connect: impl Fn() -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<TaskConnection, String>> + Send + 'static,
    {
        let connect = move || -> Connecting {
            let attempt = connect();
            Box::pin(async move {
                let answered = timeout(CONNECT_LIMIT, attempt).await;
                answered.unwrap_or_else(|_| Err("no answer in time".to_owned()))
            })
        };
        Self {
            connect: Box::new(connect),
            state: State::Waiting(Instant::now()),
            backoff: Backoff::new(max_backoff),
        }
    }

    /// Reads from the connection. Before there is one, the error is the event that the source reports:
    /// [`SourceEvent::Open`] or [`SourceEvent::Refused`].
    ///
    /// # Cancel safety
    /// As [`TaskConnection::read`]: all progress is in `self`.
    pub async fn read(
        &mut self,
        on_message: impl FnMut(Message<'_>),
    ) -> Result<Result<ReadProgress, ConnectionError>, SourceEvent> {
        loop {
            match &mut self.state {
                State::Waiting(until) => {
                    sleep_until(*until).await;
                    self.state = State::Connecting((self.connect)());
                }
                State::Connecting(attempt) => match attempt.await {
                    Ok(connection) => {
                        self.state = State::Open(Box::new(connection));
                        return Err(SourceEvent::Open);
                    }
                    Err(reason) => {
                        self.wait();
                        return Err(SourceEvent::Refused(reason));
                    }
                },
                State::Open(connection) => return Ok(connection.read(on_message).await),
            }
        }
    }

    /// Notes that the connection worked, so that the next pause is short.
    pub fn succeeded(&mut self) {
        self.backoff.reset();
    }

    /// Drops the connection.
    pub fn lose(&mut self, loss: Loss) -> SourceEvent {
        self.wait();
        SourceEvent::Lost(loss)
    }

    fn wait(&mut self) {
        self.state = State::Waiting(Instant::now() + self.backoff.pause());
    }
}

const CONNECT_LIMIT: Duration = Duration::from_secs(10);
