//! The writes that have left their clients' queues, each in one state until its end.
//!
//! Nothing is offered again before it is known what the node has: a block made after the break is awaited, because a
//! restarted node may still commit what it had proposed. What blocks show needs no further offer; the rest is
//! offered again in the old order, before anything else. A node that kept its mempool answers "already exists in
//! cache", which does no harm.

mod lines;
mod node;
mod state;
mod uncommitted;

use std::collections::BTreeSet;
use std::ops::Bound;

use control::Load;
use cosmos::Place;
use pacing::Nanos;
use rpc::{BroadcastMethod, broadcast_len};

use self::lines::{Aside, LineId, Lines};
pub(super) use self::lines::{Carrier, Gap, Hold, Position};
pub(super) use self::node::{Known, ShownBlock};
pub(super) use self::state::{Event, WriteId, WriteState};
use self::state::{Next, Table};
use self::uncommitted::Uncommitted;
use super::job::{Job, TxHash};

/// All writes from their clients' queues to their ends.
#[derive(Debug)]
pub(super) struct Writes {
    table: Table<Entry>,
    /// Those in each state, the oldest first; only of states in which writes wait.
    waiting: [BTreeSet<WriteId>; WriteState::ALL.len()],
    /// How many are in each state.
    counts: [usize; WriteState::ALL.len()],
    lines: Lines,
    aside: Aside,
    /// What is to be held in the fair queue, or released, of whole clients.
    turned: Vec<Hold>,
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
    /// Its place in the order of others, until it is accepted.
    line: Option<LineId>,
    /// Of several of the same transaction it was the first when it was answered.
    is_first: bool,
    /// What took it last.
    carrier: Carrier,
    /// Whether it is sent in a request of its own.
    is_alone: bool,
}

impl Writes {
    /// Keeps at most `capacity` bytes of accepted transactions.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            table: Table::default(),
            waiting: Default::default(),
            counts: [0; WriteState::ALL.len()],
            lines: Lines::default(),
            aside: Aside::default(),
            turned: Vec::new(),
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
        let line = self.lines.join((job.client, job.line));
        let id = self.table.insert(Entry {
            job,
            state: WriteState::New,
            since: now,
            line: Some(line),
            is_first: false,
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

    /// The hash of one, and since when it is in its state.
    pub(super) fn entered_at(&self, id: WriteId) -> Option<(TxHash, Nanos)> {
        let entry = self.table.get(id)?;
        Some((entry.job.hash(), entry.since))
    }

    /// Whether it is sent in a request of its own: it is longer than the node takes in a message, or was under way
    /// when two connections broke.
    pub(super) fn is_alone(&self, id: WriteId) -> bool {
        (self.table.get(id)).is_some_and(|entry| entry.is_alone)
    }

    /// How a write stands to the others of its line.
    pub(super) fn position(&self, id: WriteId) -> Position {
        let line = self.table.get(id).and_then(|entry| entry.line);
        line.map_or(Position::Blocked, |line| self.lines.position(line, id))
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
        if to == Some(from) {
            return None;
        }
        if let Some(to) = to {
            entry.state = to;
            entry.since = now;
        }
        let line = match (from, to) {
            (WriteState::Accepted, None) => None,
            // Accepted => Ready
            (WriteState::Accepted, _) => Some(self.lines.join((entry.job.client, entry.job.line))),
            _ => entry.line,
        };
        let (stays, carrier) = (to.filter(|to| *to != WriteState::Accepted), entry.carrier);
        entry.line = stays.and(line);
        if from == WriteState::Accepted {
            self.kept_bytes -= kept_bytes(&entry.job);
        }
        self.left(id, from);
        let ended = match to {
            Some(to) => {
                self.entered(id, from, to);
                None
            }
            None => self.remove(id),
        };
        if let Some(line) = line {
            let freed = self.lines.change(line, id, (from, stays), carrier);
            if stays.is_none() {
                self.lines.leave(line);
            }
            for freed in freed {
                self.apply(freed, Event::LineFree, now);
            }
        }
        ended
    }

    fn left(&mut self, id: WriteId, from: WriteState) {
        self.counts[from as usize] -= 1;
        if is_waiting(from) {
            self.waiting[from as usize].remove(&id);
        }
        if is_aside(from)
            && let Some(entry) = self.table.get(id)
        {
            self.turned.extend(self.aside.take(entry.job.client));
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
        if is_aside(to) {
            self.turned.extend(self.aside.add(entry.job.client));
        }
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
        let hash = entry.job.hash();
        if is_offered_again {
            return self.uncommitted.remove(&hash);
        }
        let may_be_there = matches!(
            to,
            WriteState::Accepted | WriteState::FateUnknown | WriteState::Confirming
        );
        let job = may_be_there.then_some(&entry.job);
        entry.is_first = self.uncommitted.offered(hash, id, job);
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

    /// The check of one under way has passed and was answered: it is kept until a block shows it, if there is
    /// room.
    pub(super) fn accept(&mut self, id: WriteId, now: Nanos) {
        self.apply(id, Event::Passed, now);
        let Some(entry) = self.table.get_mut(id) else {
            return;
        };
        entry.job.keep();
        if !entry.is_first || self.kept_bytes > self.capacity {
            self.apply(id, Event::Answered, now);
        }
    }

    /// Those to be sent before anything from the queues, in order, of those after `last`.
    pub(super) fn ready_after(&self, last: Option<WriteId>) -> impl Iterator<Item = WriteId> {
        let after = last.map_or(Bound::Unbounded, Bound::Excluded);
        let ready = &self.waiting[WriteState::Ready as usize];
        ready.range((after, Bound::Unbounded)).copied()
    }

    /// Whether one from the queues may wait here.
    pub(super) const fn has_room_aside(&self) -> bool {
        self.aside.has_room()
    }

    /// What the fair queue is to hold from now on, or to release.
    pub(super) fn take_turned(&mut self) -> impl Iterator<Item = Hold> {
        let lines = self.lines.take_turned();
        lines.into_iter().chain(std::mem::take(&mut self.turned))
    }

    /// Takes out those that wait and whose deadline is over.
    pub(super) fn take_expired(&mut self, now: Nanos) -> Vec<Job> {
        let is_over = |id: &WriteId| self.job(*id).is_some_and(|job| job.is_over(now));
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

/// The bytes that a write takes while it is kept.
fn kept_bytes(job: &Job) -> usize {
    job.tx.len() + OVERHEAD
}

/// The length of the message in which it goes to the node, with the largest id.
fn message_len(job: &Job) -> usize {
    broadcast_len(1 << 53, BroadcastMethod::Commit, job.tx.len())
}

/// Whether it has left its queue and is to be sent, now or after others.
const fn is_aside(state: WriteState) -> bool {
    matches!(state, WriteState::Ready | WriteState::Parked)
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
