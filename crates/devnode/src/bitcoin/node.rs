//! The node: its chain, its mempool behind a gate, and what it announces to its peers.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use base64_simd::STANDARD;
use bitcoin::hashes::Hash as _;
use bitcoin::{BlockHash, ScriptBuf, Txid};
use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::broadcast;

use super::chain::{self, Chain};
use super::ledger::{Depth, Ledger, now};
use super::rules::{self, Rules};
use crate::app::admission::Gate;
use crate::config::{AdmissionMode, BitcoinConfig, MempoolConfig, cores};
use crate::host::{BlockMaker, BlockSummary, Host, Snapshot, Work};

/// What a node announces to its peers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Announcement {
    /// A transaction that was accepted.
    Tx(Txid),
    /// A block.
    Block(BlockHash),
}

/// The node.
#[derive(Debug)]
pub(super) struct Bitcoin {
    pub(super) host: Arc<Host>,
    pub(super) gate: Arc<Gate<Rules>>,
    /// Threads that check transactions, and nanoseconds that all checks took.
    pub(super) validators: usize,
    pub(super) checking: Arc<AtomicU64>,
    chain: RwLock<Chain>,
    /// Where blocks pay to, if an address is configured.
    pub(super) payout: Option<ScriptBuf>,
    max_block_bytes: usize,
    /// In satoshi for each kilobyte.
    pub(super) min_relay_fee: u64,
    /// The header that a client has to send.
    pub(super) authorization: String,
    /// To the sessions of all peers.
    pub(super) announcements: broadcast::Sender<Announcement>,
}

impl Bitcoin {
    pub(super) fn new(host: &Arc<Host>) -> Self {
        let config = &host.config;
        let BitcoinConfig {
            rpc_user,
            rpc_password,
            min_relay_fee,
            max_outputs,
            ..
        } = &config.bitcoin;
        let MempoolConfig {
            size,
            max_txs_bytes,
            ..
        } = config.mempool;
        let limits = rules::Limits {
            mempool_txs: size,
            mempool_bytes: max_txs_bytes,
            outputs: *max_outputs,
            fee_per_kilobyte: *min_relay_fee,
        };
        let checking = Arc::new(AtomicU64::new(0));
        let rules = Rules::new(limits, Arc::clone(&checking));
        let mode = config.admission.mode.unwrap_or(AdmissionMode::Serial);
        let gate = Gate::new(&config.admission, mode, rules, Ledger::default());
        let credentials = STANDARD.encode_to_string(format!("{rpc_user}:{rpc_password}"));
        Self {
            host: Arc::clone(host),
            gate: Arc::new(gate),
            validators: match mode {
                AdmissionMode::Serial => 1,
                AdmissionMode::Parallel => cores(config.admission.validators),
            },
            checking,
            chain: RwLock::new(Chain::new(config.retain_blocks, config.retain_bytes)),
            payout: config.bitcoin.payout(),
            max_block_bytes: config.bitcoin.largest_block(),
            min_relay_fee: *min_relay_fee,
            authorization: format!("Basic {credentials}"),
            announcements: broadcast::Sender::new(ANNOUNCEMENTS),
        }
    }

    /// Announces to the peers, if there are any.
    pub(super) fn announce(&self, announcement: Announcement) {
        let _ = self.announcements.send(announcement);
    }

    pub(super) fn chain(&self) -> RwLockReadGuard<'_, Chain> {
        self.chain.read()
    }

    /// Mines a block of the oldest transactions. Returns its hash and how many it has beside the coinbase.
    pub(super) fn mine(&self) -> (BlockHash, usize) {
        let mined = self.gate.pause(|ledger| {
            let mut chain = self.chain.write();
            let txs = ledger.take_for_block(self.max_block_bytes);
            let count = txs.len();
            let block = chain::mine(&chain, txs, self.payout.clone(), now());
            let undo = ledger.connect(&block, chain.height() + 1);
            (chain.push(block, undo), count)
        });
        self.announce(Announcement::Block(mined.0));
        mined
    }

    /// Takes blocks back, from the newest down to this one; their transactions return to the mempool.
    /// False if the block is not in the chain, or too old to be taken back.
    pub(super) fn invalidate(&self, hash: &BlockHash) -> bool {
        self.gate.pause(|ledger| {
            let mut chain = self.chain.write();
            let Some(blocks) = chain.pop_from(hash) else {
                return false;
            };
            for kept in blocks {
                ledger.disconnect(kept.block, kept.undo, chain.height());
            }
            true
        })
    }

    pub(super) fn depth(&self) -> Depth {
        self.gate.pause(|ledger| ledger.pool().depth())
    }
}

impl BlockMaker for Bitcoin {
    fn wants_block(&self) -> Work<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Mines one block. Returns the number of its transactions beside the coinbase.
    fn make_block(self: Arc<Self>) -> Work<'static, usize> {
        let wants_empty = self.host.config.create_empty_blocks;
        // Connecting a large block takes many milliseconds.
        let mined = tokio::task::spawn_blocking(move || {
            let has_txs = || self.depth().txs > 0;
            (wants_empty || has_txs()).then(|| self.mine().1)
        });
        Box::pin(async { mined.await.ok().flatten().unwrap_or_default() })
    }

    /// A chain that a client generates by itself begins with the client's first block.
    fn begins_with_a_pause(&self) -> bool {
        true
    }

    fn clear_mempool(&self) {
        self.gate.pause(Ledger::clear_pool);
    }

    fn describe(&self, now: &mut Snapshot) {
        {
            let chain = self.chain();
            (now.height, now.base) = (chain.height().into(), chain.base().into());
        }
        let depth = self.depth();
        (now.mempool_txs, now.mempool_bytes) = (depth.txs, depth.bytes);
        now.admission = Some(self.gate.counters());
    }

    /// The ids of its transactions, the coinbase first.
    fn block(&self, height: u64) -> Option<BlockSummary> {
        let chain = self.chain();
        let kept = chain.at(u32::try_from(height).ok()?)?;
        let txs = kept.block.txdata.iter();
        let txs = txs.map(|tx| (tx.compute_txid().to_byte_array(), 0));
        Some(BlockSummary {
            height,
            txs: txs.collect(),
        })
    }

    fn stop(&self) -> Work<'_, ()> {
        Box::pin(async { self.gate.stop() })
    }
}

/// Announcements on their way to a peer at most; 6 s of 10,000/s.
const ANNOUNCEMENTS: usize = 65_536;
