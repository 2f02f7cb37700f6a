//! A connection to a Bitcoin node over its peer protocol, to probe the node or to follow it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bitcoin::p2p::message::NetworkMessage;
use bitcoin::p2p::message_blockdata::Inventory;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::peer::{Handshake, MOST_BYTES, PEER_NETWORKS, PeerNetwork, message_bytes, read, write};
use rpc::{ClientError, Endpoint};

/// What a node sends about itself in the handshake with a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its network.
    pub network: PeerNetwork,
    /// Its name and version.
    pub user_agent: String,
    /// The height of its newest block.
    pub height: u64,
    /// The least fee in satoshi for 1,000 bytes of a transaction that peers announce to it, if it sent a `feefilter`.
    pub fee_filter: Option<u64>,
}

/// Finds out a node's network and whether it takes transactions from peers. It tries the known networks on a connection
/// each, because a node does not answer peers of another network.
///
/// # Errors
/// [`ClientError`] when it cannot be reached, or refuses the handshake.
pub async fn probe_peer(endpoint: &Endpoint, limit: Duration) -> Result<PeerInfo, ClientError> {
    let mut refused = None;
    for network in PEER_NETWORKS {
        match Peer::connect(endpoint, network, false, limit).await {
            Ok(peer) => return peer.describe().await,
            Err(error @ ClientError::Peer { .. }) => refused = Some(error),
            Err(error) => return Err(error),
        }
    }
    let known: Vec<&str> = PEER_NETWORKS.iter().map(|network| network.name).collect();
    let reason = match refused {
        Some(ClientError::Peer { reason, .. }) => reason,
        _ => String::new(),
    };
    Err(ClientError::Peer {
        endpoint: endpoint.to_string(),
        reason: format!("{reason}. Tried as a peer of {}", known.join(", ")),
    })
}

/// A connection to a node after the handshake.
#[derive(Debug)]
pub(super) struct Peer {
    endpoint: String,
    network: PeerNetwork,
    stream: TcpStream,
    limit: Duration,
    /// Bytes that were received.
    input: Vec<u8>,
    /// How many bytes of `input` are read as messages.
    taken: usize,
    user_agent: String,
    height: u64,
    takes_txs: bool,
    fee_filter: Option<u64>,
}

impl Peer {
    /// Connects within `limit`. With `announcements` the node announces transactions.
    pub(super) async fn connect(
        endpoint: &Endpoint,
        network: PeerNetwork,
        announcements: bool,
        limit: Duration,
    ) -> Result<Self, ClientError> {
        let opening = async {
            let unreachable = |error: io::Error| ClientError::Unreachable {
                endpoint: endpoint.to_string(),
                reason: error.to_string(),
            };
            let addresses = (endpoint.host(), endpoint.port());
            let stream = TcpStream::connect(addresses).await.map_err(unreachable)?;
            let address = stream.peer_addr().map_err(unreachable)?;
            stream.set_nodelay(true).map_err(unreachable)?;
            let mut peer = Self {
                endpoint: endpoint.to_string(),
                network,
                stream,
                limit,
                input: Vec::new(),
                taken: 0,
                user_agent: String::new(),
                height: 0,
                takes_txs: true,
                fee_filter: None,
            };
            peer.greet(address, announcements).await?;
            Ok(peer)
        };
        // A node that does not answer at all answers on no network, so that no other is tried.
        timeout(limit, opening).await.unwrap_or_else(|_| {
            let limit = limit.as_secs_f64();
            Err(ClientError::Setup {
                endpoint: endpoint.to_string(),
                reason: format!(
                    "the node did not finish the handshake of peers in {limit} s; it hangs, or another service listens there"
                ),
            })
        })
    }

    async fn greet(&mut self, address: SocketAddr, announcements: bool) -> Result<(), ClientError> {
        let mut handshake = Handshake::default();
        self.send(Handshake::version(address, announcements))
            .await?;
        loop {
            if let Some(theirs) = handshake.done() {
                self.user_agent.clone_from(&theirs.user_agent);
                self.height = u64::try_from(theirs.start_height).unwrap_or_default();
                self.takes_txs = theirs.relay;
                return Ok(());
            }
            let message = self.receive().await;
            let message = message.map_err(|_| self.failed(handshake.hint()))?;
            if let Some(reply) = handshake.take(message) {
                let sent = self.send(reply).await;
                sent.map_err(|_| self.failed(handshake.hint()))?;
            }
        }
    }

    /// What the node sent about itself during the handshake.
    async fn describe(mut self) -> Result<PeerInfo, ClientError> {
        if !self.takes_txs {
            return Err(ClientError::Setup {
                endpoint: self.endpoint.clone(),
                reason: "the node takes no transactions from peers; start it without --blocksonly"
                    .into(),
            });
        }
        // The node sends its `feefilter` before it answers this ping.
        self.send(NetworkMessage::Ping(PING)).await?;
        self.answer("it hangs", &mut drop, |message| match message {
            NetworkMessage::Pong(PING) => Some(Ok(())),
            _ => None,
        })
        .await?;
        Ok(PeerInfo {
            network: self.network,
            user_agent: self.user_agent,
            height: self.height,
            fee_filter: self.fee_filter,
        })
    }

    pub(super) async fn send(&mut self, message: NetworkMessage) -> Result<(), ClientError> {
        let bytes = write(self.network.magic, message);
        let sent = self.stream.write_all(&bytes).await;
        sent.map_err(|error| self.failed(&format!("the connection broke: {error}")))
    }

    /// The next message.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(super) async fn receive(&mut self) -> Result<NetworkMessage, ClientError> {
        loop {
            let rest = &self.input[self.taken..];
            let failed = |error: &dyn std::fmt::Display| ClientError::Peer {
                endpoint: self.endpoint.clone(),
                reason: format!(
                    "the node does not speak as a peer of {}: {error}",
                    self.network
                ),
            };
            let bytes = message_bytes(rest, self.network.magic, MOST_BYTES);
            match bytes.map_err(|error| failed(&error))? {
                Some(bytes) if rest.len() >= bytes => {
                    let message = read(&rest[..bytes]).map_err(|error| failed(&error))?;
                    self.taken += bytes;
                    return Ok(message);
                }
                Some(bytes) => self.input.reserve(bytes),
                None => {}
            }
            self.input.drain(..self.taken);
            self.taken = 0;
            match self.stream.read_buf(&mut self.input).await {
                Ok(0) => return Err(self.failed("the node ended the connection; its log says why")),
                Ok(_) => {}
                Err(error) => return Err(self.failed(&format!("the connection broke: {error}"))),
            }
        }
    }

    /// Waits for a message that `pick` takes; `announced` gets the announcements that arrive meanwhile.
    pub(super) async fn answer<T>(
        &mut self,
        late: &str,
        announced: &mut impl FnMut(Vec<Inventory>),
        mut pick: impl FnMut(NetworkMessage) -> Option<Result<T, String>>,
    ) -> Result<T, ClientError> {
        let limit = self.limit;
        let found = timeout(limit, async {
            loop {
                let message = self.receive().await?;
                let message = self.handle_routine(message, announced).await?;
                if let Some(found) = message.and_then(&mut pick) {
                    return found.map_err(|reason| self.failed(&reason));
                }
            }
        })
        .await;
        found.unwrap_or_else(|_| {
            let limit = limit.as_secs_f64();
            Err(self.failed(&format!("the node gave no answer in {limit} s: {late}")))
        })
    }

    /// Handles pings, fees and announcements, and returns any other message.
    pub(super) async fn handle_routine(
        &mut self,
        message: NetworkMessage,
        announced: &mut impl FnMut(Vec<Inventory>),
    ) -> Result<Option<NetworkMessage>, ClientError> {
        match message {
            NetworkMessage::Ping(nonce) => self.send(NetworkMessage::Pong(nonce)).await?,
            NetworkMessage::FeeFilter(fee) => self.fee_filter = u64::try_from(fee).ok(),
            NetworkMessage::Inv(inventory) => announced(inventory),
            message => return Ok(Some(message)),
        }
        Ok(None)
    }

    fn failed(&self, reason: &str) -> ClientError {
        ClientError::Peer {
            endpoint: self.endpoint.clone(),
            reason: reason.into(),
        }
    }
}

/// Any number will do: one ping is under way at a time.
const PING: u64 = 0x7469_6465;
