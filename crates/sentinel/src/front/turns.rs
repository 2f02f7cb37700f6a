//! Turns at the processor: so much work for each thread between two looks at the sockets.
//!
//! The runtime carries tasks out in the order in which they became ready, and looks at its sockets when all
//! of them were carried out, or 61. So when hundreds of connections have something to do at the same moment,
//! everybody else waits for all of it, two or three times for one write. At 128 sessions that each wrote a
//! block of a megabyte that was half a second, at 512 that asked the node something some 10 ms. So every
//! request and message takes a turn before it is looked at.

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

/// What is done in a turn, by what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(super) struct Piece(i64);

impl Piece {
    /// Long work, or all that goes between a WebSocket and the node.
    pub(super) const LONG: Self = Self(BETWEEN_LOOKS);

    /// For a request, message or part of an answer of so many bytes.
    pub(super) const fn of(bytes: usize) -> Self {
        if bytes > LONG_BYTES {
            Self::LONG
        } else {
            Self(1 + (bytes / UNIT_BYTES) as i64)
        }
    }
}

/// Units of work between two looks at the sockets: at a microsecond or less for each of the smallest messages
/// that is some 0.1 ms, as for long work of the smallest size.
const BETWEEN_LOOKS: i64 = 128;
/// Bytes of one unit: another half of a microsecond.
const UNIT_BYTES: usize = 512;

/// The turns of all connections. Clients have theirs one after the other, as in the queue of writes, and so
/// have the connections of a client. They come while [`hand_out`](Self::hand_out) runs.
#[derive(Clone)]
pub(super) struct Turns(Arc<Inner>);

struct Inner {
    state: Mutex<TurnState>,
    /// None are left.
    exhausted: Notify,
}

struct TurnState {
    at_once: i64,
    /// Units that nobody has taken yet; the last turn may take more than there are.
    free: i64,
    /// Those that wait, by their places in `seats`. Bounded by the connections: each waits for one turn.
    queue: FairQueue<usize>,
    seats: Slab<Seat>,
}

struct Seat {
    waker: Waker,
    piece: Piece,
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
    /// It has one at long work until its task has been carried out.
    Held {
        /// Units of it that are left; none once it was used.
        left: i64,
    },
}

impl Turns {
    /// Turns at so many pieces of long work at once.
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
        let at_once = i64::try_from(at_once).unwrap_or(i64::MAX / BETWEEN_LOOKS) * BETWEEN_LOOKS;
        Ok(Self(Arc::new(Inner {
            state: Mutex::new(TurnState {
                at_once,
                free: at_once,
                queue: FairQueue::new(limits, Order::Client, seed)?,
                seats: Slab::new(),
            }),
            exhausted: Notify::new(),
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

    /// Gives new turns when none are left and the runtime has looked at its sockets. Has to be a task of its own,
    /// and never ends. One that is not used, because its connection has ended, is over with the next look.
    pub(super) async fn hand_out(self) {
        loop {
            self.0.exhausted.notified().await;
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
    /// Whether a piece may be done now, before the task waits for anything. If not, the task is woken for it. In
    /// a turn at long work that was not yet [`used`](Self::used) any piece may be done.
    pub(super) fn poll_begin(&mut self, piece: Piece, context: &Context<'_>) -> Poll<()> {
        if let TurnPhase::Held { left } = &mut self.phase
            && *left > 0
        {
            if piece != Piece::LONG {
                *left -= piece.0;
            }
            return Poll::Ready(());
        }
        let mut state = self.turns.0.state.lock();
        let granted = match self.phase {
            TurnPhase::Waiting(seat) if !state.has_come(seat, piece, context.waker()) => {
                Err(Some(seat))
            }
            TurnPhase::Waiting(seat) if state.seats.remove(seat).piece >= piece => Ok(()),
            // It has a turn at less than what is to be done now.
            _ => state.enter(self.client, piece, context.waker()),
        };
        if state.free <= 0 {
            self.turns.0.exhausted.notify_one();
        }
        drop(state);
        self.phase = match granted {
            Err(seat) => seat.map_or(TurnPhase::Idle, TurnPhase::Waiting),
            Ok(()) if piece == Piece::LONG => TurnPhase::Held { left: piece.0 },
            Ok(()) => TurnPhase::Idle,
        };
        match granted {
            Ok(()) => Poll::Ready(()),
            Err(_) => Poll::Pending,
        }
    }

    /// Waits for a turn; what is done before the next `await` is its piece.
    pub(super) async fn take(&mut self, piece: Piece) {
        poll_fn(|context| self.poll_begin(piece, context)).await;
        self.finish();
    }

    /// Its turns are this client's from now on: a connection of a trusted proxy serves one after the other.
    pub(super) fn bind(&mut self, client: ClientKey) {
        if self.client != client {
            self.leave();
            self.client = client;
        }
    }

    /// Whether it has a turn, used or not.
    pub(super) const fn is_held(&self) -> bool {
        matches!(self.phase, TurnPhase::Held { .. })
    }

    /// A piece was done in the turn, if it has one.
    pub(super) const fn used(&mut self) {
        if let TurnPhase::Held { left } = &mut self.phase {
            *left = 0;
        }
    }

    /// The task waits for something, so the turn is over.
    pub(super) const fn finish(&mut self) {
        if self.is_held() {
            self.phase = TurnPhase::Idle;
        }
    }

    /// It waits no more, and has no turn.
    fn leave(&mut self) {
        if let TurnPhase::Waiting(seat) = self.phase {
            let mut state = self.turns.0.state.lock();
            state.seats.remove(seat);
            let is_other = |other: &usize| *other != seat;
            (state.queue).remove_connection(&self.client, LINE, is_other, drop);
        }
        self.phase = TurnPhase::Idle;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.leave();
    }
}

impl TurnState {
    /// Takes a turn, or a seat to wait in; neither when there are too many of those.
    fn enter(
        &mut self,
        client: ClientKey,
        piece: Piece,
        waker: &Waker,
    ) -> Result<(), Option<usize>> {
        if self.free > 0 {
            self.free -= piece.0;
            return Ok(());
        }
        let seat = self.seats.insert(Seat {
            waker: waker.clone(),
            piece,
            is_granted: false,
        });
        match (self.queue).push(client, LINE, Weight::ONE, Item::new(seat, 0)) {
            Ok(_) => Err(Some(seat)),
            // More than there are connections: it asks again.
            Err(_) => {
                self.seats.remove(seat);
                waker.wake_by_ref();
                Err(None)
            }
        }
    }

    /// Whether the turn has come that is waited for in a seat; until then it is one at this piece.
    fn has_come(&mut self, seat: usize, piece: Piece, waker: &Waker) -> bool {
        let seat = &mut self.seats[seat];
        if !seat.is_granted {
            seat.piece = piece;
            seat.waker.clone_from(waker);
        }
        seat.is_granted
    }

    /// The runtime has looked at its sockets: whether anybody waited.
    fn renew(&mut self) -> bool {
        self.free = self.at_once;
        while self.free > 0
            && let Some(next) = self.queue.pop()
        {
            let seat = &mut self.seats[next.item.value];
            self.free -= seat.piece.0;
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
        begin_piece(turn, Piece::LONG)
    }

    fn begin_piece(turn: &mut Turn, piece: Piece) -> bool {
        turn.poll_begin(piece, &Context::from_waker(Waker::noop()))
            .is_ready()
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

    /// At 2b52556 only long work took turns: 50 sockets of small messages were served for as long as there were
    /// any before another client's write was read.
    #[test]
    fn sharing_85_small_messages_take_turns_too() {
        let turns = Turns::new(1, [1, 2]).unwrap();
        let short = |turn: &mut Turn| begin_piece(turn, Piece::of(100));
        let mut greedy: Vec<_> = (0..50).map(|_| turns.clone().of(client(1))).collect();
        let mut served = 0;
        while greedy.iter_mut().any(|turn| {
            let is_served = short(turn);
            served += i64::from(is_served);
            is_served
        }) {}
        assert_eq!(served, BETWEEN_LOOKS);
        assert_eq!(
            greedy
                .iter_mut()
                .filter_map(|turn| short(turn).then_some(()))
                .count(),
            0
        );
        // The next one is as much another client's as the first one's.
        let mut other = turns.clone().of(client(2));
        assert!(!short(&mut other));
        turns.0.state.lock().renew();
        assert!(short(&mut other));
        // A turn that waits for one client is not another's: it begins again.
        let mut moved = turns.clone().of(client(1));
        while short(&mut moved) {}
        moved.bind(client(3));
        assert!(matches!(moved.phase, TurnPhase::Idle));
    }
}
