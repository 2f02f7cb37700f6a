//! The pacer, as the lane asks it.

use std::ops::{Deref, DerefMut};

use control::{BlockSeen, Demand, Pacer};
use pacing::Nanos;

use super::job::Job;

/// An amount in each unit that a chain may be short of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) txs: u64,
    pub(super) bytes: u64,
    /// 0 where unknown.
    pub(super) gas: u64,
}

/// What waits, and what is at the node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    /// Writes that wait.
    pub(super) waiting: usize,
    /// Writes sent and not answered.
    pub(super) under_way: usize,
    /// What was sent from here and is in no block yet, by hash.
    #[expect(dead_code, reason = "this pacer counts by itself")]
    pub(super) own: Load,
    /// Writes that may be under way in any case; 0 while nothing can be sent.
    pub(super) most: usize,
    /// Write connections that are up.
    pub(super) connections: usize,
    /// Lines with a write that waits or is under way.
    #[expect(dead_code, reason = "this pacer does not ask")]
    pub(super) lines: usize,
}

/// A permission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    /// So many writes may leave; they count as sent.
    pub(super) now: usize,
    /// And no more than this in the unit that is scarce. One begun below it is taken whole.
    pub(super) amount: u64,
    /// When to ask again, if time alone decides.
    pub(super) next: Option<Nanos>,
}

/// A block of the node that takes the writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) height: u64,
    pub(super) observed: Nanos,
    pub(super) all: Load,
    /// Those that were sent from here, by hash.
    pub(super) ours: Load,
}

/// The pacer. What has another form in it is translated here.
pub(super) struct Pace(pub(super) Pacer);

impl Pace {
    /// What may leave now.
    pub(super) fn grant(&mut self, now: Nanos, waiting: &Waiting) -> Granted {
        let grant = self.0.grant(
            now,
            Demand {
                waiting: waiting.waiting,
                under_way: waiting.under_way,
                most: waiting.most,
                connections: waiting.connections,
            },
        );
        Granted {
            now: grant.now,
            amount: u64::MAX,
            next: grant.next,
        }
    }

    /// What a write comes to in the unit that is scarce; 0 while that is transactions.
    pub(super) fn amount(&self, _job: &Job) -> u64 {
        0
    }

    /// A block, after which `left` is own and in no block.
    pub(super) fn block(&mut self, now: Nanos, seen: &Seen, _left: Load) -> BlockSeen {
        let block = BlockSeen {
            height: seen.height,
            txs: seen.all.txs as usize,
            ours: Some(seen.ours.txs as usize),
            observed: seen.observed,
        };
        self.0.block(now, &block);
        block
    }

    /// What the node had accepted is offered again: it is own no longer.
    pub(super) fn offered_again(&mut self, now: Nanos) {
        self.0.mempool_lost(now);
    }

    /// The time between blocks under load; zero until it is known.
    pub(super) fn loaded_interval(&self) -> Nanos {
        self.0.block_interval()
    }
}

impl Deref for Pace {
    type Target = Pacer;

    fn deref(&self) -> &Pacer {
        &self.0
    }
}

impl DerefMut for Pace {
    fn deref_mut(&mut self) -> &mut Pacer {
        &mut self.0
    }
}
