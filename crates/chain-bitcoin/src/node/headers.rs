//! The hashes of the best chain, as a node tells them to a peer that asks for headers.

use bitcoin::BlockHash;
use bitcoin::block::Header;
use bitcoin::hashes::Hash as _;

/// Hashes by height, from the first block on: 32 bytes each.
#[derive(Debug)]
pub(super) struct Headers(Vec<BlockHash>);

impl Headers {
    /// The chain that begins with this block.
    pub(super) fn from(genesis: [u8; 32]) -> Self {
        Self(vec![BlockHash::from_byte_array(reversed(genesis))])
    }

    pub(super) fn tip(&self) -> BlockHash {
        // The first is always there.
        self.0[self.0.len() - 1]
    }

    /// The height of a block of the best chain.
    pub(super) fn height(&self, hash: &BlockHash) -> Option<u64> {
        let at = self.0.iter().rposition(|known| known == hash)?;
        Some(at as u64)
    }

    /// What a node needs to find where its chain leaves this one: the newest ten, then ever fewer, and the first
    /// (`BlockLocator` in `blockchain/chainview.go` of btcd).
    pub(super) fn locator(&self) -> Vec<BlockHash> {
        let mut locator = Vec::new();
        let (mut at, mut step) = (self.0.len() - 1, 1);
        while at > 0 {
            locator.push(self.0[at]);
            if locator.len() >= NEWEST {
                step *= 2;
            }
            at = at.saturating_sub(step);
        }
        locator.push(self.0[0]);
        locator
    }

    /// Puts headers behind the block that they follow; what stood there left the best chain.
    pub(super) fn extend(&mut self, headers: &[Header]) -> Result<(), String> {
        let Some(first) = headers.first() else {
            return Ok(());
        };
        let known = self.height(&first.prev_blockhash);
        let fork = known.ok_or(
            "its headers do not follow the first block of this network: it is on another chain",
        )?;
        self.0.truncate(fork as usize + 1);
        for header in headers {
            if header.prev_blockhash != self.tip() {
                return Err("its headers do not follow one another".into());
            }
            if self.0.len() == MOST_HEIGHTS {
                return Err(format!(
                    "its chain has more than {MOST_HEIGHTS} blocks; load a test network"
                ));
            }
            self.0.push(header.block_hash());
        }
        Ok(())
    }
}

/// The other order of bytes: that in which a hash is shown, or that in which it is sent.
pub(super) fn reversed(mut hash: [u8; 32]) -> [u8; 32] {
    hash.reverse();
    hash
}

/// Headers of one message at most: with fewer there are no more (`MaxBlockHeadersPerMsg` of btcd).
pub(super) const MOST_HEADERS: usize = 2_000;
const NEWEST: usize = 10;
/// 64 MB. Bitcoin's own chain has fewer than half of them.
const MOST_HEIGHTS: usize = 2_000_000;

#[cfg(test)]
mod tests {
    use bitcoin::block::Version;
    use bitcoin::{CompactTarget, TxMerkleNode};

    use super::*;

    /// `count` headers behind a block; `nonce` tells branches apart.
    fn branch(mut previous: BlockHash, count: usize, nonce: u32) -> Vec<Header> {
        let mut headers = Vec::new();
        for _ in 0..count {
            let header = Header {
                version: Version::ONE,
                prev_blockhash: previous,
                merkle_root: TxMerkleNode::all_zeros(),
                time: 0,
                bits: CompactTarget::from_consensus(0),
                nonce,
            };
            previous = header.block_hash();
            headers.push(header);
        }
        headers
    }

    #[test]
    fn a_locator_is_dense_at_the_tip_and_ends_with_the_first_block() {
        let mut headers = Headers::from([7; 32]);
        assert_eq!(headers.locator().len(), 1);
        let chain = branch(headers.tip(), 1_000, 0);
        headers.extend(&chain).unwrap();
        let heights: Vec<u64> = headers
            .locator()
            .iter()
            .map(|hash| headers.height(hash).unwrap())
            .collect();
        assert_eq!(
            heights[..11],
            [1000, 999, 998, 997, 996, 995, 994, 993, 992, 991, 989]
        );
        assert_eq!(heights.last(), Some(&0));
        assert!(heights.len() < 25, "{heights:?}");
    }

    #[test]
    fn a_branch_takes_the_place_of_what_it_leaves_and_a_foreign_one_is_refused() {
        let mut headers = Headers::from([7; 32]);
        let chain = branch(headers.tip(), 10, 0);
        headers.extend(&chain).unwrap();
        let fork = branch(chain[6].block_hash(), 5, 1);
        headers.extend(&fork).unwrap();
        assert_eq!(headers.height(&fork[4].block_hash()), Some(12));
        assert_eq!(headers.height(&chain[7].block_hash()), None);
        assert_eq!(headers.extend(&[]), Ok(()));
        let foreign = branch(BlockHash::all_zeros(), 1, 0);
        let refused = headers.extend(&foreign).unwrap_err();
        assert!(refused.contains("another chain"), "{refused}");
        let mut gap = branch(headers.tip(), 3, 2);
        gap.remove(1);
        assert!(headers.extend(&gap).unwrap_err().contains("one another"));
    }
}
