//! The writes that have left their clients' queues, each in one state until its end.
//!
//! Nothing is offered again before it is known what the node has: a block made after the break is awaited, because a
//! restarted node may still commit what it had proposed. What blocks show needs no further offer; the rest is
//! offered again in the old order, before anything else. A node that kept its mempool answers "already exists in
//! cache", which does no harm.

mod lines;
mod state;
mod table;

use std::collections::BTreeSet;

use control::Load;
use cosmos::Place;
use pacing::Nanos;
use rpc::{BroadcastMethod, broadcast_len};

pub(super) use self::lines::{Carrier, Position};
use self::lines::{LineKey, Lines};
use self::state::Next;
pub(super) use self::state::{Event, WriteState};
use self::table::Table;
pub(super) use self::table::WriteId;
use super::job::{Job, TxHash};
use super::uncommitted::{Committed, Uncommitted};
use crate::config::WriteOrder;

/// All writes from their clients' queues to their ends.
#[derive(Debug)]
pub(super) struct Writes {
    table: Table,
    order: WriteOrder,
    /// Those in each state, the oldest first; only of states in which writes wait.
    waiting: [BTreeSet<WriteId>; WriteState::ALL.len()],
    /// How many are in each state.
    counts: [usize; WriteState::ALL.len()],
    lines: Lines,
    /// Those that have a place in the order of their account.
    by_place: BTreeSet<(Place, WriteId)>,
    uncommitted: Uncommitted,
    /// Bytes of those that were accepted, and the most that are kept.
    kept_bytes: usize,
    capacity: usize,
    /// After a refusal: when the node is asked again.
    ask_again_at: Option<Nanos>,
    /// Longer messages go alone.
    longest_message: usize,
}

/// A write and its state.
#[derive(Debug)]
struct Entry {
    job: Job,
    state: WriteState,
    /// When it came into its state.
    since: Nanos,
    /// What took it last.
    carrier: Carrier,
    /// Whether it is sent in a request of its own.
    is_alone: bool,
}

/// What keeps a write back that the node refuses because earlier ones of its account are missing. Of several the last
/// one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gap {
    /// The client left them out.
    OfClient,
    /// The node had accepted them, and has lost them since.
    Lost,
    /// They are on their way.
    OnTheWay,
    /// A block has to count them.
    AwaitsBlock,
}

impl Writes {
    /// Keeps at most `capacity` bytes of accepted transactions.
    pub(super) fn new(order: WriteOrder, capacity: usize) -> Self {
        Self {
            table: Table::default(),
            order,
            waiting: Default::default(),
            counts: [0; WriteState::ALL.len()],
            lines: Lines::default(),
            by_place: BTreeSet::new(),
            uncommitted: Uncommitted::default(),
            kept_bytes: 0,
            capacity,
            ask_again_at: None,
            longest_message: LONGEST_MESSAGE,
        }
    }

    /// Takes one that has left its client's queue.
    pub(super) fn insert(&mut self, job: Job, now: Nanos) -> WriteId {
        let place = job.place();
        self.counts[WriteState::New as usize] += 1;
        let is_alone = message_len(&job) > self.longest_message;
        let id = self.table.insert(Entry {
            job,
            state: WriteState::New,
            since: now,
            carrier: Carrier::Alone,
            is_alone,
        });
        self.by_place.extend(place.map(|place| (place, id)));
        id
    }

    /// One that has not ended.
    pub(super) fn job(&self, id: WriteId) -> Option<&Job> {
        self.table.get(id).map(|entry| &entry.job)
    }

    /// One that has not ended, to be answered or noted on.
    pub(super) fn job_mut(&mut self, id: WriteId) -> Option<&mut Job> {
        self.table.get_mut(id).map(|entry| &mut entry.job)
    }

    /// Whether it is sent in a request of its own: it is longer than the node takes in a message, or was under way
    /// when two connections broke.
    pub(super) fn is_alone(&self, id: WriteId) -> bool {
        (self.table.get(id)).is_some_and(|entry| entry.is_alone)
    }

    /// How a write stands to the others of its line.
    pub(super) fn position(&self, id: WriteId) -> Position {
        let Some(entry) = self.table.get(id) else {
            return Position::Blocked;
        };
        let key = LineKey::of(self.order, &entry.job);
        self.lines.position(&key, id)
    }

    /// A carrier takes a write.
    pub(super) fn sent(&mut self, id: WriteId, carrier: Carrier, now: Nanos) {
        if let Some(entry) = self.table.get_mut(id) {
            entry.carrier = carrier;
            self.apply(id, Event::Sent, now);
        }
    }

    /// Something happens to a write: the write, if that was its end.
    pub(super) fn apply(&mut self, id: WriteId, event: Event, now: Nanos) -> Option<Job> {
        let entry = self.table.get_mut(id)?;
        let from = entry.state;
        let to = match from.after(event) {
            Next::Is(to) => Some(to),
            Next::Ends => None,
            Next::Impossible => {
                debug_assert!(false, "{event:?} of a write that is {from:?}");
                return None;
            }
        };
        if let Some(to) = to {
            entry.state = to;
            entry.since = now;
        }
        if to == Some(from) {
            return None;
        }
        if from == WriteState::Accepted {
            self.kept_bytes -= kept_bytes(&entry.job);
        }
        let (key, carrier) = (LineKey::of(self.order, &entry.job), entry.carrier);
        self.left(id, from);
        let ended = match to {
            Some(to) => {
                self.entered(id, from, to);
                None
            }
            None => self.remove(id),
        };
        for freed in self.lines.change(key, id, [Some(from), to], carrier) {
            self.apply(freed, Event::LineFree, now);
        }
        ended
    }

    fn left(&mut self, id: WriteId, from: WriteState) {
        self.counts[from as usize] -= 1;
        if is_waiting(from) {
            self.waiting[from as usize].remove(&id);
        }
    }

    fn entered(&mut self, id: WriteId, from: WriteState, to: WriteState) {
        self.counts[to as usize] += 1;
        if is_waiting(to) {
            self.waiting[to as usize].insert(id);
        }
        let Some(entry) = self.table.get_mut(id) else {
            return;
        };
        if to == WriteState::FateUnknown {
            entry.job.notes.breaks += 1;
            entry.is_alone |= entry.job.notes.breaks >= MOST_BREAKS
                || message_len(&entry.job) > self.longest_message;
        } else if to == WriteState::Accepted {
            self.kept_bytes += kept_bytes(&entry.job);
        }
        let is_offered_again = to == WriteState::Ready
            && matches!(from, WriteState::Accepted | WriteState::FateUnknown);
        if from != WriteState::UnderWay && !is_offered_again {
            return;
        }
        let Some(hash) = entry.job.hash() else {
            return;
        };
        if is_offered_again {
            return self.uncommitted.remove(&hash);
        }
        self.uncommitted.offered(hash, id);
        if matches!(
            to,
            WriteState::Accepted | WriteState::FateUnknown | WriteState::Confirming
        ) {
            self.uncommitted.add(hash, &entry.job);
        }
    }

    fn remove(&mut self, id: WriteId) -> Option<Job> {
        let job = self.table.remove(id)?.job;
        if let Some(place) = job.place() {
            self.by_place.remove(&(place, id));
        }
        if let Some(hash) = job.known_hash() {
            self.uncommitted.ended(&hash, id);
        }
        Some(job)
    }

    /// Something happens to those in a state that fit: how many.
    fn apply_where(
        &mut self,
        state: WriteState,
        event: Event,
        now: Nanos,
        fits: impl Fn(&Self, &Entry) -> bool,
    ) -> usize {
        let fit = |(id, entry): (WriteId, &Entry)| fits(self, entry).then_some(id);
        let all: Vec<WriteId> = if is_waiting(state) {
            let waiting = self.waiting[state as usize].iter();
            let entries = waiting.filter_map(|id| Some((*id, self.table.get(*id)?)));
            entries.filter_map(fit).collect()
        } else {
            let entries = self.table.iter().filter(|(_, entry)| entry.state == state);
            let mut all: Vec<_> = entries.filter_map(fit).collect();
            all.sort_unstable();
            all
        };
        for id in &all {
            self.apply(*id, event, now);
        }
        all.len()
    }

    /// The check of one under way has passed, and its client was told: it is kept until a block shows it, if there is
    /// room.
    pub(super) fn accept(&mut self, id: WriteId, now: Nanos) {
        self.apply(id, Event::Passed, now);
        let Some(entry) = self.table.get_mut(id) else {
            return;
        };
        entry.job.keep();
        let has_room = self.kept_bytes <= self.capacity;
        let hash = entry.job.hash().unwrap_or_default();
        let is_first = self.uncommitted.writes(&hash).next() == Some(id);
        if !has_room || !is_first {
            self.apply(id, Event::Answered, now);
        }
    }

    /// The node may have accepted one whose transaction cannot be read.
    pub(super) fn count_unread(&mut self, id: WriteId) {
        if let Some(entry) = self.table.get(id) {
            let bytes = entry.job.reservation.bytes() as u64;
            self.uncommitted.add_unread(bytes);
        }
    }

    /// The next to be sent before anything from the queues.
    pub(super) fn next_ready(&self) -> Option<WriteId> {
        self.ready(false)
    }

    /// The next to be sent in a request of its own.
    pub(super) fn next_alone(&self) -> Option<WriteId> {
        self.ready(true)
    }

    fn ready(&self, is_alone: bool) -> Option<WriteId> {
        let mut ready = self.waiting[WriteState::Ready as usize].iter().copied();
        ready.find(|id| self.is_alone(*id) == is_alone)
    }

    /// A mempool is full: nothing is sent before `until`, or before a block makes room.
    pub(super) fn hold_until(&mut self, until: Nanos) {
        self.ask_again_at.get_or_insert(until);
    }

    /// An application's mempool is full: nothing is sent before a block, which also takes back what checks have
    /// counted, or before `until`.
    pub(super) fn hold_for_block(&mut self, until: Nanos) {
        self.ask_again_at = self.ask_again_at.max(Some(until));
    }

    /// When a node that refused is asked again.
    pub(super) const fn ask_again_at(&self) -> Option<Nanos> {
        self.ask_again_at
    }

    /// Offers again what was refused, once its time has come and nothing of its line is under way, so that order
    /// holds.
    pub(super) fn end_refusal(&mut self, now: Nanos) {
        if self.ask_again_at.is_some_and(|at| at > now) {
            return;
        }
        self.ask_again_at = None;
        let is_idle = |writes: &Self, entry: &Entry| {
            let key = LineKey::of(writes.order, &entry.job);
            !writes.lines.is_under_way(&key)
        };
        self.apply_where(WriteState::Refused, Event::AskAgain, now, is_idle);
    }

    /// A block of the node that takes the writes: what it says of own transactions, and the writes that it ends, to be
    /// answered.
    pub(super) fn block(&mut self, hashes: &[TxHash], now: Nanos) -> (Committed, Vec<Job>) {
        let shown = self.shown(hashes, now);
        let committed = self.uncommitted.block(hashes);
        self.end_kept(&committed.overtaken, now);
        self.apply_where(WriteState::AwaitsBlock, Event::Block, now, |_, _| true);
        self.ask_again_at = self.ask_again_at.map(|at| at.min(now));
        (committed, shown)
    }

    /// Those that the node must have dropped, or that were forgotten, are kept no longer.
    fn end_kept(&mut self, hashes: &[TxHash], now: Nanos) {
        for hash in hashes {
            let kept = self.uncommitted.writes(hash).next();
            if let Some(id) = kept
                && self.state(id) == Some(WriteState::Accepted)
            {
                self.apply(id, Event::Overtaken, now);
            }
        }
    }

    /// What is in no block does not grow without a bound.
    pub(super) fn forget_oldest(&mut self, now: Nanos) {
        let forgotten = self.uncommitted.forget_oldest();
        self.end_kept(&forgotten, now);
    }

    /// Transactions in no block that were forgotten.
    pub(super) const fn forgotten(&self) -> u64 {
        self.uncommitted.forgotten()
    }

    /// What nodes made known while another took the writes is committed as well.
    pub(super) fn passive_block(&mut self, hashes: &[TxHash], now: Nanos) -> Vec<Job> {
        for hash in hashes {
            self.uncommitted.remove(hash);
        }
        self.shown(hashes, now)
    }

    fn shown(&mut self, hashes: &[TxHash], now: Nanos) -> Vec<Job> {
        let ids = hashes.iter().flat_map(|hash| self.uncommitted.writes(hash));
        let ids: Vec<WriteId> = ids.collect();
        let end = |id| self.apply(id, Event::Shown, now);
        ids.into_iter().filter_map(end).collect()
    }

    /// Offers again whose fate blocks would have shown by now. The node is the same as `same_since`, and its last
    /// block is from `last_block`; where none comes, `hold` is enough.
    pub(super) fn offer_unknown(&mut self, now: Nanos, known: &Known) -> usize {
        let is_known = |_: &Self, entry: &Entry| known.covers(entry.since, now);
        self.apply_where(WriteState::FateUnknown, Event::OfferAgain, now, is_known)
    }

    /// Offers again what the node had accepted before `since`, as it may have been started again then.
    pub(super) fn offer_accepted(&mut self, since: Nanos, now: Nanos) -> usize {
        let is_lost = |_: &Self, entry: &Entry| entry.since < since;
        self.apply_where(WriteState::Accepted, Event::OfferAgain, now, is_lost)
    }

    /// What is before a write of an account of which the node expects the sequence `expected`.
    pub(super) fn gap(&self, id: WriteId, expected: u64) -> Gap {
        let states = self.before(id, expected).map(|(_, state)| state);
        let gaps = states.map(|state| match state {
            WriteState::Accepted => Gap::Lost,
            WriteState::AwaitsBlock | WriteState::FateUnknown | WriteState::Confirming => {
                Gap::AwaitsBlock
            }
            _ => Gap::OnTheWay,
        });
        match gaps.max() {
            None => Gap::OfClient,
            // The node has them, and its checks do not count them before a block (`mempool.recheck`).
            Some(Gap::Lost) if self.job(id).is_some_and(|job| job.notes.is_behind_lost) => {
                Gap::AwaitsBlock
            }
            Some(gap) => gap,
        }
    }

    /// Offers again what the node has lost before a write of the same account: how many.
    pub(super) fn offer_before(&mut self, id: WriteId, expected: u64, now: Nanos) -> usize {
        let lost: Vec<WriteId> = self.before(id, expected).map(|(one, _)| one).collect();
        for one in &lost {
            self.apply(*one, Event::OfferAgain, now);
        }
        lost.len()
    }

    /// Those of the same client, and what the node has accepted: any other client's signer is a claim.
    fn before(&self, id: WriteId, expected: u64) -> impl Iterator<Item = (WriteId, WriteState)> {
        let client = self.job(id).map(|job| job.client);
        let binds = move |one: WriteId, state: WriteState| {
            state == WriteState::Accepted || self.job(one).map(|job| job.client) == client
        };
        let place = self.job(id).and_then(|job| job.place());
        let range = place.map(|later| {
            let sequence = expected.min(later.sequence);
            (Place { sequence, ..later }, WriteId::FIRST)..(later, WriteId::FIRST)
        });
        let found = range
            .into_iter()
            .flat_map(|range| self.by_place.range(range));
        found
            .filter_map(|(_, one)| Some((*one, self.state(*one)?)))
            .filter(move |(one, state)| binds(*one, *state))
    }

    /// Takes out those that wait and whose deadline is over.
    pub(super) fn take_expired(&mut self, now: Nanos) -> Vec<Job> {
        let is_over = |id: &WriteId| self.job(*id).is_some_and(|job| job.deadline <= now);
        let waiting = self.waiting.iter().flatten().copied();
        let over: Vec<WriteId> = waiting.filter(is_over).collect();
        let end = |id| self.apply(id, Event::Over, now);
        over.into_iter().filter_map(end).collect()
    }

    /// Takes out everything whose client was not answered, to be refused.
    pub(super) fn take_all(&mut self) -> Vec<Job> {
        let table = std::mem::take(&mut self.table);
        let jobs = table.into_entries().into_iter().map(|mut entry| {
            // The node may have it.
            entry.job.notes.breaks += u8::from(entry.state == WriteState::UnderWay);
            entry.job
        });
        jobs.collect()
    }

    fn state(&self, id: WriteId) -> Option<WriteState> {
        self.table.get(id).map(|entry| entry.state)
    }

    /// How many are in a state.
    pub(super) const fn count(&self, state: WriteState) -> usize {
        self.counts[state as usize]
    }

    /// Those that will be sent once they may be.
    pub(super) const fn to_be_sent(&self) -> usize {
        self.count(WriteState::Ready) + self.count(WriteState::Refused)
    }

    /// Whether nothing waits or is under way. What was accepted does not count.
    pub(super) fn is_empty(&self) -> bool {
        self.table.len() == self.count(WriteState::Accepted)
    }

    /// Lines of which any is under way or waits here.
    pub(super) fn lines(&self) -> usize {
        self.lines.len()
    }

    /// What was sent from here and is in no block yet.
    pub(super) const fn own(&self) -> Load {
        self.uncommitted.load()
    }

    /// Bytes of accepted transactions that are kept.
    pub(super) const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// The node closed a connection because a message was too long for it, with these under way: others as long as the
    /// longest of them go alone from now on.
    pub(super) fn note_too_long(&mut self, under_way: &[WriteId]) {
        let jobs = under_way.iter().filter_map(|id| self.job(*id));
        if let Some(longest) = jobs.map(message_len).max() {
            let limit = (longest - 1).max(SHORTEST_LIMIT);
            self.longest_message = self.longest_message.min(limit);
        }
    }
}

/// What is known of the node after a connection broke.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Since when it is surely the same, started once; none while no connection is up.
    pub(super) same_since: Option<Nanos>,
    pub(super) last_block: Option<Nanos>,
    /// How long a block is awaited.
    pub(super) hold: Nanos,
}

impl Known {
    /// Whether the fate of what broke at `broke` would have shown by now.
    pub(super) fn covers(&self, broke: Nanos, now: Nanos) -> bool {
        let Some(since) = self.same_since.map(|since| since.max(broke)) else {
            return false;
        };
        self.last_block.is_some_and(|block| block > since) || now.saturating_sub(since) > self.hold
    }
}

/// The bytes that a write takes while it is kept.
fn kept_bytes(job: &Job) -> usize {
    job.bytes() + OVERHEAD
}

/// The length of the message in which it goes to the node, with the largest id.
fn message_len(job: &Job) -> usize {
    broadcast_len(1 << 53, BroadcastMethod::Commit, job.bytes())
}

const fn is_waiting(state: WriteState) -> bool {
    !matches!(
        state,
        WriteState::New | WriteState::UnderWay | WriteState::Accepted
    )
}

/// What a node reads of one WebSocket message (`rpc.max_body_bytes`, by default in CometBFT's `config.toml`; it closes the
/// connection at a longer one).
const LONGEST_MESSAGE: usize = 1_000_000;
/// However a connection ended, shorter messages go over shared ones.
const SHORTEST_LIMIT: usize = 16 << 10;
/// After so many breaks with it under way a write goes alone.
const MOST_BREAKS: u8 = 2;
/// The bytes of a write beside its transaction's, its indexes included.
const OVERHEAD: usize = 512;

#[cfg(test)]
mod tests;
