//! Turns at long work: one piece of it for each thread between two looks at the sockets.
//!
//! The runtime carries tasks out in the order in which they became ready, and looks at its sockets when all
//! of them were carried out, or 61. So when hundreds of connections have something to do at the same moment,
//! everybody else waits for all of it, two or three times for one write. At 128 sessions that each wrote a
//! block of a megabyte that was half a second, at 512 that asked the node something some 10 ms.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fairq::{ClientKey, FairQueue, Item, Order, QueueLimits, Weight};
use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::Notify;
use tokio::task::yield_now;

/// Requests, messages and answers of more bytes are long work: some 30 µs of copying, decoding and hashing.
pub(super) const LONG_BYTES: usize = 32 << 10;

/// The turns of all connections. Clients have theirs one after the other, as in the queue of writes, and so
/// have the connections of a client. They come while [`hand_out`](Self::hand_out) runs.
#[derive(Clone)]
pub(super) struct Turns(Arc<Inner>);

struct Inner {
    state: Mutex<TurnState>,
    /// One was taken.
    taken: Notify,
}

struct TurnState {
    at_once: usize,
    /// Turns that nobody has taken since the last look at the sockets.
    free: usize,
    /// Those that wait, by their places in `seats`. Bounded by the connections: each waits for one turn.
    queue: FairQueue<usize>,
    seats: Slab<Seat>,
}

struct Seat {
    waker: Waker,
    is_granted: bool,
}

/// One connection's turns.
pub(super) struct Turn {
    turns: Turns,
    client: ClientKey,
    phase: TurnPhase,
}

#[derive(Clone, Copy)]
enum TurnPhase {
    Idle,
    /// It waits, or was granted one and does not know yet.
    Waiting(usize),
    /// It has one until its task has been carried out.
    Held {
        is_used: bool,
    },
}

impl Turns {
    /// So many turns at once.
    ///
    /// # Errors
    /// None: the limits are legal.
    pub(super) fn new(at_once: usize, seed: [u64; 2]) -> Result<Self, fairq::Error> {
        // Who was refused a place would ask again without a rest, so there is one for each connection.
        let limits = QueueLimits {
            clients: MOST_CONNECTIONS,
            per_site: MOST_CONNECTIONS,
            per_client: MOST_CONNECTIONS,
            entries: MOST_CONNECTIONS,
            ..QueueLimits::default()
        };
        Ok(Self(Arc::new(Inner {
            state: Mutex::new(TurnState {
                at_once,
                free: at_once,
                queue: FairQueue::new(limits, Order::Client, seed)?,
                seats: Slab::new(),
            }),
            taken: Notify::new(),
        })))
    }

    /// The turns of one connection of a client.
    pub(super) const fn of(self, client: ClientKey) -> Turn {
        Turn {
            turns: self,
            client,
            phase: TurnPhase::Idle,
        }
    }

    /// Gives new turns each time that the runtime has looked at its sockets. Has to be a task of its own, and
    /// never ends. One that is not used, because its connection has ended, is over with the next look.
    pub(super) async fn hand_out(self) {
        loop {
            self.0.taken.notified().await;
            loop {
                // Unlike a waker by itself this waits for that look.
                yield_now().await;
                if !self.0.state.lock().renew() {
                    break;
                }
            }
        }
    }
}

impl Turn {
    /// Whether a piece of long work may be done now, before the task waits for anything. If not, the task is
    /// woken for it. In a turn that was [`used`](Self::used) no other piece may be done.
    pub(super) fn poll_begin(&mut self, context: &Context<'_>) -> Poll<()> {
        let (mut state, waker) = (self.turns.0.state.lock(), context.waker());
        self.phase = match self.phase {
            TurnPhase::Idle | TurnPhase::Held { is_used: true } => state.enter(self.client, waker),
            TurnPhase::Waiting(seat) => state.look(seat, waker),
            TurnPhase::Held { is_used: false } => return Poll::Ready(()),
        };
        drop(state);
        if self.is_held() {
            self.turns.0.taken.notify_one();
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Waits for a turn; what is done before the next `await` is its piece.
    pub(super) async fn take(&mut self) {
        poll_fn(|context| self.poll_begin(context)).await;
        self.finish();
    }

    /// Whether it has a turn, used or not.
    pub(super) const fn is_held(&self) -> bool {
        matches!(self.phase, TurnPhase::Held { .. })
    }

    /// A piece was done in the turn, if it has one.
    pub(super) const fn used(&mut self) {
        if let TurnPhase::Held { is_used } = &mut self.phase {
            *is_used = true;
        }
    }

    /// The task waits for something, so the turn is over.
    pub(super) const fn finish(&mut self) {
        if self.is_held() {
            self.phase = TurnPhase::Idle;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let TurnPhase::Waiting(seat) = self.phase {
            let mut state = self.turns.0.state.lock();
            state.seats.remove(seat);
            let is_other = |other: &usize| *other != seat;
            (state.queue).remove_connection(&self.client, LINE, is_other, drop);
        }
    }
}

impl TurnState {
    fn enter(&mut self, client: ClientKey, waker: &Waker) -> TurnPhase {
        if self.free > 0 {
            self.free -= 1;
            return TurnPhase::Held { is_used: false };
        }
        let seat = self.seats.insert(Seat {
            waker: waker.clone(),
            is_granted: false,
        });
        match (self.queue).push(client, LINE, Weight::ONE, Item::new(seat, 0)) {
            Ok(_) => TurnPhase::Waiting(seat),
            // More than there are connections: it asks again.
            Err(_) => {
                self.seats.remove(seat);
                waker.wake_by_ref();
                TurnPhase::Idle
            }
        }
    }

    fn look(&mut self, seat: usize, waker: &Waker) -> TurnPhase {
        if self.seats[seat].is_granted {
            self.seats.remove(seat);
            return TurnPhase::Held { is_used: false };
        }
        self.seats[seat].waker.clone_from(waker);
        TurnPhase::Waiting(seat)
    }

    /// The runtime has looked at its sockets: whether anybody waited.
    fn renew(&mut self) -> bool {
        self.free = self.at_once;
        while self.free > 0
            && let Some(next) = self.queue.pop()
        {
            self.free -= 1;
            let seat = &mut self.seats[next.item.value];
            seat.is_granted = true;
            seat.waker.wake_by_ref();
        }
        self.free < self.at_once
    }
}

/// All who wait are connections, of which there are never so many.
const MOST_CONNECTIONS: usize = 1 << 24;
/// A client's connections wait in one line, so that none of them has to be told from the others.
const LINE: u64 = 0;

#[cfg(test)]
mod tests {
    use fairq::KeyScheme;

    use super::*;

    fn client(number: u8) -> ClientKey {
        KeyScheme::default().key([192, 0, 2, number].into())
    }

    fn begin(turn: &mut Turn) -> bool {
        let begun = turn.poll_begin(&Context::from_waker(Waker::noop()));
        begun.is_ready()
    }

    /// At 5ff2818 128 subscribers that read nothing delayed everybody else's writes by half a second.
    #[test]
    fn sharing_71_long_work_is_done_one_piece_between_two_looks_at_the_sockets() {
        let turns = Turns::new(1, [1, 2]).unwrap();
        let [mut first, mut second] = [(); 2].map(|()| turns.clone().of(client(1)));
        assert!(begin(&mut first) && begin(&mut first));
        first.used();
        // Neither another one nor the same has a turn before the sockets were looked at.
        assert!(!begin(&mut second) && !begin(&mut first));
        assert!(turns.0.state.lock().renew());
        assert!(!begin(&mut first) && begin(&mut second));
        second.finish();
        assert!(!begin(&mut second));
        // Who waits no more keeps nobody from a turn, whether it was granted one or not.
        assert!(turns.0.state.lock().renew());
        drop((first, second));
        assert!(!turns.0.state.lock().renew());
        let mut third = turns.clone().of(client(1));
        assert!(begin(&mut third));
        let state = turns.0.state.lock();
        assert_eq!((state.seats.len(), state.queue.len()), (0, 0));
    }

    #[test]
    fn sharing_69_a_clients_many_connections_do_not_delay_the_turn_of_another() {
        let turns = Turns::new(1, [1, 2]).unwrap();
        let mut greedy: Vec<_> = (0..100).map(|_| turns.clone().of(client(1))).collect();
        assert_eq!(
            greedy
                .iter_mut()
                .filter_map(|turn| begin(turn).then_some(()))
                .count(),
            1
        );
        let mut other = turns.clone().of(client(2));
        let mut looks = 0;
        while !begin(&mut other) {
            turns.0.state.lock().renew();
            looks += 1;
        }
        assert!(looks <= 2, "{looks} turns of another client came first");
    }
}
