//! One query at one node, and the clients that read its events.
//!
//! An event is held once, however many read it, until the last of them has taken it. What is held
//! is in the account of a reader that is furthest behind, for which it waits. A reader that is too far behind
//! loses its subscription; the others lose nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::Notify;

use crate::budget::{Held, Ledger, Reservation};
use crate::refusal::Refusal;
use crate::upstream::node_state::NodeIndex;

/// One query at one node.
pub(super) struct Feed {
    pub(super) node: NodeIndex,
    pub(super) query: String,
    state: Mutex<FeedState>,
    totals: Arc<FeedTotals>,
    /// Of the client that asked for it first.
    _place: Held,
}

#[derive(Default)]
struct FeedState {
    /// Whether the node has confirmed.
    is_confirmed: bool,
    /// Why no more events come.
    end: Option<FeedEnd>,
    /// The number of the first event that is held.
    first: u64,
    events: VecDeque<HeldEvent>,
    bytes: usize,
    readers: Slab<ReaderState>,
    /// What is held, in the account of a reader that is furthest behind.
    charge: Option<(usize, Reservation)>,
}

/// Where a reader is.
struct ReaderState {
    /// The number of the event to be taken next.
    next: u64,
    /// Whether it was too far behind, and takes no more.
    is_slow: bool,
    waker: Option<Waker>,
    /// Its client's account.
    ledger: Ledger,
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

/// What all feeds share.
#[derive(Debug, Default)]
pub(super) struct FeedTotals {
    /// Bytes that a reader may be behind.
    pub(super) max_lag_bytes: usize,
    /// A feed is new, or has lost its last reader.
    pub(super) changed: Notify,
    /// Subscriptions that ended because their client read too slowly.
    pub(super) slow: AtomicU64,
    /// And those that the node ended, or the end of a connection.
    pub(super) ended: AtomicU64,
}

/// One client's subscription to a feed. Dropping it ends it.
pub(in crate::upstream) struct Reader {
    feed: Arc<Feed>,
    place: usize,
    is_confirmed: bool,
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

impl Feed {
    pub(super) fn new(
        (node, query): (NodeIndex, String),
        totals: &Arc<FeedTotals>,
        place: Held,
    ) -> Arc<Self> {
        Arc::new(Self {
            node,
            query,
            state: Mutex::default(),
            totals: Arc::clone(totals),
            _place: place,
        })
    }

    /// A reader of the events from now on.
    pub(super) fn join(self: &Arc<Self>, slot: Held, ledger: &Ledger) -> Reader {
        let mut state = self.state.lock();
        let reader = ReaderState {
            next: state.first + state.events.len() as u64,
            is_slow: false,
            waker: None,
            ledger: ledger.clone(),
        };
        Reader {
            place: state.readers.insert(reader),
            feed: Arc::clone(self),
            is_confirmed: false,
            _slot: slot,
        }
    }

    /// How many read it.
    pub(super) fn readers(&self) -> usize {
        self.state.lock().readers.len()
    }

    /// The node has confirmed.
    pub(super) fn confirm(&self) {
        let mut state = self.state.lock();
        state.is_confirmed = true;
        state.wake();
    }

    /// No more events come.
    pub(super) fn end(&self, end: FeedEnd) {
        let mut state = self.state.lock();
        if matches!(end, FeedEnd::Cancelled(_)) {
            let readers = state.readers.len() as u64;
            self.totals.ended.fetch_add(readers, Ordering::Relaxed);
        }
        state.end = Some(end);
        state.wake();
    }

    /// An event for all readers. One that is too far behind to have it as well, or whose account has no room
    /// for what waits for it, has no more.
    pub(super) fn publish(&self, event: FeedEvent) {
        let mut state = self.state.lock();
        let readers = state.readers.iter();
        let unread = readers.filter(|(_, reader)| !reader.is_slow).count();
        if unread == 0 {
            return;
        }
        state.bytes += event.rest.len();
        state.events.push_back(HeldEvent { event, unread });
        while let Some(place) = state.overdrawn(self.totals.max_lag_bytes) {
            state.readers[place].is_slow = true;
            state.leave_unread(place);
            self.totals.slow.fetch_add(1, Ordering::Relaxed);
        }
        state.wake();
    }
}

impl FeedState {
    fn wake(&mut self) {
        let readers = self.readers.iter_mut();
        readers
            .filter_map(|(_, reader)| reader.waker.take())
            .for_each(Waker::wake);
    }

    /// Charges what is held to a reader that is furthest behind, for which it waits: that reader if it may not be
    /// so far behind. One event may always wait.
    fn overdrawn(&mut self, max_lag_bytes: usize) -> Option<usize> {
        let mut readers = self.readers.iter();
        let slowest = readers.find(|(_, reader)| !reader.is_slow && reader.next == self.first);
        let Some((slowest, reader)) = slowest.filter(|_| self.events.len() > 1) else {
            self.charge = None;
            return None;
        };
        let known = self.charge.take().filter(|(place, _)| *place == slowest);
        let mut charge = known.map_or_else(|| reader.ledger.nothing(), |(_, charge)| charge);
        let more = self.bytes.saturating_sub(charge.bytes());
        if self.bytes > max_lag_bytes || !charge.grow(more) {
            return Some(slowest);
        }
        self.charge = Some((slowest, charge));
        None
    }

    /// What a reader has not taken does not wait for it.
    fn leave_unread(&mut self, place: usize) {
        let taken = self.readers[place].next.saturating_sub(self.first);
        let taken = usize::try_from(taken).unwrap_or(usize::MAX);
        for held in self.events.iter_mut().skip(taken) {
            held.unread -= 1;
        }
        self.forget_read();
    }

    /// Forgets what all have taken.
    fn forget_read(&mut self) {
        while let Some(held) = self.events.pop_front_if(|held| held.unread == 0) {
            self.bytes -= held.event.rest.len();
            self.first += 1;
        }
        if let Some((_, charge)) = &mut self.charge {
            charge.shrink_to(self.bytes);
        }
    }
}

impl Reader {
    /// What comes next.
    pub(in crate::upstream) fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<FeedNews> {
        let mut state = self.feed.state.lock();
        let state = &mut *state;
        let reader = &mut state.readers[self.place];
        if !self.is_confirmed && state.is_confirmed {
            self.is_confirmed = true;
            return Poll::Ready(FeedNews::Confirmed);
        }
        if reader.is_slow {
            return Poll::Ready(FeedNews::Ended(FeedEnd::Cancelled(SLOW.to_owned())));
        }
        // Events that came before the confirmation wait for it.
        let place = usize::try_from(reader.next - state.first).unwrap_or(usize::MAX);
        if self.is_confirmed
            && let Some(held) = state.events.get_mut(place)
        {
            held.unread -= 1;
            reader.next += 1;
            let event = held.event.clone();
            state.forget_read();
            return Poll::Ready(FeedNews::Event(event));
        }
        if let Some(end) = &state.end {
            return Poll::Ready(FeedNews::Ended(end.clone()));
        }
        reader.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Whether the node has taken the query, according to its answers.
    pub(in crate::upstream) const fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.feed.state.lock();
        if !state.readers[self.place].is_slow {
            state.leave_unread(self.place);
        }
        state.readers.remove(self.place);
        state.charge.take_if(|(place, _)| *place == self.place);
        if state.readers.is_empty() {
            self.feed.totals.changed.notify_one();
        }
    }
}

/// The node's reason for the end of a subscription that is not read.
const SLOW: &str = "client is not pulling messages fast enough";

#[cfg(test)]
mod tests {
    use fairq::{ClientKey, KeyScheme};

    use super::*;
    use crate::budget::{Budget, Kind};
    use crate::config::Config;

    const MIB: usize = 1 << 20;

    /// A confirmed feed, with a reader of each of so many clients, which may be behind by so many bytes.
    struct Bench {
        feed: Arc<Feed>,
        readers: Vec<Reader>,
        ledger: Ledger,
    }

    fn client(last: u8) -> ClientKey {
        KeyScheme::default().key([192, 0, 2, last].into())
    }

    impl Bench {
        fn new(readers: u8, most: usize) -> Self {
            let limits = Budget::new(&Config::default(), [1, 2]);
            let place = limits.hold(client(0), Kind::Query, (10, 10)).unwrap();
            let totals = Arc::new(FeedTotals {
                max_lag_bytes: most,
                ..FeedTotals::default()
            });
            let feed = Feed::new((0, "q".to_owned()), &totals, place);
            let ledger = Ledger::new(64 * MIB);
            let join = |last| {
                let slot = limits.subscribe(client(last)).unwrap();
                let mut reader = feed.join(slot, &ledger.of(client(last)));
                feed.confirm();
                assert!(matches!(news(&mut reader), Some(FeedNews::Confirmed)));
                reader
            };
            Self {
                readers: (0..readers).map(join).collect(),
                feed,
                ledger,
            }
        }

        fn publish(&self, events: usize, len: usize) {
            for _ in 0..events {
                let rest = vec![b'x'; len].into();
                let is_marked = false;
                self.feed.publish(FeedEvent { rest, is_marked });
            }
        }

        /// Events that are held, and their bytes in the readers' accounts.
        fn held(&self) -> (usize, usize) {
            (self.feed.state.lock().events.len(), self.ledger.used())
        }

        fn slow(&self) -> u64 {
            self.feed.totals.slow.load(Ordering::Relaxed)
        }
    }

    fn news(reader: &mut Reader) -> Option<FeedNews> {
        match reader.poll_news(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(news) => Some(news),
            Poll::Pending => None,
        }
    }

    /// Events that a reader takes before there is nothing more; none if its subscription has ended.
    fn take_all(reader: &mut Reader) -> Option<usize> {
        let mut taken = 0;
        loop {
            match news(reader) {
                Some(FeedNews::Event(_)) => taken += 1,
                Some(FeedNews::Ended(FeedEnd::Cancelled(reason))) => {
                    assert_eq!(reason, SLOW);
                    return None;
                }
                None => return Some(taken),
                other => panic!("{other:?}"),
            }
        }
    }

    /// At 2b52556 a feed held 200 events, whatever their size, and ended all readers that had not taken them.
    #[test]
    fn ws_95_the_events_of_a_block_wait_for_who_takes_them_at_once() {
        let mut bench = Bench::new(3, 8 * MIB);
        bench.publish(2_000, 1_000);
        for reader in &mut bench.readers {
            assert_eq!(take_all(reader), Some(2_000));
        }
        assert_eq!(bench.held(), (0, 0));
    }

    #[test]
    fn sharing_71_a_slow_reader_loses_its_own_subscription_only() {
        let mut bench = Bench::new(2, MIB);
        for _ in 0..10 {
            bench.publish(100, 1_000);
            assert_eq!(take_all(&mut bench.readers[0]), Some(100));
        }
        // An event that everyone has taken is not held; those of the slow one are, in its account.
        assert_eq!(bench.held(), (1_000, 1_000_000));
        bench.publish(100, 1_000);
        assert_eq!(bench.slow(), 1);
        assert_eq!(take_all(&mut bench.readers[1]), None);
        assert_eq!(take_all(&mut bench.readers[0]), Some(100));
        assert_eq!(bench.held(), (0, 0));
        bench.readers.truncate(1);
        bench.publish(1, 10);
        assert_eq!(take_all(&mut bench.readers[0]), Some(1));
    }

    /// Waiting events are charged to each reader's client: the reader whose client holds too much ends, and no
    /// other, however many read with it.
    #[test]
    fn ws_95_events_are_in_the_account_of_the_reader_that_is_behind() {
        let mut bench = Bench::new(20, usize::MAX);
        let hog = bench.ledger.of(client(7));
        let held = hog.reserve(29 * MIB).unwrap();
        for _ in 0..20 {
            bench.publish(1, MIB / 4);
            for (number, reader) in bench.readers.iter_mut().enumerate() {
                if ![7, 9].contains(&number) {
                    assert_eq!(take_all(reader), Some(1));
                }
            }
        }
        assert_eq!(bench.slow(), 1);
        assert_eq!(take_all(&mut bench.readers[7]), None);
        assert_eq!(take_all(&mut bench.readers[9]), Some(20));
        drop((bench.readers, held));
        assert_eq!(bench.ledger.used(), 0);
        assert_eq!(bench.feed.readers(), 0);
    }

    #[test]
    fn sharing_71_an_event_is_held_once_and_all_of_them_within_a_bound() {
        let mut bench = Bench::new(100, 1_000);
        bench.publish(10, 100);
        assert_eq!(bench.held(), (10, 1_000));
        bench.publish(1, 100);
        assert_eq!((bench.held(), bench.slow()), ((0, 0), 100));
        bench.readers.truncate(1);
        assert_eq!(take_all(&mut bench.readers[0]), None);
        // One that is larger than all is still handed out.
        let mut bench = Bench::new(1, 1_000);
        bench.publish(1, 5_000);
        assert_eq!(bench.held(), (1, 0));
        assert_eq!(take_all(&mut bench.readers[0]), Some(1));
    }
}
