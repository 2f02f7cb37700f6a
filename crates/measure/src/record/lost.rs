//! Whether what was accepted and is in no block can still come: the sign that ends a drain early.

use pacing::Nanos;

use crate::limits::{LOST_AFTER_BLOCKS, SAMPLED_WITHIN};

/// Blocks that had room for everything, as all mempools were empty before them.
///
/// A node keeps what it accepts in its mempool until a block has it, and shows the block later: so only blocks that were
/// announced after the mempools were found empty count, and the mempools have to be found empty once more after them.
/// Without blocks, without samples or without empty mempools nothing is concluded.
#[derive(Debug, Default)]
pub(crate) struct RoomyBlocks {
    /// When a transaction was accepted last.
    accepted: Nanos,
    /// Since when all mempools were found empty.
    empty_since: Option<Nanos>,
    /// Blocks since then that had none of this run's transactions, and when the last one was seen.
    blocks: u64,
    seen: Nanos,
    /// When the mempools were found empty after enough of them.
    still_empty: Option<Nanos>,
}

impl RoomyBlocks {
    pub(crate) fn accepted(&mut self, at: Nanos) {
        *self = Self {
            accepted: at.max(self.accepted),
            ..Self::default()
        };
    }

    /// A mempool was sampled at `at`: when that was done at each endpoint last, and what it held.
    pub(crate) fn sampled(
        &mut self,
        at: Nanos,
        mut mempools: impl Iterator<Item = Option<(Nanos, u64)>>,
    ) {
        let oldest = at.saturating_sub(SAMPLED_WITHIN);
        let are_empty = mempools
            .all(|it| it.is_some_and(|(at, txs)| txs == 0 && at >= oldest && at > self.accepted));
        if !are_empty {
            return self.accepted(self.accepted);
        }
        self.empty_since.get_or_insert(at);
        if self.blocks >= LOST_AFTER_BLOCKS && at > self.seen {
            self.still_empty.get_or_insert(at);
        }
    }

    /// A block with so many of the run's transactions was read. It was announced within the `resolution` before it was
    /// seen.
    pub(crate) fn block(&mut self, observed: Nanos, resolution: Option<Nanos>, own_txs: u64) {
        let announced = observed.saturating_sub(resolution.unwrap_or_default());
        if own_txs > 0 {
            self.accepted(self.accepted);
        } else if self.empty_since.is_some_and(|since| announced > since) {
            self.blocks += 1;
            self.seen = observed;
        }
    }

    /// Whether nothing that was accepted can come any more, when all blocks announced by `read` were read.
    pub(crate) fn are_enough(&self, read: Nanos) -> bool {
        self.still_empty.is_some_and(|at| at <= read)
    }
}
