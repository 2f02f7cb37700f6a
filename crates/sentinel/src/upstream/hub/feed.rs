//! One query at one node, and the clients that read its events.
//!
//! An event is held once, however many read it, until the last of them has taken it. A reader that
//! is too far behind loses the oldest events, and with them its subscription; the others lose nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::Mutex;
use slab::Slab;

use crate::budget::Held;
use crate::refusal::Refusal;
use crate::upstream::nodes::NodeIndex;

/// The node and the query in its normal form.
pub(super) type FeedKey = (NodeIndex, String);

/// One query at one node.
pub(super) struct Feed {
    pub(super) key: FeedKey,
    /// The query as its first reader wrote it.
    pub(super) query: String,
    state: Mutex<FeedState>,
    stock: Arc<Stock>,
    /// Of the client that asked for it first.
    _slot: Held,
}

struct FeedState {
    phase: FeedPhase,
    /// The number of the first event that is held.
    first: u64,
    events: VecDeque<HeldEvent>,
    bytes: usize,
    /// What wakes each reader.
    readers: Slab<Option<Waker>>,
}

/// Where a feed is.
#[derive(Clone, Debug)]
enum FeedPhase {
    /// The node is to be asked.
    Wanted,
    /// The node was asked.
    Asked,
    /// The node has confirmed.
    Live,
    /// There will be no more events.
    Ended(FeedEnd),
}

/// Why a feed has ended.
#[derive(Clone, Debug)]
pub(in crate::upstream) enum FeedEnd {
    /// The node refused the query: the `"error":{…}` of its answer.
    Refused(Bytes),
    /// The node did not answer.
    Failed(Refusal),
    /// The subscription was cancelled, for this reason.
    Cancelled(String),
}

/// An event as far as it is the same for all readers.
#[derive(Clone, Debug)]
pub(in crate::upstream) struct FeedEvent {
    /// What comes behind the query.
    pub(in crate::upstream) rest: Bytes,
    /// Whether its id ends in `#event`, as up to Tendermint 0.33.
    pub(in crate::upstream) is_marked: bool,
}

struct HeldEvent {
    event: FeedEvent,
    /// Readers that have not taken it.
    unread: usize,
}

/// The bytes of all feeds' events.
#[derive(Debug)]
pub(super) struct Stock {
    held: AtomicUsize,
    capacity: usize,
    /// Subscriptions of clients, and those that ended because their client read too slowly.
    pub(super) readers: AtomicUsize,
    pub(super) slow: AtomicU64,
}

/// One client's subscription to a feed. Dropping it ends it.
pub(in crate::upstream) struct Reader {
    feed: Arc<Feed>,
    place: usize,
    /// The number of the event to be taken next.
    next: u64,
    is_confirmed: bool,
    on_leave: Arc<tokio::sync::Notify>,
    _slot: Held,
}

/// What a reader gets.
#[derive(Debug)]
pub(in crate::upstream) enum FeedNews {
    /// The node has taken the query.
    Confirmed,
    Event(FeedEvent),
    /// The last news.
    Ended(FeedEnd),
}

impl Stock {
    pub(super) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            held: AtomicUsize::new(0),
            capacity,
            readers: AtomicUsize::new(0),
            slow: AtomicU64::new(0),
        })
    }

    /// Whether a feed that holds so much has more than its share: as much as is free besides.
    fn is_over(&self, own: usize) -> bool {
        let held = self.held.load(Ordering::Relaxed);
        own > self.capacity.saturating_sub(held)
    }
}

impl Feed {
    pub(super) fn new(key: FeedKey, query: &str, stock: &Arc<Stock>, slot: Held) -> Self {
        Self {
            key,
            query: query.to_owned(),
            state: Mutex::new(FeedState {
                phase: FeedPhase::Wanted,
                first: 0,
                events: VecDeque::new(),
                bytes: 0,
                readers: Slab::new(),
            }),
            stock: Arc::clone(stock),
            _slot: slot,
        }
    }

    /// A reader of the events from now on; none if there will be no more.
    pub(super) fn join(
        self: &Arc<Self>,
        slot: Held,
        on_leave: &Arc<tokio::sync::Notify>,
    ) -> Result<Reader, Held> {
        let mut state = self.state.lock();
        if matches!(state.phase, FeedPhase::Ended(_)) {
            return Err(slot);
        }
        self.stock.readers.fetch_add(1, Ordering::Relaxed);
        Ok(Reader {
            place: state.readers.insert(None),
            next: state.first + state.events.len() as u64,
            feed: Arc::clone(self),
            is_confirmed: false,
            on_leave: Arc::clone(on_leave),
            _slot: slot,
        })
    }

    /// Whether the node is to be asked; from now on it was.
    pub(super) fn ask(&self) -> bool {
        let mut state = self.state.lock();
        let is_wanted = matches!(state.phase, FeedPhase::Wanted);
        if is_wanted {
            state.phase = FeedPhase::Asked;
        }
        is_wanted
    }

    /// The node is to be asked once more.
    pub(super) fn ask_again(&self) {
        self.state.lock().phase = FeedPhase::Wanted;
    }

    /// Whether nobody reads it.
    pub(super) fn is_deserted(&self) -> bool {
        self.state.lock().readers.is_empty()
    }

    /// The node has confirmed.
    pub(super) fn confirm(&self) {
        self.turn_to(FeedPhase::Live);
    }

    /// No more events come.
    pub(super) fn end(&self, end: FeedEnd) {
        self.turn_to(FeedPhase::Ended(end));
    }

    fn turn_to(&self, phase: FeedPhase) {
        let mut state = self.state.lock();
        state.phase = phase;
        state.wake();
    }

    /// An event for all readers.
    pub(super) fn publish(&self, event: FeedEvent) {
        let mut state = self.state.lock();
        let unread = state.readers.len();
        if unread == 0 {
            return;
        }
        let len = event.rest.len();
        self.stock.held.fetch_add(len, Ordering::Relaxed);
        state.bytes += len;
        state.events.push_back(HeldEvent { event, unread });
        while state.events.len() > MOST_EVENTS
            || state.events.len() > 1 && self.stock.is_over(state.bytes)
        {
            state.forget_first(&self.stock);
        }
        state.wake();
    }
}

impl FeedState {
    fn wake(&mut self) {
        for (_, waker) in &mut self.readers {
            if let Some(waker) = waker.take() {
                waker.wake();
            }
        }
    }

    fn forget_first(&mut self, stock: &Stock) {
        if let Some(held) = self.events.pop_front() {
            let len = held.event.rest.len();
            stock.held.fetch_sub(len, Ordering::Relaxed);
            self.bytes -= len;
            self.first += 1;
        }
    }

    /// Forgets what everyone has taken.
    fn forget_read(&mut self, stock: &Stock) {
        while self.events.front().is_some_and(|held| held.unread == 0) {
            self.forget_first(stock);
        }
    }
}

impl Reader {
    /// What comes next.
    pub(in crate::upstream) fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<FeedNews> {
        let mut state = self.feed.state.lock();
        if !self.is_confirmed && matches!(state.phase, FeedPhase::Live) {
            self.is_confirmed = true;
            return Poll::Ready(FeedNews::Confirmed);
        }
        if self.next < state.first {
            self.feed.stock.slow.fetch_add(1, Ordering::Relaxed);
            self.next = state.first;
            return Poll::Ready(FeedNews::Ended(FeedEnd::Cancelled(SLOW.to_owned())));
        }
        // Events that came before the confirmation wait for it.
        let place = usize::try_from(self.next - state.first).unwrap_or(usize::MAX);
        if self.is_confirmed
            && let Some(held) = state.events.get_mut(place)
        {
            held.unread -= 1;
            let event = held.event.clone();
            self.next += 1;
            state.forget_read(&self.feed.stock);
            return Poll::Ready(FeedNews::Event(event));
        }
        if let FeedPhase::Ended(end) = &state.phase {
            return Poll::Ready(FeedNews::Ended(end.clone()));
        }
        state.readers[self.place] = Some(context.waker().clone());
        Poll::Pending
    }

    /// Whether the node has taken the query, as far as the client was told.
    pub(in crate::upstream) const fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.feed.state.lock();
        let taken = usize::try_from(self.next.saturating_sub(state.first)).unwrap_or(usize::MAX);
        for held in state.events.iter_mut().skip(taken) {
            held.unread -= 1;
        }
        state.forget_read(&self.feed.stock);
        state.readers.remove(self.place);
        self.feed.stock.readers.fetch_sub(1, Ordering::Relaxed);
        if state.readers.is_empty() {
            self.on_leave.notify_one();
        }
    }
}

/// Events that a reader may be behind: as many as the node holds for a subscriber
/// (`experimental_subscription_buffer_size`).
pub(super) const MOST_EVENTS: usize = 200;
/// The node's reason for the end of a subscription that is not read.
const SLOW: &str = "client is not pulling messages fast enough";

#[cfg(test)]
mod tests {
    use fairq::KeyScheme;

    use super::*;
    use crate::budget::Budget;
    use crate::config::Config;

    /// A confirmed feed with so many readers, whose events may take so many bytes.
    fn feed(readers: usize, capacity: usize) -> (Arc<Feed>, Vec<Reader>) {
        let limits = Budget::new(&Config::default(), [1, 2]);
        let limits = Arc::new(limits);
        let client = KeyScheme::default().key([192, 0, 2, 1].into());
        let place = limits.open_query(client, (10, 10)).unwrap();
        let stock = Stock::new(capacity);
        let feed = Arc::new(Feed::new((0, "q".to_owned()), "q", &stock, place));
        let leave = Arc::default();
        let reader = |_| {
            let joined = feed.join(limits.subscribe(client).unwrap(), &leave);
            let mut reader = joined.ok().unwrap();
            feed.confirm();
            assert!(matches!(news(&mut reader), Some(FeedNews::Confirmed)));
            reader
        };
        let readers = (0..readers).map(reader).collect();
        (feed, readers)
    }

    fn news(reader: &mut Reader) -> Option<FeedNews> {
        match reader.poll_news(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(news) => Some(news),
            Poll::Pending => None,
        }
    }

    fn event(len: usize) -> FeedEvent {
        FeedEvent {
            rest: vec![b'x'; len].into(),
            is_marked: false,
        }
    }

    fn held(feed: &Feed) -> (usize, usize) {
        (
            feed.state.lock().events.len(),
            feed.stock.held.load(Ordering::Relaxed),
        )
    }

    #[test]
    fn sharing_71_a_slow_reader_loses_its_own_subscription_only() {
        let (feed, mut readers) = feed(2, 1 << 20);
        let slow = readers.pop().unwrap();
        let mut slow = slow;
        for _ in 0..=MOST_EVENTS {
            feed.publish(event(10));
            assert!(matches!(news(&mut readers[0]), Some(FeedNews::Event(_))));
        }
        // An event that everyone has taken is not held; those of the slow one are, up to a bound.
        assert_eq!(held(&feed), (MOST_EVENTS, 10 * MOST_EVENTS));
        match news(&mut slow) {
            Some(FeedNews::Ended(FeedEnd::Cancelled(reason))) => assert_eq!(reason, SLOW),
            other => panic!("{other:?}"),
        }
        assert_eq!(feed.stock.slow.load(Ordering::Relaxed), 1);
        drop(slow);
        assert_eq!(held(&feed), (0, 0));
        assert!(news(&mut readers[0]).is_none());
    }

    #[test]
    fn sharing_71_an_event_is_held_once_and_all_of_them_within_a_bound() {
        let (feed, mut readers) = feed(100, 1_000);
        for _ in 0..20 {
            feed.publish(event(100));
        }
        // As much as is free besides.
        assert_eq!(held(&feed), (5, 500));
        assert!(
            readers
                .iter_mut()
                .all(|reader| news(reader).is_some_and(|news| matches!(news, FeedNews::Ended(_))))
        );
        // One that is larger than all is still handed out.
        readers.truncate(1);
        feed.publish(event(5_000));
        assert_eq!(held(&feed), (1, 5_000));
        readers.clear();
        assert_eq!(held(&feed), (0, 0));
        assert!(feed.is_deserted());
    }
}
