//! What is committed, from the event stream.

use std::collections::VecDeque;
use std::time::Duration;

use pacing::Nanos;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::api::{BigchaindbClient, id};
use super::gather::{Gathered, Gatherer};
use rpc::{
    Backoff, ClientError, ConnectionError, ConnectionOptions, Endpoint, FollowError, FollowEvent,
    FollowOptions, FollowedBlock, Follower, Query, TaskConnection, check_trust, finished,
};

/// The side of a follower of events that works; see [`follow_bigchaindb`].
pub struct EventFollowerWorker<C> {
    client: BigchaindbClient,
    events: Endpoint,
    options: FollowOptions,
    clock: C,
    sender: mpsc::Sender<FollowEvent>,
    shutdown: CancellationToken,
    gatherer: Gatherer,
    outbox: VecDeque<FollowEvent>,
    watermark: Nanos,
    last_observed: Nanos,
    backoff: Backoff,
    /// Whether events may have been lost since the last block delivered.
    broken: bool,
    /// Blocks that are looked up, one after the other. Events are taken and stamped meanwhile.
    lookup: Option<Query<LookedUp>>,
    /// Events that came while the blocks before them were looked up after a broken stream.
    early: VecDeque<(Event, Nanos)>,
}

/// A height, and what the query for it came to.
type LookedUp = (u64, Result<Found, ClientError>);

/// What a look-up found.
enum Found {
    /// The ids of a block.
    Block(Vec<[u8; 32]>),
    /// There is no block of this height yet.
    NotYet,
    /// The blocks end below what was told of: how far the server has come.
    Shorter { latest: u64 },
}

/// Why a stream is left.
enum Left {
    /// For good: nobody listens any more, or the chain is another.
    End,
    /// It broke, for this reason.
    Lost(String),
}

enum Step {
    Read(Vec<Result<Event, String>>, Option<ConnectionError>),
    Sent,
    Found(u64, Result<Found, ClientError>),
    Tick,
    Quiet,
    End,
}

#[derive(Deserialize)]
struct Event {
    height: u64,
    #[serde(deserialize_with = "id")]
    transaction_id: [u8; 32],
}

/// Prepares to follow the commits of a BigchainDB server: the blocks that come after the worker runs
/// ([`EventFollowerWorker::run`]), each with the ids of its valid transactions as hashes.
///
/// A block is observed when its first event comes. It is delivered when an event of a higher block
/// comes, or when [`FollowOptions::quiet_interval`] passed without events: then, and after a broken
/// stream, blocks are looked up, so events that were lost are found again. A server that leaves the
/// question unanswered for four such intervals holds nothing back: then the block is what its events
/// told. The API knows neither
/// header times nor sizes nor refused transactions: those stay empty. `next` of
/// [`FollowEvent::Connected`] is 0 before the first block.
///
/// # Errors
/// [`ClientError::Setup`] when TLS is needed and cannot be set up.
pub fn follow_bigchaindb<C>(
    api: &Endpoint,
    events: &Endpoint,
    options: FollowOptions,
    clock: C,
    shutdown: CancellationToken,
) -> Result<(Follower, EventFollowerWorker<C>), ClientError>
where
    C: Fn() -> Nanos + Send,
{
    check_trust(events, &options.trust)?;
    let (sender, receiver) = mpsc::channel(options.events.max(1));
    let worker = EventFollowerWorker {
        client: BigchaindbClient::new(api, &options.client())?,
        events: events.clone(),
        backoff: Backoff::new(options.max_backoff),
        options,
        clock,
        sender,
        shutdown,
        gatherer: Gatherer::default(),
        outbox: VecDeque::new(),
        watermark: Nanos::ZERO,
        last_observed: Nanos::ZERO,
        broken: false,
        lookup: None,
        early: VecDeque::new(),
    };
    Ok((Follower::new(receiver), worker))
}

impl<C: Fn() -> Nanos + Send> EventFollowerWorker<C> {
    /// Works until shutdown, until the [`Follower`] is dropped, or until it cannot go on.
    ///
    /// # Cancel safety
    /// Dropping the future ends the follower; events that were not handed over are lost.
    pub async fn run(mut self) {
        let shutdown = self.shutdown.clone();
        let work = async {
            while let Left::Lost(reason) = self.follow_one_stream().await {
                if !std::mem::replace(&mut self.broken, true) {
                    self.tell(FollowEvent::Disconnected {
                        reason,
                        closed: true,
                        unread: false,
                    });
                    if self.hand_over().await.is_err() {
                        return;
                    }
                }
                tokio::time::sleep(self.backoff.pause()).await;
            }
            let _ = self.hand_over().await;
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = work => {}
        }
    }

    async fn follow_one_stream(&mut self) -> Left {
        let mut stream = match self.connect().await {
            Ok(stream) => stream,
            Err(reason) => return Left::Lost(reason),
        };
        self.early.clear();
        self.lookup = None;
        if self.broken {
            self.look_up();
        }
        self.backoff.reset();
        self.tell(FollowEvent::Connected {
            next: self.gatherer.next().unwrap_or(0),
            subscribed: true,
        });
        self.listen(&mut stream).await
    }

    async fn connect(&mut self) -> Result<TaskConnection, String> {
        let options = ConnectionOptions {
            max_message_bytes: MAX_EVENT_BYTES,
            trust: self.options.trust.clone(),
            ..Default::default()
        };
        match timeout(CONNECT_LIMIT, TaskConnection::open(&self.events, &options)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(format!(
                "the events at {} are unavailable: {error}",
                self.events
            )),
            Err(_) => Err(format!("the events at {} give no answer", self.events)),
        }
    }

    async fn listen(&mut self, stream: &mut TaskConnection) -> Left {
        let mut ticks = interval(self.options.watermark_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut quiet_at = Instant::now() + self.options.quiet_interval;
        let mut unanswered = 0;
        loop {
            let step = tokio::select! {
                biased;
                () = self.sender.closed() => Step::End,
                permit = self.sender.reserve(), if !self.outbox.is_empty() => {
                    if let (Ok(permit), Some(event)) = (permit, self.outbox.pop_front()) {
                        permit.send(event);
                    }
                    Step::Sent
                }
                (events, error) = read(stream), if self.has_room() => {
                    Step::Read(events, error)
                }
                (height, found) = finished(&mut self.lookup), if self.has_room() => {
                    Step::Found(height, found)
                }
                _ = ticks.tick() => Step::Tick,
                () = sleep_until(quiet_at) => Step::Quiet,
            };
            match step {
                Step::End => return Left::End,
                Step::Sent => {}
                Step::Tick => self.give_watermark(),
                Step::Read(events, error) => {
                    for event in events {
                        if let Err(reason) = event.map(|event| self.on_event(event)) {
                            return Left::Lost(reason);
                        }
                    }
                    if let Some(error) = error {
                        return Left::Lost(format!("the event stream ended: {error}"));
                    }
                    // What a broken stream has left to look up does not wait for silence.
                    if !self.broken {
                        quiet_at = Instant::now() + self.options.quiet_interval;
                    }
                }
                Step::Found(height, found) => {
                    unanswered = 0;
                    if found.is_err() {
                        quiet_at = Instant::now() + self.backoff.pause();
                    }
                    if let Some(left) = self.on_found(height, found) {
                        return left;
                    }
                }
                Step::Quiet => {
                    if self.lookup.is_none() {
                        self.look_up();
                    } else {
                        unanswered += 1;
                    }
                    if unanswered == PATIENCE && !self.broken {
                        let block = self.gatherer.close();
                        block.into_iter().for_each(|block| self.deliver(block));
                    }
                    quiet_at = Instant::now() + self.options.quiet_interval;
                }
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        let now = (self.clock)();
        match self.broken {
            true => self.early.push_back((event, now)),
            false => self.gather(&event, now),
        }
    }

    fn gather(&mut self, event: &Event, now: Nanos) {
        for block in self.gatherer.event(event.height, event.transaction_id, now) {
            self.deliver(block);
        }
    }

    /// Asks for the next block, if one is known; without one, after a broken stream, for the newest:
    /// whatever comes after it is ours.
    fn look_up(&mut self) {
        let client = self.client.clone();
        let next = self.gatherer.next();
        let broken = self.broken;
        self.lookup = match next {
            Some(height) => Some(Box::pin(async move {
                (height, look_up(&client, height, broken).await)
            })),
            None if broken => Some(Box::pin(async move {
                let latest = client.newest_height().await;
                (0, latest.map(|latest| Found::Shorter { latest }))
            })),
            None => None,
        };
    }

    /// Takes in what a look-up found; it goes on until there is no further block.
    fn on_found(&mut self, height: u64, found: Result<Found, ClientError>) -> Option<Left> {
        match found {
            // What events have told of meanwhile needs no look-up.
            Ok(Found::Block(ids)) if self.gatherer.next() == Some(height) => {
                let told = self.early.iter().find(|(event, _)| event.height >= height);
                let now = told.map_or_else(|| (self.clock)(), |(_, at)| *at);
                let block = self.gatherer.looked_up(height, ids, now);
                self.deliver(block);
                self.look_up();
                return None;
            }
            Ok(Found::Shorter { latest }) if height > 0 => {
                let known = height - 1;
                self.tell(FollowEvent::Failed(FollowError::WentBack { known, latest }));
                return Some(Left::End);
            }
            // 0 when old blocks are gone and nothing can be said.
            Ok(Found::Shorter { latest }) if latest > 0 => self.gatherer.begin(latest + 1),
            Ok(_) => {}
            Err(error) => {
                if self.broken {
                    self.tell(FollowEvent::Disconnected {
                        reason: error.to_string(),
                        closed: false,
                        unread: error.is_an_answer(),
                    });
                }
                return None;
            }
        }
        self.broken = false;
        for (event, at) in std::mem::take(&mut self.early) {
            self.gather(&event, at);
        }
        None
    }

    /// Whether more events are taken from the stream.
    fn has_room(&self) -> bool {
        self.outbox.len() < MAX_OUTBOX && self.early.len() < MAX_EARLY
    }

    fn deliver(&mut self, block: Gathered) {
        self.last_observed = block.observed.max(self.last_observed);
        self.tell(FollowEvent::Block(FollowedBlock {
            height: block.height,
            observed: self.last_observed,
            hashes: block.ids,
            codes_known: true,
            ..FollowedBlock::default()
        }));
    }

    /// Every stamp is taken by this task, so whatever is stamped later is not earlier than now.
    fn give_watermark(&mut self) {
        if !self.outbox.is_empty() {
            return;
        }
        let now = (self.clock)();
        let early = self.early.front().map(|(_, at)| *at);
        let level = self.gatherer.open_since().or(early).unwrap_or(now);
        if level > self.watermark {
            self.watermark = level;
            self.tell(FollowEvent::Watermark(level));
        }
    }

    fn tell(&mut self, event: FollowEvent) {
        self.outbox.push_back(event);
    }

    /// Hands everything over that waits; an error means that nobody listens.
    async fn hand_over(&mut self) -> Result<(), ()> {
        while let Some(event) = self.outbox.pop_front() {
            self.sender.send(event).await.map_err(|_| ())?;
        }
        Ok(())
    }
}

/// Asks for a block. After a broken stream (`broken`) a block that is not there is no proof that the chain
/// goes on: the one before has to be.
async fn look_up(
    client: &BigchaindbClient,
    height: u64,
    broken: bool,
) -> Result<Found, ClientError> {
    if let Some(ids) = client.block(height).await? {
        return Ok(Found::Block(ids));
    }
    if broken && height > 1 && client.block(height - 1).await?.is_none() {
        let latest = client.newest_height().await?;
        return Ok(Found::Shorter { latest });
    }
    Ok(Found::NotYet)
}

/// Waits for bytes: the events that are complete with them, and how the stream ended if it did.
/// Cancel safe, as [`TaskConnection::read`] is.
async fn read(
    stream: &mut TaskConnection,
) -> (Vec<Result<Event, String>>, Option<ConnectionError>) {
    let mut events = Vec::new();
    let read = stream.read(|message| {
        events.push(serde_json::from_slice(message.body).map_err(|_| {
            let text = String::from_utf8_lossy(message.body);
            let shown: String = text.chars().take(SHOWN).collect();
            format!("an event cannot be read: {shown}")
        }));
    });
    let error = read.await.err();
    (events, error)
}

const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// An event has 180 bytes.
const MAX_EVENT_BYTES: usize = 64 << 10;
/// With this many events waiting the stream is left in the socket.
const MAX_OUTBOX: usize = 64;
/// Events that wait for the blocks before them, 6 MB; further ones are left in the socket.
const MAX_EARLY: usize = 100_000;
/// Quiet intervals that a look-up is waited for before a block is what its events told.
const PATIENCE: u32 = 4;
/// Characters of an unreadable event that are quoted.
const SHOWN: usize = 80;
