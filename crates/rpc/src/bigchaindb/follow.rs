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
use crate::client::{ClientError, HeaderTime, check_trust};
use crate::connection::{ConnectionError, ConnectionOptions, TaskConnection};
use crate::endpoint::Endpoint;
use crate::follower::{Backoff, FollowError, FollowEvent, FollowOptions, FollowedBlock, Follower};

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
/// stream, blocks are looked up, so events that were lost are found again. The API knows neither
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
        client: BigchaindbClient::new(api, options.client())?,
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
                    let closed = true;
                    self.tell(FollowEvent::Disconnected { reason, closed });
                    if self.hand_over().await.is_err() {
                        return;
                    }
                }
                tokio::time::sleep(self.backoff.pause()).await;
            }
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
        if self.broken
            && let Err(left) = self.look_up_missed().await
        {
            return left;
        }
        self.broken = false;
        self.backoff.reset();
        self.tell(FollowEvent::Connected {
            next: self.gatherer.next().unwrap_or(0),
            subscribed: true,
        });
        self.listen(&mut stream).await
    }

    async fn connect(&self) -> Result<TaskConnection, String> {
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
                (events, error) = read(stream), if self.outbox.len() < MAX_OUTBOX => {
                    Step::Read(events, error)
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
                        if let Err(reason) = event.map(|event| self.on_event(&event)) {
                            return Left::Lost(reason);
                        }
                    }
                    if let Some(error) = error {
                        return Left::Lost(format!("the event stream ended: {error}"));
                    }
                    quiet_at = Instant::now() + self.options.quiet_interval;
                }
                Step::Quiet => {
                    if let Err(left) = self.look_up_missed().await {
                        return left;
                    }
                    quiet_at = Instant::now() + self.options.quiet_interval;
                }
            }
        }
    }

    fn on_event(&mut self, event: &Event) {
        let now = (self.clock)();
        for block in self.gatherer.event(event.height, event.transaction_id, now) {
            self.deliver(block);
        }
    }

    /// Asks for every block from the next one on, until there is none: whatever was not told is found
    /// here. A server whose blocks end below what it has told of before is another.
    async fn look_up_missed(&mut self) -> Result<(), Left> {
        let lost = |error: ClientError| Left::Lost(error.to_string());
        let Some(first) = self.gatherer.next() else {
            if self.broken {
                // Nothing was told before the stream broke: whatever comes after the newest block is
                // ours. 0 when old blocks are gone and nothing can be said.
                let newest = self.client.newest_height().await.map_err(lost)?;
                if newest > 0 {
                    self.gatherer.begin(newest + 1);
                }
            }
            return Ok(());
        };
        let mut height = first;
        while let Some(ids) = self.client.block(height).await.map_err(lost)? {
            let now = (self.clock)();
            let block = self.gatherer.looked_up(height, ids, now);
            self.deliver(block);
            self.hand_over().await.map_err(|()| Left::End)?;
            height += 1;
        }
        if height == first && self.broken && first > 1 {
            let before = self.client.block(first - 1).await.map_err(lost)?;
            if before.is_none() {
                let (known, latest) = (first - 1, self.client.newest_height().await.map_err(lost)?);
                self.tell(FollowEvent::Failed(FollowError::WentBack { known, latest }));
                let _ = self.hand_over().await;
                return Err(Left::End);
            }
        }
        Ok(())
    }

    fn deliver(&mut self, block: Gathered) {
        self.last_observed = block.observed.max(self.last_observed);
        self.tell(FollowEvent::Block(FollowedBlock {
            height: block.height,
            header_time: HeaderTime::default(),
            observed: self.last_observed,
            resolution: None,
            hashes: block.ids,
            codes: Vec::new(),
            codes_known: true,
            bytes: 0,
            proposer: String::new(),
        }));
    }

    /// Every stamp is taken by this task, so whatever is stamped later is not earlier than now.
    fn give_watermark(&mut self) {
        if !self.outbox.is_empty() {
            return;
        }
        let now = (self.clock)();
        let level = self.gatherer.open_since().unwrap_or(now);
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
/// Characters of an unreadable event that are quoted.
const SHOWN: usize = 80;
