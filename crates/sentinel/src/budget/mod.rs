//! What each client has taken of all that clients share, in one table: connections, reads, queries and
//! subscriptions while they last, its buffered bytes, its turns at the processor, and its rates of new connections, of
//! reads and of work.
//!
//! One rule (`is_fair`) shares what there is a number of, bytes included: a client may hold as much as
//! is free besides, less a reserve of a sixteenth, and a little in any case. So it gets half if it is alone, of `n` that want as
//! much each gets a part in `n + 1` (the dynamic thresholds of Choudhury and Hahne, 1998), and its share shrinks as
//! others need some. An IPv6 /48 gets no more than a client, and a few clients' worth of what is bounded for each.
//! Rates and turns are a client's virtual time, and that of the /48 around it.

mod bytes;
mod table;
mod turns;

use std::time::Duration;

use fairq::{ClientKey, SlotId};
use pacing::Nanos;
use tokio::time::Instant;

pub use self::bytes::{Ledger, Reservation};
pub use self::table::Budget;
pub(crate) use self::table::{Kind, LONG_BYTES, Piece, SEEN_FOR};
use self::table::{Reader, Seen, State, Usage, WORK_BURST, full, is_fair};
pub(crate) use self::turns::Turn;
use crate::refusal::{Reason, Refusal};

/// Something of a client's, counted until dropped.
#[derive(Debug)]
pub(crate) struct Held {
    budget: Budget,
    /// Of the client, and of the IPv6 /48 around it.
    ids: [Option<SlotId>; 2],
    kind: Kind,
    total: Total,
}

/// What it counts as beside its client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Total {
    None,
    Connection,
    Refusal,
}

impl Budget {
    /// Counts a connection of a client.
    ///
    /// # Errors
    /// There are too many, or they come too fast.
    pub(crate) fn connect(&self, client: ClientKey) -> Result<Held, Refusal> {
        let bounds = self.0.bounds.load();
        let all = bounds.connections;
        let mut state = self.0.state.lock();
        let free = self.free(&state)?;
        let mut held = self.take(&mut state, client, Kind::Connection, (free, all, all))?;
        let now = self.now();
        for (tier, rate) in client.tiers().zip(&bounds.arrivals) {
            let bucket = &mut state.clients.entry(tier, now).state.arrivals;
            if bucket.take(rate, now, 1).is_err() {
                drop(state);
                return Err(full("this client opens connections too fast"));
            }
        }
        state.connections += 1;
        held.total = Total::Connection;
        Ok(held)
    }

    /// Counts a trusted proxy's connection, which belongs to no client.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn connect_proxy(&self) -> Result<Held, Refusal> {
        let mut state = self.0.state.lock();
        self.free(&state)?;
        state.connections += 1;
        Ok(self.of_nobody(Total::Connection))
    }

    /// Counts a connection that is already in against the client whose request it serves.
    ///
    /// # Errors
    /// The client has too many.
    pub(crate) fn request(&self, client: ClientKey) -> Result<Held, Refusal> {
        let all = self.0.bounds.load().connections;
        let mut state = self.0.state.lock();
        let free = all.saturating_sub(state.connections);
        self.take(&mut state, client, Kind::Connection, (free, all, all))
    }

    /// Whether a client would get no further connection.
    pub(crate) fn has_its_connections(&self, client: ClientKey) -> bool {
        self.request(client).is_err()
    }

    /// Room to send a refusal to one client; `None` if [`REFUSED_AT_ONCE`] are being sent.
    pub(crate) fn refuse(&self) -> Option<Held> {
        let mut state = self.0.state.lock();
        (state.refusing < REFUSED_AT_ONCE).then(|| {
            state.refusing += 1;
            self.of_nobody(Total::Refusal)
        })
    }

    /// Connections in all.
    pub(crate) fn connections(&self) -> usize {
        self.0.state.lock().connections
    }

    /// Connections of a client.
    pub(crate) fn connections_of(&self, client: ClientKey) -> usize {
        self.held_by(client, Kind::Connection)
    }

    /// Takes `calls` from a client's rate of reads.
    pub(crate) fn admit(&self, client: ClientKey, calls: u32) -> Result<(), Refusal> {
        let (now, bounds) = (self.now(), self.0.bounds.load());
        let rates = bounds.key_rates.get(&client);
        let rates = rates.unwrap_or(&bounds.read_rate);
        let mut state = self.0.state.lock();
        for (tier, rate) in client.tiers().zip(rates) {
            let bucket = &mut state.clients.entry(tier, now).state.reads;
            bucket.take(rate, now, calls).map_err(|at| {
                let text = format!("more than {} reads of one client", rate.rate());
                let refusal = Refusal::new(Reason::Rate, text);
                if at == Nanos::MAX {
                    refusal
                } else {
                    refusal.retry_after(at.saturating_sub(now).into())
                }
            })?;
        }
        Ok(())
    }

    /// Takes work from the client's rate, even if it is not there yet: when it will be, if that is later.
    pub(crate) fn work(&self, client: ClientKey, units: u64) -> Option<Instant> {
        let mut state = self.0.state.lock();
        let now = self.now();
        let mut paid_at = Nanos::ZERO;
        for (tier, price) in client.tiers().zip([WORK_PRICE, SITE_WORK_PRICE]) {
            let usage = state.clients.entry(tier, now).state;
            let begin = usage.paid_at.max(now.saturating_sub(WORK_BURST));
            usage.paid_at = begin
                .saturating_add(price.saturating_mul(units))
                .min(now.saturating_add(MOST_DEBT));
            paid_at = paid_at.max(usage.paid_at);
        }
        drop(state);
        (paid_at > now).then(|| Instant::now() + Duration::from(paid_at.saturating_sub(now)))
    }

    /// A client writes.
    pub(crate) fn note_write(&self, client: ClientKey) {
        self.with_seen(client, |seen, now| seen.wrote_at = now);
    }

    /// A client has read from a node of this height.
    pub(crate) fn note_read(&self, client: ClientKey, height: u64) {
        self.with_seen(client, |seen, now| seen.read(height, now));
    }

    /// Where a client's reads should go.
    pub(crate) fn reader(&self, client: ClientKey) -> Reader {
        let (state, now) = (self.0.state.lock(), self.now());
        let usage = state.clients.peek(&client);
        usage.map_or_else(Reader::default, |usage| {
            let is_subscribed = usage.held[Kind::Subscription as usize] > 0;
            usage.seen.reader(is_subscribed, now)
        })
    }

    fn with_seen(&self, client: ClientKey, change: impl FnOnce(&mut Seen, Nanos)) {
        let (mut state, now) = (self.0.state.lock(), self.now());
        change(&mut state.clients.entry(client, now).state.seen, now);
    }

    /// Counts a subscription.
    pub(crate) fn subscribe(&self, client: ClientKey) -> Result<Held, Refusal> {
        self.hold(client, Kind::Subscription, UNSHARED)
    }

    /// Counts a TLS handshake.
    pub(crate) fn begin_handshake(&self, client: ClientKey) -> Result<Held, Refusal> {
        self.hold(client, Kind::Handshake, UNSHARED)
    }

    fn held_by(&self, client: ClientKey, kind: Kind) -> usize {
        let state = self.0.state.lock();
        let held = |usage: &Usage| usage.held[kind as usize] as usize;
        state.clients.peek(&client).map_or(0, held)
    }

    /// Counts something of a client's; `free` and `all` are the places that all share.
    ///
    /// # Errors
    /// The client, or the IPv6 /48 around it, has so many, or its share.
    pub(crate) fn hold(
        &self,
        client: ClientKey,
        kind: Kind,
        (free, all): (usize, usize),
    ) -> Result<Held, Refusal> {
        let most = match kind {
            Kind::Read => self.0.bounds.load().reads,
            Kind::Subscription => SUBSCRIPTIONS_PER_CLIENT,
            Kind::Handshake => HANDSHAKES_PER_CLIENT,
            Kind::Connection | Kind::Query | Kind::Commit => all,
        };
        self.take(&mut self.0.state.lock(), client, kind, (free, all, most))
    }

    /// Counts something of a client, which may have `most`, when so many of all are free.
    ///
    /// # Errors
    /// It has so many, or its share, or the IPv6 /48 around it has.
    fn take(
        &self,
        state: &mut State,
        client: ClientKey,
        kind: Kind,
        (free, all, most): (usize, usize, usize),
    ) -> Result<Held, Refusal> {
        let now = self.now();
        let mut ids = [None; 2];
        let bounds = [most, most.saturating_mul(ClientKey::SITE_CLIENTS)];
        for ((tier, most), id) in client.tiers().zip(bounds).zip(&mut ids) {
            let entry = state.clients.entry(tier, now);
            let held = entry.state.held[kind as usize];
            let own = held as usize + 1;
            if own > most || !is_fair(own, free.saturating_sub(1), all, LEAST) {
                return Err(kind.refusal(held));
            }
            *id = Some(entry.id);
        }
        for id in ids.into_iter().flatten() {
            if let Some(usage) = state.clients.get_mut(id) {
                usage.held[kind as usize] += 1;
            }
        }
        Ok(Held {
            budget: self.clone(),
            ids,
            kind,
            total: Total::None,
        })
    }

    fn of_nobody(&self, total: Total) -> Held {
        Held {
            budget: self.clone(),
            ids: [None; 2],
            kind: Kind::Connection,
            total,
        }
    }

    /// How many more connections there may be.
    fn free(&self, state: &State) -> Result<usize, Refusal> {
        let all = self.0.bounds.load().connections;
        let free = all.saturating_sub(state.connections);
        match free {
            0 => Err(full("all connections are taken")),
            free => Ok(free),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.budget.0.state.lock();
        match self.total {
            Total::None => {}
            Total::Connection => state.connections -= 1,
            Total::Refusal => state.refusing -= 1,
        }
        for id in self.ids.into_iter().flatten() {
            // A state in use is not neutral, so it is still there.
            if let Some(usage) = state.clients.get_mut(id) {
                let held = &mut usage.held[self.kind as usize];
                *held = held.saturating_sub(1);
            }
        }
    }
}

/// The work that a request or message of so many bytes makes: about a microsecond, and one for each KiB.
pub(crate) const fn work_of(bytes: usize) -> u64 {
    1 + (bytes >> 10) as u64
}

/// What a client may have while there is any.
const LEAST: usize = 2;
/// What is bounded for each client alone.
const UNSHARED: (usize, usize) = (usize::MAX, 0);
/// Subscriptions of one client over all its WebSockets: each costs a copy of every event.
const SUBSCRIPTIONS_PER_CLIENT: usize = 128;
/// TLS handshakes of one client under way: a half of the new connections that it may open in a second, as each takes
/// some round trips.
pub(crate) const HANDSHAKES_PER_CLIENT: usize = 250;
/// Connections beyond the bound that are answered with a refusal at one time; the others are closed
/// without sending a response.
const REFUSED_AT_ONCE: usize = 64;
/// What a client pays for one unit of work that none of its other limits bounds: a thousand a second, five times
/// the reads that it may have, and a thousandth of a thread.
const WORK_PRICE: Nanos = Nanos::from_millis(1);
const SITE_WORK_PRICE: Nanos =
    Nanos::from_nanos(WORK_PRICE.as_nanos() / ClientKey::SITE_CLIENTS as u64);
/// The longest time that a client owes: its connections are bounded, and so are the answers that it is owed.
const MOST_DEBT: Nanos = Nanos::from_secs(10);

#[cfg(test)]
mod tests;
