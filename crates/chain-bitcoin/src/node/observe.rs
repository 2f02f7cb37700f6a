//! What a node announces to a peer that only listens: transactions when it has accepted them, and blocks, whose
//! content is asked for.

use std::collections::VecDeque;
use std::time::Duration;

use bitcoin::hashes::Hash as _;
use bitcoin::p2p::message::NetworkMessage;
use bitcoin::p2p::message_blockdata::{GetHeadersMessage, Inventory};
use bitcoin::{Block, BlockHash, Txid};
use pacing::Nanos;
use tokio::time::{Instant, sleep_until};

use super::api::BitcoinBlock;
use super::follow::{Announced, Source, Wake};
use super::headers::{Headers, MOST_HEADERS, reversed};
use super::peer::Peer;
use crate::peer::PeerNetwork;
use rpc::{ClientError, Endpoint};

/// A node that is listened to.
#[derive(Debug)]
pub(super) struct PeerSource<C> {
    endpoint: Endpoint,
    network: PeerNetwork,
    limit: Duration,
    clock: C,
    peer: Option<Peer>,
    /// A node that ends connections is not asked for another one at once.
    not_before: Instant,
    headers: Headers,
    heard: Heard,
}

/// What was announced and not handed over.
#[derive(Debug, Default)]
struct Heard {
    accepted: Vec<Announced>,
    /// Blocks, by when each was announced first.
    blocks: VecDeque<(BlockHash, Nanos)>,
    /// Since when one of them was not told of.
    untold: Option<Nanos>,
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
            heard: Heard::default(),
        }
    }

    /// The connection, or a new one; what is announced in between is lost.
    async fn connect(&mut self) -> Result<Peer, ClientError> {
        if let Some(peer) = self.peer.take() {
            return Ok(peer);
        }
        sleep_until(self.not_before).await;
        self.not_before = Instant::now() + BETWEEN_CONNECTIONS;
        Peer::connect(&self.endpoint, self.network, true, self.limit).await
    }

    /// Sends a request and waits for its answer. After a failure the connection is not used again: a late answer
    /// would be taken for another one's.
    async fn ask<T>(
        &mut self,
        request: NetworkMessage,
        late: &str,
        pick: impl FnMut(NetworkMessage) -> Option<Result<T, String>>,
    ) -> Result<T, ClientError> {
        let mut peer = self.connect().await?;
        peer.send(request).await?;
        let (heard, clock) = (&mut self.heard, &self.clock);
        let mut announced = |inventory| heard.note(inventory, clock());
        let answer = peer.answer(late, &mut announced, pick).await?;
        self.peer = Some(peer);
        Ok(answer)
    }
}

impl Heard {
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
        self.untold = self.untold.or(Some(now));
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
        let blocks = self.heard.blocks.drain(..);
        blocks
            .map(|(hash, at)| (reversed(hash.to_byte_array()), at))
            .collect()
    }

    async fn wait(&mut self) -> Result<Wake, ClientError> {
        loop {
            // These first: what is seen later is stamped later.
            if !self.heard.accepted.is_empty() {
                return Ok(Wake::Accepted(std::mem::take(&mut self.heard.accepted)));
            }
            if let Some(at) = self.heard.untold.take() {
                return Ok(Wake::Block(at));
            }
            // Without a connection the next question makes one.
            let Some(peer) = &mut self.peer else {
                return std::future::pending().await;
            };
            let received = peer.receive().await;
            // A reply that is broken off ends the connection.
            let Some(mut peer) = self.peer.take() else {
                continue;
            };
            let (heard, clock) = (&mut self.heard, &self.clock);
            let mut announced = |inventory| heard.note(inventory, clock());
            peer.usual(received?, &mut announced).await?;
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

fn shown(txid: Txid) -> [u8; 32] {
    reversed(txid.to_byte_array())
}

/// Between the beginnings of two connections: a node that has banned us is not hammered.
const BETWEEN_CONNECTIONS: Duration = Duration::from_secs(1);
/// Announced blocks between two looks at the chain, of a node that announces what it likes.
const MOST_ANNOUNCED: usize = 1_000;
/// Why a node says nothing to `getheaders` (`OnGetHeaders` in `server.go` of btcd 0.26).
const HEADERS_HINT: &str = "it does not hold itself for up to date, which a btcd does only with a block of \
                                       the last 24 hours; mine one";
