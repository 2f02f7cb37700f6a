//! What is committed, from the blocks of the event stream and, where events may be missing, from the API.

use std::collections::VecDeque;
use std::time::Duration;

use pacing::Nanos;
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{BigchaindbClient, id};
use rpc::{
    BlockAnswer, BlockSource, ChainStatus, ClientError, ConnectionOptions, Endpoint, FollowOptions,
    FollowedBlock, Follower, FollowerWorker, Loss, Query, Question, Reconnecting, SourceBlock,
    SourceEvent, TaskConnection, check_trust, finished,
};

/// A BigchainDB server as a source of blocks.
pub struct EventSource {
    client: BigchaindbClient,
    stream: Reconnecting,
    gatherer: Gatherer,
    /// How long the events of a block that have come are waited for to be confirmed.
    patience: Duration,
    /// The highest block that the server is known to have.
    latest: u64,
    is_open: bool,
    status: Option<Query<Result<u64, ClientError>>>,
    /// The block that the worker waits for.
    wanted: Option<u64>,
    lookup: Option<Query<Result<Found, ClientError>>>,
    /// When `wanted` is given as its events told, if some have come.
    give_up_at: Instant,
}

/// What the API has of a block.
enum Found {
    /// Its height and its ids.
    Block(u64, Vec<[u8; 32]>),
    /// Nothing: the newest block is this one.
    Absent(u64),
}

#[derive(Deserialize)]
struct Event {
    height: u64,
    #[serde(deserialize_with = "id")]
    transaction_id: [u8; 32],
}

/// Prepares to follow the commits of a BigchainDB server. Nothing happens until the caller runs the worker
/// ([`FollowerWorker::run`]).
///
/// A block is observed when its first event comes, and its content is that of its events once one of a higher block
/// comes. Blocks whose events may be incomplete are asked for: those that the server had when the stream was opened,
/// and those after which no event came for [`FollowOptions::quiet_interval`]. When such a question about a block
/// whose events have come stays unanswered for four more intervals, the block is what its events told. The API knows
/// neither header times nor sizes nor refused transactions: those stay empty.
///
/// # Errors
/// [`ClientError::Setup`] when TLS is needed and cannot be set up.
pub fn follow_bigchaindb<C>(
    api: &Endpoint,
    events: &Endpoint,
    options: FollowOptions,
    clock: C,
    shutdown: CancellationToken,
) -> Result<(Follower, FollowerWorker<EventSource, C>), ClientError>
where
    C: Fn() -> Nanos + Send,
{
    let source = EventSource::new(api, events, &options)?;
    Ok(FollowerWorker::new(source, options, clock, shutdown))
}

impl BlockSource for EventSource {
    fn ask(&mut self, question: Question) {
        match question {
            Question::Status(_) => self.ask_status(),
            Question::Block(height) => {
                self.wanted = Some(height);
                self.give_up_at = Instant::now() + self.patience;
            }
        }
    }

    async fn next(&mut self) -> SourceEvent {
        loop {
            let told = self
                .wanted
                .map(|height| (height, self.gatherer.told(height)));
            let has_begun = matches!(told, Some((_, Told::Begun)));
            match told {
                Some((height, Told::Whole(ids))) => return self.give(height, ids),
                Some((height, Told::Unknown)) if self.lookup.is_none() => self.look_up(height),
                _ => {}
            }
            let has_room = self.gatherer.ids() < MAX_IDS;
            tokio::select! {
                biased;
                event = listen(&mut self.stream, &mut self.gatherer), if has_room => {
                    self.on_stream(&event);
                    return event;
                }
                status = finished(&mut self.status) => {
                    return SourceEvent::Status(self.on_status(status, has_begun));
                }
                found = finished(&mut self.lookup) => {
                    if let Some(event) = self.on_found(found, has_begun) {
                        return event;
                    }
                }
                () = sleep_until(self.give_up_at), if has_begun => {
                    if let Some((height, _)) = told {
                        let ids = self.gatherer.close();
                        return self.give(height, ids);
                    }
                }
            }
        }
    }
}

impl EventSource {
    /// A source that connects when it is listened to; see [`follow_bigchaindb`].
    ///
    /// # Errors
    /// [`ClientError::Setup`] when TLS is needed and cannot be set up.
    pub fn new(
        api: &Endpoint,
        events: &Endpoint,
        options: &FollowOptions,
    ) -> Result<Self, ClientError> {
        check_trust(events, &options.trust)?;
        let (events, connection) = (
            events.clone(),
            ConnectionOptions {
                max_message_bytes: MAX_EVENT_BYTES,
                trust: options.trust.clone(),
                ..Default::default()
            },
        );
        let connect = move || connect(events.clone(), connection.clone());
        Ok(Self {
            client: BigchaindbClient::new(api, &options.client())?,
            stream: Reconnecting::new(options.max_backoff, connect),
            gatherer: Gatherer::default(),
            patience: options.quiet_interval * (1 + PATIENCE),
            latest: 0,
            is_open: false,
            status: None,
            wanted: None,
            lookup: None,
            give_up_at: Instant::now(),
        })
    }

    fn ask_status(&mut self) {
        let (client, known) = (self.client.clone(), self.latest);
        self.status = Some(Box::pin(async move { client.newest_height(known).await }));
    }

    fn look_up(&mut self, height: u64) {
        let (client, known) = (self.client.clone(), self.latest);
        self.lookup = Some(Box::pin(async move {
            match client.block(height).await? {
                Some(ids) => Ok(Found::Block(height, ids)),
                None => Ok(Found::Absent(client.newest_height(known).await?)),
            }
        }));
    }

    fn on_stream(&mut self, event: &SourceEvent) {
        match event {
            SourceEvent::Open => {
                self.is_open = true;
                // Only an answer to a later question shows what the stream may have missed.
                if self.status.is_some() {
                    self.ask_status();
                }
            }
            SourceEvent::Height(height) => {
                self.latest = self.latest.max(*height);
                self.give_up_at = Instant::now() + self.patience;
            }
            SourceEvent::Lost(_) => {
                self.is_open = false;
                self.gatherer.clear();
            }
            _ => {}
        }
    }

    fn on_status(
        &mut self,
        answer: Result<u64, ClientError>,
        has_begun: bool,
    ) -> Result<ChainStatus, Loss> {
        match answer {
            Ok(newest) => {
                if self.is_open {
                    self.gatherer.opened_at(newest);
                }
                if let Some(height) = self.wanted.filter(|_| has_begun && self.lookup.is_none()) {
                    self.look_up(height);
                }
                self.latest = self.latest.max(newest);
                Ok(status(newest))
            }
            // The stream has every block as long as it is not broken.
            Err(_) if self.gatherer.is_whole() => Ok(status(self.latest)),
            Err(error) => Err(Loss::of(&error)),
        }
    }

    /// The answer to tell; nothing while the events of the block may still tell it.
    fn on_found(
        &mut self,
        found: Result<Found, ClientError>,
        has_begun: bool,
    ) -> Option<SourceEvent> {
        let answer = match found {
            Ok(Found::Block(height, ids)) => return Some(self.give(height, ids)),
            _ if has_begun => return None,
            Ok(Found::Absent(newest)) => BlockAnswer::Absent(status(newest), "no block".to_owned()),
            Err(error) => BlockAnswer::Unknown(Loss::of_block(&error)),
        };
        self.wanted = None;
        Some(SourceEvent::Block(answer))
    }

    fn give(&mut self, height: u64, hashes: Vec<[u8; 32]>) -> SourceEvent {
        (self.wanted, self.lookup) = (None, None);
        self.gatherer.forget_to(height);
        SourceEvent::Block(BlockAnswer::Found(Box::new(SourceBlock {
            content: FollowedBlock {
                height,
                hashes,
                codes_known: true,
                ..FollowedBlock::default()
            },
            ..SourceBlock::default()
        })))
    }
}

fn status(latest: u64) -> ChainStatus {
    ChainStatus {
        latest,
        ..ChainStatus::default()
    }
}

async fn connect(events: Endpoint, options: ConnectionOptions) -> Result<TaskConnection, String> {
    let opened = TaskConnection::open(&events, &options).await;
    opened.map_err(|error| format!("the events at {events} are unavailable: {error}"))
}

/// Gathers the events that come next; the highest block among them is announced. Cancel safe.
async fn listen(stream: &mut Reconnecting, gatherer: &mut Gatherer) -> SourceEvent {
    loop {
        let (mut highest, mut unreadable) = (None, None);
        let read = stream.read(
            |message| match serde_json::from_slice::<Event>(message.body) {
                Ok(event) => {
                    gatherer.event(event.height, event.transaction_id);
                    highest = highest.max(Some(event.height));
                }
                Err(_) => {
                    let text = String::from_utf8_lossy(message.body);
                    unreadable.get_or_insert_with(|| text.chars().take(SHOWN).collect::<String>());
                }
            },
        );
        let loss = match (read.await, unreadable, highest) {
            (Err(event), ..) => return event,
            (_, Some(shown), _) => Loss::open(format!("an event cannot be read: {shown}")),
            (_, _, Some(height)) => {
                stream.succeeded();
                return SourceEvent::Height(height);
            }
            (Ok(Ok(_)), ..) => continue,
            (Ok(Err(error)), ..) => Loss::closed(format!("the event stream ended: {error}")),
        };
        return stream.lose(loss);
    }
}

/// An event has 180 bytes.
const MAX_EVENT_BYTES: usize = 64 << 10;
/// Ids that wait for their blocks to be asked for, 3 MB; further events are left in the socket.
const MAX_IDS: usize = 100_000;
/// Quiet intervals that a question about a block is waited for before the block is what its events told.
const PATIENCE: u32 = 4;
/// Characters of an unreadable event that are quoted.
const SHOWN: usize = 80;

/// The events of one stream for a block.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    /// It has these transactions and no others.
    Whole(Vec<[u8; 32]>),
    /// Its events are coming.
    Begun,
    /// Events of it may be missing.
    Unknown,
}

/// Puts the events of one stream together.
///
/// A server sends a block's events one after the other and the blocks in their order, so an event of
/// a higher block completes the one before, and heights that are passed over were empty: as long as
/// the stream is not broken, and from the first block on that was committed after it was opened.
#[derive(Debug, Default)]
struct Gatherer {
    /// The first block all of whose events came on this stream, once that is known.
    whole_from: Option<u64>,
    /// Blocks below this height are not asked for any more.
    next: u64,
    /// Heights rise; the events of the last one are still coming.
    blocks: VecDeque<(u64, Vec<[u8; 32]>)>,
    /// Ids in `blocks`.
    ids: usize,
}

impl Gatherer {
    /// Takes an event.
    fn event(&mut self, height: u64, id: [u8; 32]) {
        match self.blocks.back_mut() {
            Some((last, ids)) if *last == height => ids.push(id),
            // Out of order: no server does that. Its block is complete.
            Some((last, _)) if *last > height => return,
            _ if height < self.next => return,
            _ => self.blocks.push_back((height, vec![id])),
        }
        self.ids += 1;
    }

    /// What is known of a block. Nothing is asked again of a lower one.
    fn told(&mut self, height: u64) -> Told {
        self.forget_to(height.saturating_sub(1));
        if self.whole_from.is_none_or(|from| height < from) {
            return Told::Unknown;
        }
        match self.blocks.front() {
            None => Told::Unknown,
            Some((at, _)) if *at > height => Told::Whole(Vec::new()),
            Some(_) if self.blocks.len() == 1 => Told::Begun,
            Some(_) => Told::Whole(self.close()),
        }
    }

    /// Gives the first block as it is.
    fn close(&mut self) -> Vec<[u8; 32]> {
        let (_, ids) = self.blocks.pop_front().unwrap_or_default();
        self.ids -= ids.len();
        ids
    }

    /// Takes no more events of this block and of lower ones.
    fn forget_to(&mut self, height: u64) {
        self.next = height + 1;
        while self.blocks.front().is_some_and(|(at, _)| *at <= height) {
            self.close();
        }
    }

    /// Everything above this height was committed after the stream was opened.
    fn opened_at(&mut self, latest: u64) {
        self.whole_from.get_or_insert(latest + 1);
    }

    /// Whether it is known which blocks are whole.
    const fn is_whole(&self) -> bool {
        self.whole_from.is_some()
    }

    /// The stream broke.
    fn clear(&mut self) {
        *self = Self {
            next: self.next,
            ..Self::default()
        };
    }

    /// How many ids wait.
    const fn ids(&self) -> usize {
        self.ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gatherer(latest: u64, events: &[(u64, u8)]) -> Gatherer {
        let mut gatherer = Gatherer::default();
        gatherer.opened_at(latest);
        for (height, id) in events {
            gatherer.event(*height, [*id; 32]);
        }
        gatherer
    }

    fn whole(ids: &[u8]) -> Told {
        Told::Whole(ids.iter().map(|id| [*id; 32]).collect())
    }

    #[test]
    fn a_higher_block_completes_the_one_before_and_the_empty_ones_between() {
        let mut gatherer = gatherer(6, &[(7, 1), (7, 2)]);
        assert_eq!(gatherer.told(7), Told::Begun);
        gatherer.event(10, [3; 32]);
        let told = [7, 8, 9, 10, 11].map(|height| gatherer.told(height));
        let unknown = Told::Unknown;
        assert_eq!(
            told,
            [whole(&[1, 2]), whole(&[]), whole(&[]), Told::Begun, unknown]
        );
        assert_eq!(gatherer.ids(), 0);
    }

    #[test]
    fn blocks_of_a_stream_that_opened_in_them_or_broke_are_unknown() {
        let mut gatherer = gatherer(4, &[(4, 1), (5, 2), (6, 3)]);
        assert_eq!(gatherer.told(4), Told::Unknown);
        assert_eq!(gatherer.told(5), whole(&[2]));
        gatherer.clear();
        gatherer.event(6, [4; 32]);
        gatherer.event(7, [5; 32]);
        assert_eq!(gatherer.told(6), Told::Unknown);
    }

    #[test]
    fn a_block_that_was_given_is_not_begun_again_by_its_late_events() {
        let mut gatherer = gatherer(0, &[(3, 1)]);
        assert_eq!(gatherer.told(3), Told::Begun);
        assert_eq!(gatherer.close(), [[1; 32]]);
        gatherer.forget_to(3);
        gatherer.event(3, [2; 32]);
        assert_eq!((gatherer.told(4), gatherer.ids()), (Told::Unknown, 0));
    }
}
