//! Blocks that nodes made known while another took the writes.

use std::collections::VecDeque;

use rpc::FollowedBlock;

/// Blocks of passive nodes, the oldest first, and whose they are. When such a node takes over, they tell
/// what the one before it has committed, which is not to be offered again.
#[derive(Debug, Default)]
pub(super) struct PassiveBlocks {
    blocks: VecDeque<(usize, FollowedBlock)>,
    hashes: usize,
}

/// Transactions of the blocks that are kept: what some minutes bring, in 32 bytes each.
const HASHES: usize = 1 << 17;
/// Blocks that are kept, for chains whose blocks are empty.
const BLOCKS: usize = 256;

impl PassiveBlocks {
    /// A passive node made this block known.
    pub(super) fn note(&mut self, node: usize, block: FollowedBlock) {
        self.hashes += block.hashes.len();
        self.blocks.push_back((node, block));
        while (self.hashes > HASHES || self.blocks.len() > BLOCKS)
            && let Some((_, oldest)) = self.blocks.pop_front()
        {
            self.hashes -= oldest.hashes.len();
        }
    }

    /// The height of the highest; 0 without any.
    pub(super) fn height(&self) -> u64 {
        let heights = self.blocks.iter().map(|(_, block)| block.height);
        heights.max().unwrap_or(0)
    }

    /// Takes all of them.
    pub(super) fn take(&mut self) -> VecDeque<(usize, FollowedBlock)> {
        self.hashes = 0;
        std::mem::take(&mut self.blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(height: u64, txs: usize) -> FollowedBlock {
        FollowedBlock {
            height,
            hashes: vec![[7; 32]; txs],
            ..FollowedBlock::default()
        }
    }

    #[test]
    fn acknowledged_67_blocks_of_a_passive_node_are_kept_for_a_failover() {
        let mut passive = PassiveBlocks::default();
        for height in 1..=300 {
            passive.note(1, block(height, 0));
        }
        let heights: Vec<u64> = passive
            .take()
            .iter()
            .map(|(_, block)| block.height)
            .collect();
        assert_eq!(heights, (45..=300).collect::<Vec<_>>());
        for height in 1..=4 {
            passive.note(1, block(height, HASHES / 3));
        }
        assert_eq!(passive.take().len(), 3);
        assert_eq!(passive.take().len(), 0);
    }
}
