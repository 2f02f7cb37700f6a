//! What a node commits where more is always ready than it can take: its capacity, played in place of computed.

use base::Random;
use pacing::Nanos;

use super::super::World;
use super::{Node, PLENTY_A_BLOCK};

impl World {
    /// What its node commits a second over so many blocks.
    pub(crate) fn saturated(&self, blocks: usize) -> f64 {
        let mut random = Random::new(self.seed ^ 0x7217);
        let mut node = Node::new(self, 1.0, 0, &mut random);
        let block_tps = self.block_tps.min(self.gas_tps).min(self.bytes_tps);
        let full = (3.0 * self.interval_s * block_tps).min(PLENTY_A_BLOCK) as usize;
        let mut index = 0;
        while node.blocks.len() < blocks {
            if node.pool.len() > full {
                node.block();
            } else {
                // It has arrived by the last block, and waits for its check.
                node.take(index, node.voted - self.link_s / 2.0, 0);
                index += 1;
            }
            node.events.clear();
        }
        let (first, rest) = (node.blocks[FILLING], &node.blocks[FILLING + 1..]);
        let committed: u64 = rest.iter().map(|it| it.committed).sum();
        let last = rest.last().map_or(Nanos::ZERO, |it| it.observed);
        committed as f64 / last.saturating_sub(first.observed).as_secs_f64()
    }
}

/// Blocks until the node is full.
const FILLING: usize = 10;
