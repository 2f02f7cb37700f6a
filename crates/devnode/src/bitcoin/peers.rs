//! The node among peers: what one may send it and ask of it, and what it announces, as btcd does.
//!
//! Transactions are taken unasked (btcd's `handleTxMsg` says why) and admitted as those of the RPC are; what is
//! refused is answered with `reject` (BIP 61), what is accepted announced to every other peer, some at a time
//! (`--trickleinterval` of btcd). Blocks are announced at once. It connects to nobody and keeps no orphans.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bitcoin::consensus::{deserialize, serialize};
use bitcoin::hashes::Hash as _;
use bitcoin::p2p::message::{MAX_INV_SIZE, MAX_MSG_SIZE, NetworkMessage, RawNetworkMessage};
use bitcoin::p2p::message_blockdata::{GetHeadersMessage, Inventory};
use bitcoin::p2p::message_network::{Reject, RejectReason, VersionMessage};
use bitcoin::p2p::{Address, Magic, ServiceFlags};
use bitcoin::{BlockHash, Transaction, Txid};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::{Duration, Interval, MissedTickBehavior, interval};
use wire::p2p::Head;

use super::error::{RpcError, TX_ERROR};
use super::ledger::{Ledger, now};
use super::methods;
use super::node::{Announcement, Bitcoin};
use crate::faults::Faults;

/// A peer, as the node sees it.
struct Session<'a> {
    app: &'a Arc<Bitcoin>,
    faults: &'a Faults,
    number: u64,
    stream: TcpStream,
    input: Vec<u8>,
    /// The other's version came; it acknowledged ours.
    has_version: bool,
    is_open: bool,
    /// It wants to hear of transactions.
    wants_txs: bool,
    /// Not announced to it yet.
    queued: VecDeque<Txid>,
}

/// Why a session is over; the peer is told nothing more.
struct Over;

/// Serves a peer until it goes, or breaks the protocol.
pub(crate) async fn serve(app: &Arc<Bitcoin>, faults: &Faults, stream: TcpStream) {
    static SESSIONS: AtomicU64 = AtomicU64::new(0);
    let announcements = app.announcements.subscribe();
    let mut trickle = interval(app.trickle.max(LEAST_TRICKLE));
    trickle.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let session = Session {
        app,
        faults,
        number: SESSIONS.fetch_add(1, Ordering::Relaxed),
        stream,
        input: Vec::new(),
        has_version: false,
        is_open: false,
        wants_txs: false,
        queued: VecDeque::new(),
    };
    // Why it ended is the peer's business.
    let Err(Over) = session.run(announcements, trickle).await;
}

/// Nothing.
enum Never {}

impl Session<'_> {
    async fn run(
        mut self,
        mut announcements: broadcast::Receiver<Announcement>,
        mut trickle: Interval,
    ) -> Result<Never, Over> {
        loop {
            tokio::select! {
                read = self.stream.read_buf(&mut self.input) => {
                    match read {
                        Ok(0) | Err(_) => return Err(Over),
                        Ok(_) => self.take_messages().await?,
                    }
                }
                announced = announcements.recv() => match announced {
                    Ok(announcement) => self.hear(announcement).await?,
                    // A peer that reads too slowly misses some, as it would of a node that drops it.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Err(Over),
                },
                _ = trickle.tick(), if !self.queued.is_empty() => self.announce().await?,
            }
        }
    }

    async fn hear(&mut self, announcement: Announcement) -> Result<(), Over> {
        match announcement {
            Announcement::Block(hash) if self.is_open => {
                let block = vec![Inventory::Block(hash)];
                self.send(NetworkMessage::Inv(block)).await
            }
            Announcement::Tx(txid, from) if self.wants_txs && from != Some(self.number) => {
                self.queued.push_back(txid);
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

    /// Takes every whole message. Transactions that follow one another are admitted together, so that they can
    /// be checked on several threads.
    async fn take_messages(&mut self) -> Result<(), Over> {
        let mut txs = Vec::new();
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
            match message.into_payload() {
                NetworkMessage::Tx(tx) if self.is_open => txs.push(tx),
                other => {
                    self.admit(std::mem::take(&mut txs)).await?;
                    self.take(other).await?;
                }
            }
        }
        self.input.drain(..taken);
        self.admit(txs).await
    }

    async fn take(&mut self, message: NetworkMessage) -> Result<(), Over> {
        if !self.has_version {
            let NetworkMessage::Version(version) = message else {
                self.reject(
                    &message,
                    RejectReason::Malformed,
                    "a version message must precede all others",
                )
                .await?;
                return Err(Over);
            };
            self.has_version = true;
            self.wants_txs = version.relay;
            self.send(NetworkMessage::Version(self.version())).await?;
            return self.send(NetworkMessage::Verack).await;
        }
        match message {
            NetworkMessage::Verack => self.is_open = true,
            // Nothing else is taken before the handshake is done.
            _ if !self.is_open => return Err(Over),
            NetworkMessage::Ping(nonce) => self.send(NetworkMessage::Pong(nonce)).await?,
            NetworkMessage::GetHeaders(asked) => {
                let headers = self.app.headers_after(&asked);
                self.send(NetworkMessage::Headers(headers)).await?;
            }
            NetworkMessage::GetData(wanted) => self.give(wanted).await?,
            NetworkMessage::Inv(announced) => self.want(&announced).await?,
            _ => {}
        }
        Ok(())
    }

    fn version(&self) -> VersionMessage {
        let peer = self.stream.peer_addr().unwrap_or(([0, 0, 0, 0], 0).into());
        let own = self.stream.local_addr().unwrap_or(peer);
        VersionMessage {
            version: PROTOCOL_VERSION,
            services: ServiceFlags::NETWORK,
            timestamp: now().cast_signed(),
            receiver: Address::new(&peer, ServiceFlags::NONE),
            sender: Address::new(&own, ServiceFlags::NETWORK),
            nonce: self.number,
            user_agent: concat!("/devnode:", env!("CARGO_PKG_VERSION"), "/").into(),
            start_height: self.app.heights().0 as i32,
            relay: true,
        }
    }

    /// Admits transactions, tells of those that are refused, and announces the others.
    async fn admit(&mut self, txs: Vec<Transaction>) -> Result<(), Over> {
        if txs.is_empty() {
            return Ok(());
        }
        let ids: Vec<Txid> = txs.iter().map(Transaction::compute_txid).collect();
        let txs = txs.into_iter().map(Ok).collect();
        let from = Some(self.number);
        let answers = methods::admit(self.app, self.faults, txs, from).await;
        for (txid, answer) in ids.into_iter().zip(answers) {
            if let Err(error) = answer {
                let (reason, text) = reason(&error);
                let reject = Reject {
                    message: "tx".into(),
                    ccode: reason,
                    reason: text.into(),
                    hash: txid.to_raw_hash(),
                };
                self.send(NetworkMessage::Reject(reject)).await?;
            }
        }
        Ok(())
    }

    /// Sends what is there of what is asked for.
    async fn give(&mut self, wanted: Vec<Inventory>) -> Result<(), Over> {
        let mut missing = Vec::new();
        for item in wanted.into_iter().take(MAX_INV_SIZE) {
            let found = match item {
                Inventory::Block(hash) | Inventory::WitnessBlock(hash) => {
                    self.app.block(&hash).map(NetworkMessage::Block)
                }
                Inventory::Transaction(txid) | Inventory::WitnessTransaction(txid) => {
                    let find = |ledger: &mut Ledger| {
                        ledger.pool().get(&txid).map(|pooled| pooled.tx.clone())
                    };
                    self.app.gate.pause(find).map(NetworkMessage::Tx)
                }
                _ => None,
            };
            match found {
                Some(message) => self.send(message).await?,
                None => missing.push(item),
            }
        }
        match missing.is_empty() {
            true => Ok(()),
            false => self.send(NetworkMessage::NotFound(missing)).await,
        }
    }

    /// Asks for the transactions of an announcement that are not in the mempool.
    async fn want(&mut self, announced: &[Inventory]) -> Result<(), Over> {
        let unknown = |ledger: &mut Ledger| -> Vec<Inventory> {
            let is_unknown = |item: &&Inventory| match item {
                Inventory::Transaction(txid) => ledger.pool().get(txid).is_none(),
                _ => false,
            };
            announced.iter().filter(is_unknown).copied().collect()
        };
        let wanted = self.app.gate.pause(unknown);
        match wanted.is_empty() {
            true => Ok(()),
            false => self.send(NetworkMessage::GetData(wanted)).await,
        }
    }

    async fn reject(
        &mut self,
        refused: &NetworkMessage,
        reason: RejectReason,
        text: &'static str,
    ) -> Result<(), Over> {
        let reject = Reject {
            message: refused.cmd().into(),
            ccode: reason,
            reason: text.into(),
            hash: bitcoin::hashes::sha256d::Hash::all_zeros(),
        };
        self.send(NetworkMessage::Reject(reject)).await
    }

    async fn send(&mut self, message: NetworkMessage) -> Result<(), Over> {
        let message = serialize(&RawNetworkMessage::new(Magic::REGTEST, message));
        let sent = self.stream.write_all(&message).await;
        sent.map_err(|_| Over)
    }
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

/// What a refusal is to peers (`ErrToRejectErr` of btcd's `mempool/error.go`): the same text without the RPC's words.
fn reason(error: &RpcError) -> (RejectReason, String) {
    let text = error
        .message
        .strip_prefix("TX rejected: ")
        .unwrap_or(&error.message);
    let is_about = |word: &str| text.contains(word);
    let reason = if is_about("already") {
        RejectReason::Duplicate
    } else if is_about("insufficient priority") || is_about("fees which is under") {
        RejectReason::Fee
    } else if error.code == TX_ERROR {
        RejectReason::Invalid
    } else {
        RejectReason::NonStandard
    };
    (reason, text.to_owned())
}

/// With `reject`, `feefilter` and `sendheaders`, without compact blocks and witness ids.
const PROTOCOL_VERSION: u32 = 70_013;
/// As `MaxBlockHeadersPerMsg` of btcd.
const MOST_HEADERS: usize = 2_000;
/// As `maxInvTrickleSize` of btcd.
const ANNOUNCED_TOGETHER: usize = 1_000;
const LEAST_TRICKLE: Duration = Duration::from_millis(1);
