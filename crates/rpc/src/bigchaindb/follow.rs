//! What is committed, from the event stream.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::StreamExt;
use pacing::Nanos;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{
    Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config,
};
use tokio_util::sync::CancellationToken;

use super::api::{BigchaindbClient, client_options, id_of};
use super::gather::{Gathered, Gatherer};
use crate::client::{ClientError, HeaderTime};
use crate::endpoint::Endpoint;
use crate::follower::{
    Backoff, FollowError, FollowEvent, FollowOptions, FollowedBlock, Follower, connector,
};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// The side of a follower of events that works; see [`follow_bigchaindb`].
pub struct EventFollowerWorker<C> {
    client: BigchaindbClient,
    events: Endpoint,
    connector: Connector,
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
    Heard(Option<Result<Message, String>>),
    Sent,
    Tick,
    Quiet,
    End,
}

#[derive(Deserialize)]
struct Event {
    height: u64,
    transaction_id: String,
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
    let client = client_options(
        options.timeout,
        options.max_answer_bytes,
        options.trust.clone(),
    );
    let (sender, receiver) = mpsc::channel(options.events.max(1));
    let worker = EventFollowerWorker {
        client: BigchaindbClient::new(api, client)?,
        connector: connector(events, &options.trust)?,
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
        let mut socket = match self.connect().await {
            Ok(socket) => socket,
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
        self.listen(&mut socket).await
    }

    async fn connect(&self) -> Result<Socket, String> {
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_EVENT_BYTES))
            .max_frame_size(Some(MAX_EVENT_BYTES));
        let url = self.events.websocket_url();
        let connector = Some(self.connector.clone());
        let connecting = connect_async_tls_with_config(url, Some(config), true, connector);
        match timeout(CONNECT_LIMIT, connecting).await {
            Ok(Ok((socket, _))) => Ok(socket),
            Ok(Err(error)) => Err(format!(
                "the events at {} cannot be had: {error}",
                self.events
            )),
            Err(_) => Err(format!("the events at {} give no answer", self.events)),
        }
    }

    async fn listen(&mut self, socket: &mut Socket) -> Left {
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
                message = socket.next(), if self.outbox.len() < MAX_OUTBOX => {
                    Step::Heard(message.map(|heard| heard.map_err(|error| error.to_string())))
                }
                _ = ticks.tick() => Step::Tick,
                () = sleep_until(quiet_at) => Step::Quiet,
            };
            match step {
                Step::End => return Left::End,
                Step::Sent => {}
                Step::Tick => self.give_watermark(),
                Step::Heard(heard) => {
                    if let Err(reason) = self.on_message(heard) {
                        return Left::Lost(reason);
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

    fn on_message(&mut self, heard: Option<Result<Message, String>>) -> Result<(), String> {
        let text = match heard {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(_))) | None => {
                return Err("the server closed the event stream".into());
            }
            Some(Ok(_)) => return Ok(()),
            Some(Err(reason)) => return Err(format!("the event stream broke: {reason}")),
        };
        let unreadable = || format!("an event cannot be read: {}", shortened(&text));
        let event: Event = serde_json::from_str(&text).map_err(|_| unreadable())?;
        let id = id_of(&event.transaction_id).ok_or_else(unreadable)?;
        let now = (self.clock)();
        for block in self.gatherer.event(event.height, id, now) {
            self.deliver(block);
        }
        Ok(())
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

fn shortened(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// An event has 180 bytes.
const MAX_EVENT_BYTES: usize = 64 << 10;
/// With this many events waiting the stream is left in the socket.
const MAX_OUTBOX: usize = 64;
/// Characters of an unreadable event that are quoted.
const SHOWN: usize = 80;
