//! Follows a Bitcoin node as its peer: reads its announcements of accepted transactions and of blocks, requests the
//! blocks, and keeps the hashes of the best chain, from headers.

use std::collections::VecDeque;
use std::time::Duration;

use bitcoin::hashes::Hash as _;
use bitcoin::p2p::message::NetworkMessage;
use bitcoin::p2p::message_blockdata::{GetHeadersMessage, Inventory};
use bitcoin::{Block, BlockHash};
use pacing::Nanos;
use tokio::time::{Instant, sleep_until};

use super::BitcoinBlock;
use super::follow::{Announced, Source, Wake};
use super::peer::Peer;
use crate::peer::PeerNetwork;
use crate::workload::shown;
use bitcoin::block::Header;
use rpc::{ClientError, Endpoint};

/// A connection to the node that is followed, and what it has announced.
#[derive(Debug)]
pub(super) struct PeerSource<C> {
    endpoint: Endpoint,
    network: PeerNetwork,
    limit: Duration,
    clock: C,
    peer: Option<Peer>,
    /// No connection is opened before this instant, so that a node that ends connections is not flooded with new ones.
    not_before: Instant,
    headers: Headers,
    pending: Announcements,
}

/// Announcements that the follower has not fetched.
#[derive(Debug, Default)]
struct Announcements {
    accepted: Vec<Announced>,
    /// Blocks, with the time of their first announcement.
    blocks: VecDeque<(BlockHash, Nanos)>,
    /// When the first of them was announced of which [`Source::wait`] has not reported any.
    unreported: Option<Nanos>,
}

impl<C: Fn() -> Nanos + Send> PeerSource<C> {
    pub(super) fn new(
        endpoint: &Endpoint,
        network: PeerNetwork,
        limit: Duration,
        clock: C,
    ) -> Self {
        Self {
            endpoint: endpoint.clone(),
            network,
            limit,
            clock,
            peer: None,
            not_before: Instant::now(),
            headers: Headers::from(network.genesis),
            pending: Announcements::default(),
        }
    }

    /// The connection, or a new one. Announcements between the two are lost.
    async fn connect(&mut self) -> Result<Peer, ClientError> {
        if let Some(peer) = self.peer.take() {
            return Ok(peer);
        }
        sleep_until(self.not_before).await;
        self.not_before = Instant::now() + BETWEEN_CONNECTIONS;
        Peer::connect(&self.endpoint, self.network, true, self.limit).await
    }

    /// Sends a request and waits for its answer. A connection that failed is not used again: its late answer could be
    /// taken for that of the next request.
    async fn ask<T>(
        &mut self,
        request: NetworkMessage,
        late: &str,
        pick: impl FnMut(NetworkMessage) -> Option<Result<T, String>>,
    ) -> Result<T, ClientError> {
        let mut peer = self.connect().await?;
        peer.send(request).await?;
        let (announcements, clock) = (&mut self.pending, &self.clock);
        let mut announced = |inventory| announcements.note(inventory, clock());
        let answer = peer.answer(late, &mut announced, pick).await?;
        self.peer = Some(peer);
        Ok(answer)
    }
}

impl Announcements {
    fn note(&mut self, inventory: Vec<Inventory>, now: Nanos) {
        let mut txs = Vec::new();
        for announced in inventory {
            match announced {
                Inventory::Transaction(txid) => txs.push(shown(txid)),
                Inventory::Block(hash) => self.block(hash, now),
                _ => {}
            }
        }
        if !txs.is_empty() {
            self.accepted.push(Announced { at: now, txs });
        }
    }

    fn block(&mut self, hash: BlockHash, now: Nanos) {
        self.unreported = self.unreported.or(Some(now));
        if self.blocks.iter().all(|(known, _)| *known != hash) {
            self.blocks.push_back((hash, now));
        }
        if self.blocks.len() > MOST_ANNOUNCED {
            self.blocks.pop_front();
        }
    }
}

impl<C: Fn() -> Nanos + Send + Sync> Source for PeerSource<C> {
    async fn best(&mut self) -> Result<[u8; 32], ClientError> {
        loop {
            let ask = GetHeadersMessage::new(self.headers.locator(), BlockHash::all_zeros());
            let ask = NetworkMessage::GetHeaders(ask);
            let headers = self
                .ask(ask, HEADERS_HINT, |message| match message {
                    NetworkMessage::Headers(headers) => Some(Ok(headers)),
                    _ => None,
                })
                .await?;
            let extended = self.headers.extend(&headers);
            extended.map_err(|reason| ClientError::Peer {
                endpoint: self.endpoint.to_string(),
                reason,
            })?;
            if headers.len() < MOST_HEADERS {
                return Ok(reversed(self.headers.tip().to_byte_array()));
            }
        }
    }

    async fn block(&mut self, hash: &[u8; 32]) -> Result<BitcoinBlock, ClientError> {
        let hash = BlockHash::from_byte_array(reversed(*hash));
        let ask = NetworkMessage::GetData(vec![Inventory::Block(hash)]);
        let block = self
            .ask(ask, "it did not send a block", |message| match message {
                NetworkMessage::Block(block) if block.block_hash() == hash => Some(Ok(Some(block))),
                NetworkMessage::NotFound(_) => Some(Ok(None)),
                _ => None,
            })
            .await?
            .ok_or_else(|| ClientError::Peer {
                endpoint: self.endpoint.to_string(),
                reason: format!("it does not have block {hash}"),
            })?;
        Ok(content(
            &block,
            hash,
            match self.headers.height(&hash) {
                Some(height) => height,
                None => {
                    let previous = self.headers.height(&block.header.prev_blockhash);
                    previous.map_or(0, |height| height + 1)
                }
            },
        ))
    }

    fn announced(&mut self) -> Vec<([u8; 32], Nanos)> {
        let blocks = self.pending.blocks.drain(..);
        blocks
            .map(|(hash, at)| (reversed(hash.to_byte_array()), at))
            .collect()
    }

    async fn wait(&mut self) -> Result<Wake, ClientError> {
        loop {
            // Transactions first, so that the events keep the order of their stamps.
            if !self.pending.accepted.is_empty() {
                return Ok(Wake::Accepted(std::mem::take(&mut self.pending.accepted)));
            }
            if let Some(at) = self.pending.unreported.take() {
                return Ok(Wake::Block(at));
            }
            // The next request opens a connection.
            let Some(peer) = &mut self.peer else {
                return std::future::pending().await;
            };
            let received = peer.receive().await;
            // A reply that is not sent in full, by an error or because this future is dropped, ends the connection.
            let Some(mut peer) = self.peer.take() else {
                continue;
            };
            let (announcements, clock) = (&mut self.pending, &self.clock);
            let mut announced = |inventory| announcements.note(inventory, clock());
            peer.handle_routine(received?, &mut announced).await?;
            self.peer = Some(peer);
        }
    }
}

fn content(block: &Block, hash: BlockHash, height: u64) -> BitcoinBlock {
    let previous = reversed(block.header.prev_blockhash.to_byte_array());
    BitcoinBlock {
        hash: reversed(hash.to_byte_array()),
        previous: (height > 0).then_some(previous),
        height,
        size: block.total_size() as u64,
        time: block.header.time.into(),
        txs: block
            .txdata
            .iter()
            .map(|tx| shown(tx.compute_txid()))
            .collect(),
    }
}

/// Shortest time between two attempts to connect, so that a node that has banned this peer is not flooded.
const BETWEEN_CONNECTIONS: Duration = Duration::from_secs(1);
/// Announced blocks that are kept, whatever the node announces.
const MOST_ANNOUNCED: usize = 1_000;
/// Why a node does not answer `getheaders` (`OnGetHeaders` in `server.go` of btcd 0.26).
const HEADERS_HINT: &str = "it does not hold itself for up to date, which a btcd does only with a block of \
                                       the last 24 hours; mine one";

/// Hashes by height, from the first block on: 32 bytes each.
#[derive(Debug)]
struct Headers(Vec<BlockHash>);

impl Headers {
    /// The chain that begins with this block.
    fn from(genesis: [u8; 32]) -> Self {
        Self(vec![BlockHash::from_byte_array(reversed(genesis))])
    }

    fn tip(&self) -> BlockHash {
        // The first is always there.
        self.0[self.0.len() - 1]
    }

    /// The height of a block of the best chain.
    fn height(&self, hash: &BlockHash) -> Option<u64> {
        let at = self.0.iter().rposition(|known| known == hash)?;
        Some(at as u64)
    }

    /// What a node needs to find where its chain leaves this one: the newest ten, then ever fewer, and the first
    /// (`BlockLocator` in `blockchain/chainview.go` of btcd).
    fn locator(&self) -> Vec<BlockHash> {
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

    /// Puts headers behind the block that they follow; they replace the blocks that were there.
    fn extend(&mut self, headers: &[Header]) -> Result<(), String> {
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

/// Converts a hash between the order of bytes in which it is sent and that in which it is shown.
fn reversed(mut hash: [u8; 32]) -> [u8; 32] {
    hash.reverse();
    hash
}

/// Headers of one message at most: with fewer there are no more (`MaxBlockHeadersPerMsg` of btcd).
const MOST_HEADERS: usize = 2_000;
const NEWEST: usize = 10;
/// 64 MB. Bitcoin's own chain has fewer than half of them.
const MOST_HEIGHTS: usize = 2_000_000;

#[cfg(test)]
mod tests {
    use bitcoin::block::Version;
    use bitcoin::{CompactTarget, TxMerkleNode};

    use super::*;

    /// `count` headers behind a block; `nonce` distinguishes branches.
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
