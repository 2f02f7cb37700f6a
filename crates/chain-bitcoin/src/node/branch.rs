//! The newest blocks of the best chain: which of them are deep enough, and which were taken back.

use std::collections::{HashSet, VecDeque};

use rpc::FollowEvent;

use super::BitcoinBlock;

/// The newest blocks of the best chain, the tip last, and how many of them were delivered.
#[derive(Debug)]
pub(super) struct Branch {
    blocks: VecDeque<BitcoinBlock>,
    /// Of `blocks`, from the first on.
    delivered: usize,
    /// The highest height that was delivered, or that was there before the first.
    highest: u64,
    /// Blocks that a delivered one has, itself included.
    confirmations: u64,
    /// Transactions of delivered blocks that left the chain.
    taken_back: HashSet<[u8; 32]>,
    /// Transactions of new blocks at heights that were delivered before.
    moved: Vec<[u8; 32]>,
}

impl Branch {
    /// Begins behind this block, which is not delivered.
    pub(super) fn behind(tip: BitcoinBlock, confirmations: u64) -> Self {
        Self {
            highest: tip.height,
            blocks: VecDeque::from([tip]),
            delivered: 1,
            confirmations: confirmations.max(1),
            taken_back: HashSet::new(),
            moved: Vec::new(),
        }
    }

    pub(super) fn tip(&self) -> &BitcoinBlock {
        // There is always one: the last one is replaced and never only removed.
        &self.blocks[self.blocks.len() - 1]
    }

    /// The highest height that was given, or that was there before the first.
    pub(super) const fn highest(&self) -> u64 {
        self.highest
    }

    pub(super) fn has(&self, hash: &[u8; 32]) -> bool {
        self.blocks.iter().any(|block| block.hash == *hash)
    }

    /// The lowest height that is known: new blocks need not be asked for below it.
    pub(super) fn lowest(&self) -> u64 {
        self.blocks[0].height
    }

    /// Puts `new`, from the lowest on, behind the block they follow; what stood there is taken back.
    pub(super) fn extend(&mut self, new: Vec<BitcoinBlock>) -> Option<FollowEvent> {
        let first = new.first()?;
        let keep = first.previous.map_or(0, |previous| {
            let place = self.blocks.iter().position(|block| block.hash == previous);
            place.map_or(0, |place| place + 1)
        });
        let replaced: Vec<BitcoinBlock> = self.blocks.drain(keep..).collect();
        let lost = self.delivered.saturating_sub(keep);
        self.delivered -= lost;
        // Of what is moved now, nothing is delivered twice.
        for block in replaced.iter().take(lost) {
            self.taken_back.extend(block.txs.iter().skip(1));
        }
        for block in &new {
            for tx in &block.txs {
                self.taken_back.remove(tx);
            }
        }
        let left = &replaced[..lost];
        self.blocks.extend(new);
        Some(FollowEvent::Reorganised {
            height: left.first()?.height,
            blocks: left.iter().map(|block| block.hash).collect(),
            taken_back: self.taken_back.iter().copied().collect(),
        })
    }

    /// The next block that is deep enough. Those at heights that were delivered before are passed over;
    /// their transactions are in the next one above them.
    pub(super) fn next(&mut self) -> Option<BitcoinBlock> {
        loop {
            let tip = self.tip().height;
            let block = self.blocks.get(self.delivered)?;
            if tip + 1 < block.height + self.confirmations {
                return None;
            }
            self.delivered += 1;
            let mut block = block.clone();
            self.forget();
            if block.height <= self.highest {
                self.moved.append(&mut block.txs);
                continue;
            }
            self.highest = block.height;
            block.txs.append(&mut self.moved);
            return Some(block);
        }
    }

    fn forget(&mut self) {
        while self.blocks.len() > MOST_KEPT && self.delivered > 1 {
            self.blocks.pop_front();
            self.delivered -= 1;
        }
    }
}

/// Deeper reorganisations are noticed too, without the blocks below.
const MOST_KEPT: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    /// Block `name` of the transactions `txs` behind `previous`; the coinbase has the block's own name.
    fn block(name: u8, previous: u8, height: u64, txs: &[u8]) -> BitcoinBlock {
        let ids = std::iter::once(name + 100).chain(txs.iter().copied());
        BitcoinBlock {
            hash: [name; 32],
            previous: Some([previous; 32]),
            height,
            size: 0,
            time: 0,
            txs: ids.map(|id| [id; 32]).collect(),
        }
    }

    fn delivered(branch: &mut Branch) -> Vec<(u64, Vec<u8>)> {
        std::iter::from_fn(|| branch.next())
            .map(|block| (block.height, block.txs.iter().map(|id| id[0]).collect()))
            .collect()
    }

    #[test]
    fn a_block_is_delivered_at_its_depth_and_not_before() {
        let mut branch = Branch::behind(block(1, 0, 10, &[]), 3);
        assert_eq!(branch.extend(vec![block(2, 1, 11, &[1])]), None);
        assert_eq!(branch.extend(vec![block(3, 2, 12, &[2])]), None);
        assert_eq!(delivered(&mut branch), []);
        branch.extend(vec![block(4, 3, 13, &[])]);
        assert_eq!(delivered(&mut branch), [(11, vec![102, 1])]);
    }

    #[test]
    fn what_leaves_the_chain_before_its_depth_is_never_delivered() {
        let mut branch = Branch::behind(block(1, 0, 10, &[]), 2);
        branch.extend(vec![block(2, 1, 11, &[1, 2])]);
        let taken = branch.extend(vec![block(3, 1, 11, &[2]), block(4, 3, 12, &[])]);
        assert_eq!(taken, None, "nothing had been delivered");
        assert_eq!(delivered(&mut branch), [(11, vec![103, 2])]);
    }

    #[test]
    fn a_delivered_block_that_leaves_the_chain_is_counted_with_what_it_took_along() {
        let mut branch = Branch::behind(block(1, 0, 10, &[]), 1);
        branch.extend(vec![block(2, 1, 11, &[1, 2])]);
        assert_eq!(delivered(&mut branch), [(11, vec![102, 1, 2])]);
        let taken = branch.extend(vec![block(3, 1, 11, &[2, 3]), block(4, 3, 12, &[4])]);
        let expected = FollowEvent::Reorganised {
            height: 11,
            blocks: vec![[2; 32]],
            taken_back: vec![[1; 32]],
        };
        assert_eq!(taken, Some(expected));
        // What the new block of that height has is in the one above it: no height comes twice.
        assert_eq!(delivered(&mut branch), [(12, vec![104, 4, 103, 2, 3])]);
    }

    #[test]
    fn even_the_block_behind_which_it_began_may_leave_the_chain() {
        let mut branch = Branch::behind(block(1, 0, 10, &[]), 1);
        let taken = branch.extend(vec![block(2, 9, 10, &[1]), block(3, 2, 11, &[2])]);
        let one =
            |taken| matches!(taken, FollowEvent::Reorganised { blocks, .. } if blocks == [[1; 32]]);
        assert!(taken.is_some_and(one));
        assert_eq!(delivered(&mut branch), [(11, vec![103, 2, 102, 1])]);
    }
}
