//! Turns at the processor: so much work for each thread between two looks at the sockets.
//!
//! The runtime carries tasks out in the order in which they became ready, and looks at its sockets when all
//! of them were carried out, or 61. So when hundreds of connections have something to do at the same moment,
//! everybody else waits for all of it, two or three times for one write. At 128 sessions that each wrote a
//! block of a megabyte that was half a second, at 512 that asked the node something some 10 ms. So every
//! request and message takes a turn before it is looked at.
//!
//! While there is work left between two looks, a turn is a subtraction. Those that come later wait in the order of
//! their clients' virtual time (start-time fair queueing: Goyal, Vin and Cheng, 1996), which is in the
//! [table](super) of clients.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use fairq::ClientKey;
use pacing::Nanos;
use tokio::task::yield_now;

use super::table::{Budget, Piece, Place, State, Waiter};

/// One connection's turns.
pub(crate) struct Turn {
    budget: Budget,
    client: ClientKey,
    phase: TurnPhase,
}

#[derive(Clone, Copy)]
enum TurnPhase {
    Idle,
    /// It waits, or was granted a turn at this piece and does not know yet.
    Waiting(Place, Piece),
    /// It has one at long work until its task has been carried out.
    Held {
        /// Units of it that are left; none once it was used.
        left: i64,
    },
}

impl State {
    /// A place behind what the client, or the IPv6 /48 around it, waits for already.
    fn push(&mut self, (client, now): (ClientKey, Nanos), waiter: Waiter) -> Place {
        let next = |tier| self.clients.entry(tier, now).state.next_turn;
        let start = client.tiers().map(next).max().unwrap_or(0);
        self.charge((client, now), waiter.piece.0);
        self.turns.push(start, waiter)
    }

    /// So many units come before what the client, or the IPv6 /48 around it, waits for later.
    fn charge(&mut self, (client, now): (ClientKey, Nanos), units: i64) {
        let units = units.cast_unsigned();
        for (tier, price) in client.tiers().zip([units * SITE_CLIENTS, units]) {
            let next = &mut self.clients.entry(tier, now).state.next_turn;
            *next = (*next).max(self.turns.clock) + price;
        }
    }
}

impl Budget {
    /// The turns of one connection of a client.
    pub(crate) fn turn(&self, client: ClientKey) -> Turn {
        Turn {
            budget: self.clone(),
            client,
            phase: TurnPhase::Idle,
        }
    }

    /// Gives new turns when none are left and the runtime has looked at its sockets. Has to be a task of its own,
    /// and never ends. One that is not used, because its connection has ended, is over with the next look.
    pub(crate) async fn hand_out_turns(self) {
        loop {
            self.0.work.exhausted.notified().await;
            loop {
                // Unlike a waker by itself this waits for that look.
                yield_now().await;
                if !self.renew_turns() {
                    break;
                }
            }
        }
    }

    /// The runtime has looked at its sockets: whether a connection waited.
    fn renew_turns(&self) -> bool {
        let pool = &self.0.work;
        let mut state = self.0.state.lock();
        let free = state.turns.grant(pool.at_once);
        pool.free.store(free, Ordering::Relaxed);
        free < pool.at_once
    }
}

impl Turn {
    /// Whether a piece may be done now, before the task waits for anything. If not, the task is woken for it. In
    /// a turn at long work that was not yet [`used`](Self::used) any piece may be done.
    pub(crate) fn poll_begin(&mut self, piece: Piece, context: &Context<'_>) -> Poll<()> {
        let granted = match &mut self.phase {
            TurnPhase::Held { left } if *left > 0 => {
                if piece != Piece::LONG {
                    *left -= piece.0;
                }
                return Poll::Ready(());
            }
            TurnPhase::Waiting(place, granted) => {
                let mut state = self.budget.0.state.lock();
                if let Some(waiter) = state.turns.waiters.get_mut(place) {
                    waiter.waker.clone_from(context.waker());
                    // It waits for the longest of what it is to do, and pays for that.
                    if piece > waiter.piece {
                        let more = piece.0 - waiter.piece.0;
                        (*granted, waiter.piece) = (piece, piece);
                        let whose = (self.client, self.budget.now());
                        state.charge(whose, more);
                    }
                    return Poll::Pending;
                }
                // It may have a turn at less than what is to be done now.
                (*granted >= piece).then_some(*granted)
            }
            TurnPhase::Idle | TurnPhase::Held { .. } => None,
        };
        let begun = granted.or_else(|| self.budget.0.work.take(piece).then_some(piece));
        if let Some(begun) = begun {
            self.phase = match (begun, piece) {
                (Piece::LONG, Piece::LONG) => TurnPhase::Held { left: begun.0 },
                // What it was granted for comes after this piece.
                (Piece::LONG, _) => TurnPhase::Held {
                    left: begun.0 - piece.0,
                },
                _ => TurnPhase::Idle,
            };
            return Poll::Ready(());
        }
        self.wait(piece, context.waker().clone());
        Poll::Pending
    }

    fn wait(&mut self, piece: Piece, waker: Waker) {
        let (inner, whose) = (&self.budget.0, (self.client, self.budget.now()));
        let place = inner.state.lock().push(whose, Waiter { waker, piece });
        self.phase = TurnPhase::Waiting(place, piece);
        inner.work.exhausted.notify_one();
    }

    /// Waits for a turn; what is done before the next `await` is its piece.
    pub(crate) async fn take(&mut self, piece: Piece) {
        poll_fn(|context| self.poll_begin(piece, context)).await;
        self.finish();
    }

    /// Its turns are this client's from now on: a connection of a trusted proxy serves one after the other.
    pub(crate) fn bind(&mut self, client: ClientKey) {
        if self.client != client {
            self.leave();
            self.client = client;
        }
    }

    /// Whether it has a turn, used or not.
    pub(crate) const fn is_held(&self) -> bool {
        matches!(self.phase, TurnPhase::Held { .. })
    }

    /// A piece was done in the turn, if it has one.
    pub(crate) const fn used(&mut self) {
        if let TurnPhase::Held { left } = &mut self.phase {
            *left = 0;
        }
    }

    /// The task waits for something, so the turn is over.
    pub(crate) const fn finish(&mut self) {
        if self.is_held() {
            self.phase = TurnPhase::Idle;
        }
    }

    /// It waits no more, and has no turn.
    fn leave(&mut self) {
        if let TurnPhase::Waiting(place, _) = self.phase {
            self.budget.0.state.lock().turns.waiters.remove(&place);
        }
        self.phase = TurnPhase::Idle;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A turn of an IPv6 /48 is so much cheaper than one of a client.
const SITE_CLIENTS: u64 = ClientKey::SITE_CLIENTS as u64;

#[cfg(test)]
mod tests {
    use fairq::KeyScheme;

    use super::super::table::BETWEEN_LOOKS;
    use super::*;
    use crate::config::{Config, Threads};

    fn budget() -> Budget {
        let mut config = Config::default();
        config.listen.threads = Threads::new(1).unwrap();
        Budget::new(&config, [1, 2])
    }

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
        let budget = budget();
        let [mut first, mut second] = [(); 2].map(|()| budget.turn(client(1)));
        assert!(begin(&mut first) && begin(&mut first));
        first.used();
        // Neither another one nor the same has a turn before the sockets were looked at.
        assert!(!begin(&mut second) && !begin(&mut first));
        assert!(budget.renew_turns());
        assert!(!begin(&mut first) && begin(&mut second));
        second.finish();
        assert!(!begin(&mut second));
        // A connection that has ended takes no turn from others, whether it was granted one or not.
        assert!(budget.renew_turns());
        drop((first, second));
        assert!(!budget.renew_turns());
        let mut third = budget.turn(client(1));
        assert!(begin(&mut third));
        assert!(budget.0.state.lock().turns.waiters.is_empty());
    }

    /// Before, a look at what had come took a turn that was granted for long work, which then waited for another one: 150
    /// sockets with unfinished messages kept a core busy with turns in which nothing was done.
    #[test]
    fn sharing_71_a_turn_at_long_work_outlasts_the_piece_before_it() {
        let budget = budget();
        let [mut first, mut second] = [(); 2].map(|()| budget.turn(client(1)));
        assert!(begin(&mut first) && !begin(&mut second));
        assert!(budget.renew_turns());
        assert!(begin_piece(&mut second, Piece::of(0)) && begin(&mut second));
        second.used();
        second.finish();
        // No task waits any more.
        assert!(!budget.renew_turns());
    }

    /// Before, a connection that waited for a turn at long work, and then looked at what it had read, was granted a turn
    /// at that alone and began to wait anew.
    #[test]
    fn sharing_69_who_waits_for_long_work_and_asks_for_less_is_granted_long_work() {
        let budget = budget();
        let mut all: Vec<_> = (0..300).map(|_| budget.turn(client(1))).collect();
        let mut served = 0;
        for look in 1..=300 {
            for turn in &mut all {
                if begin(turn) {
                    turn.used();
                    served += 1;
                } else {
                    assert!(!begin_piece(turn, Piece::of(100)));
                }
            }
            assert_eq!(served, look);
            all.retain(|turn| !turn.is_held());
            budget.renew_turns();
        }
    }

    #[test]
    fn sharing_69_who_asks_for_more_while_it_waits_is_granted_and_pays_for_that() {
        let budget = budget();
        let mut first = budget.turn(client(1));
        assert!(begin(&mut first));
        let mut greedy = [(); 2].map(|()| budget.turn(client(2)));
        assert!(!begin_piece(&mut greedy[0], Piece::of(100)) && !begin(&mut greedy[0]));
        // It waits once, however often it asks.
        assert!(!begin(&mut greedy[0]) && !begin_piece(&mut greedy[0], Piece::of(100)));
        assert!(!begin(&mut greedy[1]));
        let mut others = [(); 2].map(|()| budget.turn(client(3)));
        let small = Piece::of(100);
        assert!(others.iter_mut().all(|turn| !begin_piece(turn, small)));
        assert!(budget.renew_turns());
        assert!(begin(&mut greedy[0]));
        // The second one of the same client comes after the short ones of another.
        assert!(budget.renew_turns());
        assert!(others.iter_mut().all(|turn| begin_piece(turn, small)));
    }

    #[test]
    fn sharing_69_a_clients_many_connections_do_not_delay_the_turn_of_another() {
        let budget = budget();
        let mut greedy: Vec<_> = (0..100).map(|_| budget.turn(client(1))).collect();
        assert_eq!(
            greedy
                .iter_mut()
                .filter_map(|turn| begin(turn).then_some(()))
                .count(),
            1
        );
        let mut other = budget.turn(client(2));
        let mut looks = 0;
        while !begin(&mut other) {
            budget.renew_turns();
            looks += 1;
        }
        assert!(looks <= 2, "{looks} turns of another client came first");
    }

    /// At 2b52556 only long work took turns: 50 sockets of small messages were served for as long as there were
    /// any before another client's write was read.
    #[test]
    fn sharing_85_small_messages_take_turns_too() {
        let budget = budget();
        let short = |turn: &mut Turn| begin_piece(turn, Piece::of(100));
        let mut greedy: Vec<_> = (0..50).map(|_| budget.turn(client(1))).collect();
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
        let mut other = budget.turn(client(2));
        assert!(!short(&mut other));
        budget.renew_turns();
        assert!(short(&mut other));
        // A turn that waits for one client is not another's: it begins again.
        let mut moved = budget.turn(client(1));
        while short(&mut moved) {}
        moved.bind(client(3));
        assert!(matches!(moved.phase, TurnPhase::Idle));
    }
}
