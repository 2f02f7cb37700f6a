//! The node's shared state and the making of blocks.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wire::encoding::hex_text;
use wire::json::write as json;

use crate::app::{App, Execution, Finalized, kvstore};
use crate::capacity::Capacity;
use crate::chain::block::{self, Block, Proposal, Tx};
use crate::chain::genesis::Genesis;
use crate::chain::header::BlockId;
use crate::chain::merkle::sha256;
use crate::chain::render;
use crate::chain::store::{Retention, Store};
use crate::chain::time::BlockTime;
use crate::chain::validator::{POWER, address};
use crate::config::{Application, Config};
use crate::events::bus::{Bus, Committed};
use crate::faults::{FailedExecution, Faults};
use crate::mempool::{Limits, Mempool};
use crate::rpc::methods::results;

/// Events of single transactions after which the publisher lets subscribers' connections write.
const EVENTS_AT_ONCE: usize = 100;

/// What a node has done since it started; for tests and the control endpoint.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) open_connections: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) broadcasts: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) committed: AtomicU64,
}

/// Where BigchainDB's two servers listen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BigchaindbAddresses {
    pub(crate) api: SocketAddr,
    pub(crate) events: SocketAddr,
}

/// Everything the parts of a node share.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) config: Config,
    pub(crate) genesis: Genesis,
    pub(crate) node_id: String,
    pub(crate) rpc_address: SocketAddr,
    /// Where BigchainDB's HTTP API and event stream listen, if the node has them.
    pub(crate) bigchaindb: Option<BigchaindbAddresses>,
    pub(crate) mempool: Mempool,
    pub(crate) bus: Bus,
    pub(crate) faults: Faults,
    pub(crate) counters: Counters,
    pub(crate) app: App,
    store: RwLock<Store>,
}

impl Node {
    pub(crate) fn new(
        config: Config,
        rpc_address: SocketAddr,
        bigchaindb: Option<BigchaindbAddresses>,
    ) -> Self {
        let genesis = Genesis::new(&config.chain_id, config.max_block_bytes, BlockTime::now());
        let limits = Limits {
            config: config.mempool.clone(),
            max_data_bytes: genesis.max_data_bytes(),
            check_cost: config.check_cost,
            recheck_cost: config.recheck_cost,
        };
        let id = address(&sha256(
            format!("devnode {} of {}", config.moniker, config.chain_id).as_bytes(),
        ));
        Self {
            node_id: hex_text(&id).to_lowercase(),
            mempool: Mempool::new(limits),
            bus: Bus::new(config.rpc.clone()),
            faults: Faults::new(),
            counters: Counters::default(),
            app: App::new(&config, (&genesis.validator.public, POWER)),
            store: RwLock::new(Store::new(
                Retention {
                    blocks: config.retain_blocks,
                    bytes: config.retain_bytes,
                },
                config.tx_index,
            )),
            genesis,
            rpc_address,
            bigchaindb,
            config,
        }
    }

    pub(crate) fn store(&self) -> RwLockReadGuard<'_, Store> {
        self.store.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn store_mut(&self) -> RwLockWriteGuard<'_, Store> {
        self.store.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes blocks until the node stops.
    pub(crate) async fn produce(self: Arc<Self>, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.produce_forever() => {}
        }
    }

    /// Empties the mempool whenever the node starts again.
    pub(crate) async fn forget_on_restart(self: Arc<Self>, stop: CancellationToken) {
        let mut faults = self.faults.watch();
        let mut restarts = 0;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                changed = faults.wait_for(|state| state.restarts != restarts) => {
                    let Ok(state) = changed else { return };
                    restarts = state.restarts;
                }
            }
            self.mempool.clear();
        }
    }

    async fn produce_forever(self: &Arc<Self>) {
        let mut capacity = self.config.capacity.clone().map(Capacity::new);
        let mut last_block_at = Instant::now();
        loop {
            self.wait_for_turn().await;
            let txs = self.commit_block().await;
            let since = last_block_at.elapsed();
            last_block_at = Instant::now();
            let busy = capacity
                .as_mut()
                .map_or(Duration::ZERO, |capacity| capacity.commit(txs, since));
            tokio::time::sleep_until(last_block_at + self.config.block_interval.max(busy)).await;
        }
    }

    /// Waits until nothing speaks against a block.
    async fn wait_for_turn(&self) {
        let mut faults = self.faults.watch();
        loop {
            if !self.config.create_empty_blocks && !self.owes_proof() {
                self.mempool.available().await;
            }
            let state = faults.borrow_and_update().clone();
            let until = state
                .stalled_until
                .max(state.down_until)
                .filter(|until| *until > Instant::now());
            if until.is_none() && !state.halted {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {}
                changed = faults.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Whether the next block is due for the proof of what the last one did (`needProofBlock` in
    /// `consensus/state.go`): the first is, and one after a change of the application.
    pub(crate) fn owes_proof(&self) -> bool {
        self.store()
            .latest()
            .is_none_or(|block| block.header.app_hash != block.app_hash)
    }

    /// Makes, signs, executes and publishes one block. Returns the number of its transactions.
    async fn commit_block(self: &Arc<Self>) -> usize {
        let reaped = self.mempool.reap(
            self.genesis.max_data_bytes(),
            self.config.max_block_txs.unwrap_or(usize::MAX),
        );
        let failing = self.faults.now().failing;
        let node = Arc::clone(self);
        // Hashing a large block takes many milliseconds, too long for a thread that serves clients.
        let Ok((block, finalized)) =
            tokio::task::spawn_blocking(move || node.execute(&reaped, failing.as_ref())).await
        else {
            return 0;
        };
        let block = Arc::new(block);
        let update = self.mempool.update().await;
        let node = Arc::clone(self);
        // So is adding ten thousand transactions to a ledger.
        let Ok(news) = tokio::task::spawn_blocking(move || node.app.commit(finalized)).await else {
            return 0;
        };
        self.store_mut().push(Arc::clone(&block));
        update.remove_committed(&block.txs, |index| results::code(&block, index) == 0);
        update.recheck(&self.app).await;
        drop(update);
        self.counters
            .committed
            .fetch_add(block.txs.len() as u64, Ordering::Relaxed);
        self.app.publish(news);
        self.publish(&block).await;
        block.txs.len()
    }

    fn execute(&self, reaped: &[Tx], failing: Option<&FailedExecution>) -> (Block, Finalized) {
        // The key-value application rewrites `:` to `=`, which gives the transaction another hash:
        // the original then stays in the mempool, as it does in CometBFT 0.38.
        let txs: Vec<Tx> = reaped.iter().map(|tx| self.app.prepared(tx)).collect();
        let failing: Vec<(u32, u32)> = failing.map_or_else(Vec::new, |failing| {
            let fails = |(index, tx): (u32, &Tx)| {
                tx.bytes
                    .starts_with(failing.prefix.as_bytes())
                    .then_some((index, failing.code))
            };
            (0..).zip(&txs).filter_map(fails).collect()
        });
        let (height, previous) = {
            let store = self.store();
            let first_app_hash = self.app.app_hash();
            (
                store.height() + 1,
                store.previous(&self.genesis, &first_app_hash),
            )
        };
        let mut built = block::build(
            &self.genesis,
            Proposal {
                height,
                txs,
                previous,
                app_version: kvstore::APP_VERSION,
            },
        );
        let commit = block::commit(&self.genesis, &built, BlockTime::now());
        let mut finalized = self.app.finalize(Execution {
            height,
            txs: &built.txs,
            failing,
        });
        for tx in &mut built.txs {
            tx.effect = None;
        }
        let block = Block {
            header: built.header,
            id: built.id,
            size: built.size,
            txs: built.txs,
            failed: std::mem::take(&mut finalized.failed),
            last_commit: built.last_commit,
            commit,
            app_hash: finalized.app_hash.clone(),
            validator_updates: finalized.validator_updates.clone(),
            app: self.app.kind(),
        };
        (block, finalized)
    }

    /// Tells subscribers and waiting calls of a block, in the original's order.
    async fn publish(&self, block: &Block) {
        for (event, content) in [
            ("NewBlock", new_block as fn(&Block) -> Vec<u8>),
            ("NewBlockHeader", new_block_header),
            ("NewBlockEvents", new_block_events),
        ] {
            if self.bus.anyone_wants(event) {
                self.bus
                    .publish(&[("tm.event", vec![event])], || content(block));
            }
        }
        let waits = self.bus.anyone_waits();
        let wanted = self.bus.anyone_wants("Tx");
        if !waits && !wanted {
            return;
        }
        for (index, tx) in block.txs.iter().enumerate() {
            if wanted {
                self.publish_tx(block, index, tx);
                if index % EVENTS_AT_ONCE == EVENTS_AT_ONCE - 1 {
                    tokio::task::yield_now().await;
                }
            }
            if waits {
                let committed = Committed {
                    height: block.header.height,
                    code: results::code(block, index),
                };
                self.bus.committed(&tx.hash, committed);
            }
        }
    }

    fn publish_tx(&self, block: &Block, index: usize, tx: &Tx) {
        let hash = hex_text(&tx.hash);
        let height = block.header.height.to_string();
        let code = results::code(block, index);
        let pair = events_of(block, index);
        let mut tags = vec![
            ("tm.event", vec!["Tx"]),
            ("tx.hash", vec![hash.as_str()]),
            ("tx.height", vec![height.as_str()]),
        ];
        if let Some((key, value)) = &pair {
            tags.push(("app.creator", vec!["Cosmoshi Netowoko", "Cosmoshi"]));
            tags.push(("app.key", vec![key, value]));
            tags.push(("app.index_key", vec!["index is working"; 2]));
            tags.push(("app.noindex_key", vec!["index is working"; 2]));
        }
        self.bus.publish(&tags, || {
            let mut out = Vec::with_capacity(1024);
            json::raw(
                &mut out,
                r#""data":{"type":"tendermint/event/Tx","value":{"TxResult":{"height":"#,
            );
            json::int_text(&mut out, block.header.height);
            if index > 0 {
                json::raw(&mut out, r#","index":"#);
                json::int(&mut out, index);
            }
            json::raw(&mut out, r#","tx":"#);
            json::base64(&mut out, &tx.bytes);
            json::raw(&mut out, r#","result":"#);
            results::sparse_tx_result(&mut out, block.app, &tx.bytes, code);
            json::raw(&mut out, "}}},");
            write_tags(&mut out, &tags);
            out
        });
    }
}

/// Key and value in the events of a transaction, if it has events.
pub(crate) fn events_of(block: &Block, index: usize) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let has_events = block.app == Application::Kvstore && results::code(block, index) == 0;
    let tx = block.txs.get(index).filter(|_| has_events)?;
    let (key, value) = kvstore::event_pair(&tx.bytes);
    Some((String::from_utf8_lossy(key), String::from_utf8_lossy(value)))
}

fn write_tags(out: &mut Vec<u8>, tags: &[(&str, Vec<&str>)]) {
    json::raw(out, r#""events":{"#);
    for (position, (tag, values)) in tags.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        json::string(out, tag);
        out.push(b':');
        json::array(out, values, |out, value| json::string(out, value));
    }
    out.push(b'}');
}

fn new_block(block: &Block) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    json::raw(
        &mut out,
        r#""data":{"type":"tendermint/event/NewBlock","value":{"block":"#,
    );
    render::block(&mut out, block);
    json::raw(&mut out, r#","block_id":"#);
    let id: &BlockId = &block.id;
    render::block_id(&mut out, id);
    json::raw(&mut out, r#","result_finalize_block":"#);
    results::finalize_block(&mut out, block);
    json::raw(&mut out, r#"}},"events":{"tm.event":["NewBlock"]}"#);
    out
}

fn new_block_header(block: &Block) -> Vec<u8> {
    let mut out = Vec::with_capacity(2048);
    json::raw(
        &mut out,
        r#""data":{"type":"tendermint/event/NewBlockHeader","value":{"header":"#,
    );
    render::header(&mut out, &block.header);
    json::raw(&mut out, r#"}},"events":{"tm.event":["NewBlockHeader"]}"#);
    out
}

fn new_block_events(block: &Block) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    json::raw(
        &mut out,
        r#""data":{"type":"tendermint/event/NewBlockEvents","value":{"height":"#,
    );
    json::int_text(&mut out, block.header.height);
    json::raw(&mut out, r#","events":null,"num_txs":"#);
    json::int_text(&mut out, block.txs.len());
    json::raw(&mut out, r#"}},"events":{"tm.event":["NewBlockEvents"]}"#);
    out
}
