//! The node among peers, for observers: what it announces and serves, as btcd does.
//!
//! Accepted transactions are announced some at a time (`--trickleinterval` of btcd), blocks at once; headers and blocks
//! that are kept are served. What a peer sends beside that is ignored: transactions come in over the RPC. It connects
//! to no other node. The session of a peer that breaks the protocol, sends nothing for too long, or takes nothing ends;
//! the limits are btcd's.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bitcoin::consensus::{deserialize, serialize};
use bitcoin::p2p::message::{MAX_INV_SIZE, MAX_MSG_SIZE, NetworkMessage, RawNetworkMessage};
use bitcoin::p2p::message_blockdata::{GetHeadersMessage, Inventory};
use bitcoin::p2p::message_network::VersionMessage;
use bitcoin::p2p::{Address, Magic, ServiceFlags};
use bitcoin::{BlockHash, Txid};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{
    Duration, Instant, Interval, MissedTickBehavior, interval, interval_at, sleep_until, timeout,
};
use wire::p2p::Head;

use super::ledger::now;
use super::node::{Announcement, Bitcoin};
use crate::host::{Endpoint, Work};

/// A peer, as the node sees it.
struct Session<'a, S> {
    app: &'a Arc<Bitcoin>,
    number: u64,
    stream: S,
    /// The peer's address and ours.
    addresses: [SocketAddr; 2],
    input: Vec<u8>,
    /// By when it has to have sent a whole message, or to have finished the handshake.
    deadline: Instant,
    /// The other's version came; it acknowledged ours.
    has_version: bool,
    is_open: bool,
    /// Transactions are announced to it.
    wants_txs: bool,
    /// Not announced to it yet.
    queued: VecDeque<Txid>,
}

/// The session is over, without a further message.
struct Over;

/// The peer-to-peer protocol of a node.
pub(super) struct Peers(pub(super) Arc<Bitcoin>);

impl Endpoint for Peers {
    fn connections(&self) -> usize {
        self.0.host.config.rpc.max_open_connections
    }

    fn serve(self: Arc<Self>, stream: TcpStream, peer: SocketAddr) -> Work<'static, ()> {
        Box::pin(async move {
            let own = stream.local_addr().unwrap_or(peer);
            let session = Session::new(&self.0, stream, [peer, own]);
            let Err(Over) = session.run().await;
        })
    }
}

/// Nothing.
enum Never {}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Session<'a, S> {
    fn new(app: &'a Arc<Bitcoin>, stream: S, addresses: [SocketAddr; 2]) -> Self {
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        Self {
            app,
            number: SESSIONS.fetch_add(1, Ordering::Relaxed),
            stream,
            addresses,
            input: Vec::new(),
            deadline: Instant::now() + HANDSHAKE_LIMIT,
            has_version: false,
            is_open: false,
            wants_txs: false,
            queued: VecDeque::new(),
        }
    }

    async fn run(mut self) -> Result<Never, Over> {
        let mut announcements = self.app.announcements.subscribe();
        let mut trickle = late(interval(
            self.app.host.config.bitcoin.trickle.max(LEAST_TRICKLE),
        ));
        let mut pings = late(interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL));
        loop {
            tokio::select! {
                read = self.stream.read_buf(&mut self.input) => {
                    match read {
                        Ok(0) | Err(_) => return Err(Over),
                        Ok(_) => self.take_messages().await?,
                    }
                }
                announced = announcements.recv() => match announced {
                    Ok(announcement) => self.on_announcement(announcement).await?,
                    // A peer that reads too slowly misses some, as it would of a node that drops it.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Err(Over),
                },
                _ = trickle.tick(), if !self.queued.is_empty() => self.announce().await?,
                _ = pings.tick(), if self.is_open => {
                    self.send(NetworkMessage::Ping(self.number)).await?;
                }
                () = sleep_until(self.deadline) => return Err(Over),
            }
        }
    }

    async fn on_announcement(&mut self, announcement: Announcement) -> Result<(), Over> {
        match announcement {
            Announcement::Block(hash) if self.is_open => {
                let block = vec![Inventory::Block(hash)];
                self.send(NetworkMessage::Inv(block)).await
            }
            Announcement::Tx(txid) if self.wants_txs => {
                self.queued.push_back(txid);
                if self.queued.len() >= MAX_INV_SIZE {
                    return self.announce().await;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Announces what was accepted since the last time.
    async fn announce(&mut self) -> Result<(), Over> {
        while !self.queued.is_empty() {
            let most = self.queued.len().min(ANNOUNCED_TOGETHER);
            let txs = self.queued.drain(..most).map(Inventory::Transaction);
            let inventory = txs.collect();
            self.send(NetworkMessage::Inv(inventory)).await?;
        }
        Ok(())
    }

    /// Takes every whole message.
    async fn take_messages(&mut self) -> Result<(), Over> {
        let mut taken = 0;
        loop {
            let rest = &self.input[taken..];
            let head =
                Head::read(rest, Magic::REGTEST.to_bytes(), MAX_MSG_SIZE).map_err(|_| Over)?;
            let Some(head) = head.filter(|head| rest.len() >= head.bytes) else {
                break;
            };
            let message: RawNetworkMessage = deserialize(&rest[..head.bytes]).map_err(|_| Over)?;
            taken += head.bytes;
            self.take(message.into_payload()).await?;
        }
        self.input.drain(..taken);
        if taken > 0 && self.is_open {
            self.deadline = Instant::now() + SILENCE_LIMIT;
        }
        Ok(())
    }

    async fn take(&mut self, message: NetworkMessage) -> Result<(), Over> {
        if !self.has_version {
            let NetworkMessage::Version(version) = message else {
                return Err(Over);
            };
            self.has_version = true;
            self.wants_txs = version.relay;
            self.send(NetworkMessage::Version(self.version())).await?;
            return self.send(NetworkMessage::Verack).await;
        }
        match message {
            NetworkMessage::Verack if !self.is_open => self.is_open = true,
            NetworkMessage::Version(_) | NetworkMessage::Verack => return Err(Over),
            // Nothing else is taken before the handshake is done.
            _ if !self.is_open => return Err(Over),
            // Such a message is malformed to btcd.
            NetworkMessage::GetData(items) if items.len() > MAX_INV_SIZE => return Err(Over),
            NetworkMessage::Ping(nonce) => self.send(NetworkMessage::Pong(nonce)).await?,
            NetworkMessage::GetHeaders(asked) => {
                let headers = self.app.headers_after(&asked);
                self.send(NetworkMessage::Headers(headers)).await?;
            }
            NetworkMessage::GetData(wanted) => self.give(wanted).await?,
            _ => {}
        }
        Ok(())
    }

    fn version(&self) -> VersionMessage {
        let [peer, own] = self.addresses;
        VersionMessage {
            version: PROTOCOL_VERSION,
            services: ServiceFlags::NETWORK,
            timestamp: now().cast_signed(),
            receiver: Address::new(&peer, ServiceFlags::NONE),
            sender: Address::new(&own, ServiceFlags::NETWORK),
            nonce: self.number,
            user_agent: concat!("/devnode:", env!("CARGO_PKG_VERSION"), "/").into(),
            start_height: self.app.chain().height() as i32,
            relay: true,
        }
    }

    /// Sends the blocks that are kept of what is requested.
    async fn give(&mut self, wanted: Vec<Inventory>) -> Result<(), Over> {
        let mut missing = Vec::new();
        for item in wanted {
            let found = match item {
                Inventory::Block(hash) | Inventory::WitnessBlock(hash) => self.app.block(&hash),
                _ => None,
            };
            match found {
                Some(block) => self.send(NetworkMessage::Block(block)).await?,
                None => missing.push(item),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        self.send(NetworkMessage::NotFound(missing)).await
    }

    async fn send(&mut self, message: NetworkMessage) -> Result<(), Over> {
        let message = serialize(&RawNetworkMessage::new(Magic::REGTEST, message));
        // A peer that reads nothing holds up its own session alone, and not for ever.
        match timeout(SILENCE_LIMIT, self.stream.write_all(&message)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Over),
        }
    }
}

/// Ticks that are missed while the peer takes nothing are not made up for.
fn late(mut ticks: Interval) -> Interval {
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

impl Bitcoin {
    /// The headers behind the newest block of the best chain that the locator names, or behind the first one.
    fn headers_after(&self, asked: &GetHeadersMessage) -> Vec<bitcoin::block::Header> {
        let chain = self.chain();
        let known = asked
            .locator_hashes
            .iter()
            .find_map(|hash| chain.height_of(hash));
        let from = known.map_or(1, |height| height + 1);
        let until = chain.height_of(&asked.stop_hash).unwrap_or(u32::MAX);
        let headers =
            (from..=until.min(chain.height())).map_while(|height| chain.header_at(height));
        headers.take(MOST_HEADERS).collect()
    }

    /// A block that is kept.
    fn block(&self, hash: &BlockHash) -> Option<bitcoin::Block> {
        let chain = self.chain();
        let kept = chain.at(chain.height_of(hash)?)?;
        Some(kept.block.clone())
    }
}

/// Without compact blocks and witness ids.
const PROTOCOL_VERSION: u32 = 70_013;
/// As `MaxBlockHeadersPerMsg` of btcd.
const MOST_HEADERS: usize = 2_000;
/// As `maxInvTrickleSize` of btcd.
const ANNOUNCED_TOGETHER: usize = 1_000;
const LEAST_TRICKLE: Duration = Duration::from_millis(1);
/// As `negotiateTimeout` of btcd's `peer/peer.go`.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(30);
/// As `idleTimeout` there.
const SILENCE_LIMIT: Duration = Duration::from_secs(5 * 60);
/// As `pingInterval` there: the answer of a peer that only observes keeps its session.
const PING_INTERVAL: Duration = Duration::from_secs(2 * 60);

#[cfg(test)]
mod tests;
