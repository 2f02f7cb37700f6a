//! The node: its chain, its mempool behind a gate, and what it tells its peers of.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use base64_simd::STANDARD;
use bitcoin::{BlockHash, ScriptBuf, Txid};
use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::broadcast;

use super::block;
use super::chain::Chain;
use super::ledger::{Depth, Ledger, now};
use super::rules::{self, Rules};
use crate::app::admission::Gate;
use crate::config::{AdmissionMode, BitcoinConfig, Config, MempoolConfig, cores};

/// What a node tells its peers of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Announcement {
    /// A transaction that was accepted, and the peer that sent it.
    Tx(Txid, Option<u64>),
    /// A block.
    Block(BlockHash),
}

/// The node.
#[derive(Debug)]
pub(crate) struct Bitcoin {
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
    /// Transactions that clients sent, and those of them that were refused.
    pub(crate) broadcasts: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// To the sessions of all peers.
    pub(super) announcements: broadcast::Sender<Announcement>,
    /// How long what is accepted waits to be announced with others.
    pub(super) trickle: Duration,
}

impl Bitcoin {
    pub(crate) fn new(config: &Config) -> Self {
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
            broadcasts: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            announcements: broadcast::Sender::new(ANNOUNCEMENTS),
            trickle: config.bitcoin.trickle,
        }
    }

    /// Tells the peers. Without any there is nobody to hear it.
    pub(super) fn announce(&self, announcement: Announcement) {
        let _ = self.announcements.send(announcement);
    }

    pub(super) fn chain(&self) -> RwLockReadGuard<'_, Chain> {
        self.chain.read()
    }

    /// Mines a block of the oldest transactions. Returns its hash and how many it has beside the coinbase.
    pub(crate) fn mine(&self) -> (BlockHash, usize) {
        let mined = self.gate.pause(|ledger| {
            let mut chain = self.chain.write();
            let txs = ledger.take_for_block(self.max_block_bytes);
            let count = txs.len();
            let block = block::mine(&chain, txs, self.payout.clone(), now());
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

    pub(crate) fn clear_mempool(&self) {
        self.gate.pause(Ledger::clear_pool);
    }

    pub(crate) fn depth(&self) -> Depth {
        self.gate.pause(|ledger| ledger.pool().depth())
    }

    /// Newest height, and the lowest whose block is kept.
    pub(crate) fn heights(&self) -> (u64, u64) {
        let chain = self.chain();
        (chain.height().into(), chain.base().into())
    }

    /// Ids of a block's transactions, the coinbase first; none if the block is not kept.
    pub(crate) fn block_ids(&self, height: u64) -> Option<Vec<Txid>> {
        let chain = self.chain();
        let kept = chain.at(u32::try_from(height).ok()?)?;
        Some(
            kept.block
                .txdata
                .iter()
                .map(|tx| tx.compute_txid())
                .collect(),
        )
    }

    pub(crate) fn admission(&self) -> admission::Counters {
        self.gate.counters()
    }

    pub(crate) fn stop(&self) {
        self.gate.stop();
    }
}

/// Announcements on their way to a peer at most; 6 s of 10,000/s.
const ANNOUNCEMENTS: usize = 65_536;
