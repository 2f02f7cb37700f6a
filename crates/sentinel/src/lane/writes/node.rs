//! What becomes of writes that have left for the node: refusals, blocks, restarts.

use pacing::Nanos;

use super::uncommitted::Committed;
use super::{Entry, Event, WriteId, WriteState, Writes};
use crate::lane::job::{Job, TxHash};

/// What is known of the node after a connection broke.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// Since when it is surely the same, started once; none while no connection is up.
    pub(crate) same_since: Option<Nanos>,
    /// The height of its chain when it was first asked after that: what it had made before is not higher.
    pub(crate) made: Option<u64>,
    pub(crate) last_block: ShownBlock,
    /// How long a block is awaited.
    pub(crate) hold: Nanos,
    /// How long a node is awaited that does not show what it has made.
    pub(crate) longest_hold: Nanos,
}

/// The highest block that was shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShownBlock {
    /// Its height; what is below it was shown before.
    pub(crate) height: u64,
    /// When it was observed; what a follower missed is observed when it is back.
    pub(crate) observed: Nanos,
}

impl Known {
    /// Whether the fate of what broke at `broke` would have shown by now: all blocks that the node had made were shown,
    /// and one that it made later, or none comes.
    pub(crate) fn covers(&self, broke: Nanos, now: Nanos) -> bool {
        let Some(since) = self.same_since.map(|since| since.max(broke)) else {
            return false;
        };
        let awaited = now.saturating_sub(since);
        let ShownBlock { height, observed } = self.last_block;
        match self.made {
            Some(made) if made <= height => {
                made < height && observed > since || awaited > self.hold
            }
            _ => awaited > self.longest_hold,
        }
    }
}

impl Writes {
    /// A mempool is full: nothing is sent before `until`, or before a block makes room.
    pub(crate) fn hold_until(&mut self, until: Nanos) {
        self.ask_again_at.get_or_insert(until);
    }

    /// An application's mempool is full: nothing is sent before a block, which also takes back what checks have
    /// counted, or before `until`.
    pub(crate) fn hold_for_block(&mut self, until: Nanos) {
        self.ask_again_at = self.ask_again_at.max(Some(until));
    }

    /// When a node that refused is asked again.
    pub(crate) const fn ask_again_at(&self) -> Option<Nanos> {
        self.ask_again_at
    }

    /// Offers again what was refused, once its time has come and nothing of its line is under way, so that order
    /// holds.
    pub(crate) fn end_refusal(&mut self, now: Nanos) {
        if self.ask_again_at.is_some_and(|at| at > now) {
            return;
        }
        self.ask_again_at = None;
        if self.count(WriteState::Refused) == 0 {
            return;
        }
        let is_idle = |writes: &Self, entry: &Entry| {
            let line = entry.line;
            line.is_none_or(|line| !writes.lines.is_under_way(line))
        };
        self.apply_where(WriteState::Refused, Event::AskAgain, now, is_idle);
    }

    /// A block of the node that takes the writes: what it shows of own transactions, and the writes that it ends, to be
    /// answered.
    pub(crate) fn block(&mut self, hashes: &[TxHash], now: Nanos) -> (Committed, Vec<Job>) {
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
    pub(crate) fn forget_oldest(&mut self, now: Nanos) {
        let forgotten = self.uncommitted.forget_oldest();
        self.end_kept(&forgotten, now);
    }

    /// Transactions in no block that were forgotten.
    pub(crate) const fn forgotten(&self) -> u64 {
        self.uncommitted.forgotten()
    }

    /// What nodes made known while another took the writes is committed as well.
    pub(crate) fn passive_block(&mut self, hashes: &[TxHash], now: Nanos) -> Vec<Job> {
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
    pub(crate) fn offer_unknown(&mut self, now: Nanos, known: &Known) -> usize {
        let is_known = |_: &Self, entry: &Entry| known.covers(entry.since, now);
        self.apply_where(WriteState::FateUnknown, Event::OfferAgain, now, is_known)
    }

    /// Offers again what the node had accepted before `since`, as it may have been started again then.
    pub(crate) fn offer_accepted(&mut self, since: Nanos, now: Nanos) -> usize {
        let is_lost = |_: &Self, entry: &Entry| entry.since < since;
        self.apply_where(WriteState::Accepted, Event::OfferAgain, now, is_lost)
    }
}
