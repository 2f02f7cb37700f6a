//! The node's shared state and the making of blocks.

use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::encoding::hex_text;

use crate::app::{App, Execution, Finalized};
use crate::bitcoin::Bitcoin;
use crate::capacity::Capacity;
use crate::chain::block::{Block, Proposal, Tx};
use crate::chain::genesis::Genesis;
use crate::chain::merkle::sha256;
use crate::chain::store::{Retention, Store};
use crate::chain::time::BlockTime;
use crate::chain::validator::{POWER, address};
use crate::config::{Application, Config};
use crate::events::bus::Bus;
use crate::events::publish::publish;
use crate::faults::{FailedExecution, Faults};
use crate::mempool::{Limits, Mempool};

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

/// Where the node listens: BigchainDB's two servers if it is the application, the control endpoint if
/// it was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) rpc: SocketAddr,
    pub(crate) api: Option<SocketAddr>,
    pub(crate) events: Option<SocketAddr>,
    pub(crate) control: Option<SocketAddr>,
    pub(crate) peers: Option<SocketAddr>,
}

/// Everything the parts of a node share.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) config: Config,
    pub(crate) genesis: Genesis,
    pub(crate) node_id: String,
    pub(crate) addresses: Addresses,
    pub(crate) mempool: Mempool,
    pub(crate) bus: Bus,
    pub(crate) faults: Faults,
    pub(crate) counters: Counters,
    pub(crate) app: App,
    /// The node of Bitcoin that is served in place of this one, if it is the application.
    pub(crate) bitcoin: Option<Arc<Bitcoin>>,
    store: RwLock<Store>,
    /// Places for checks under way. Each begins for an open connection, but outlives one that is
    /// closed, so that connections alone bound them no longer.
    checks: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Node {
    pub(crate) fn new(config: Config, addresses: Addresses, stop: CancellationToken) -> Self {
        let genesis = Genesis::new(&config, BlockTime::now());
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
            bitcoin: (config.app == Application::Bitcoin).then(|| Arc::new(Bitcoin::new(&config))),
            store: RwLock::new(Store::new(
                Retention {
                    blocks: config.retain_blocks,
                    bytes: config.retain_bytes,
                },
                config.tx_index,
            )),
            genesis,
            addresses,
            checks: Arc::new(Semaphore::new(config.rpc.max_open_connections)),
            tasks: TaskTracker::new(),
            stop,
            config,
        }
    }

    /// Carries a check to its end, also if the client that waits for it goes, as a real node does.
    ///
    /// # Cancel safety
    /// Before there is a place for it nothing is done; after that all is.
    pub(crate) async fn finish<T: Send + 'static>(
        self: &Arc<Self>,
        check: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let place = Arc::clone(&self.checks).acquire_owned().await;
        let stop = self.stop.clone();
        let task = self.tasks.spawn(async move {
            let _place = place;
            stop.run_until_cancelled(check).await
        });
        match task.await {
            Ok(Some(checked)) => checked,
            // The node stops, and with it the connection that waits here.
            Ok(None) => std::future::pending().await,
            Err(error) => resume_unwind(error.into_panic()),
        }
    }

    /// Waits for the checks under way to end with the node.
    pub(crate) async fn finished(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Reads what may take many milliseconds, such as a whole block, on another thread than those
    /// that serve clients.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let node = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || read(&node));
        let read = task.await;
        read.unwrap_or_else(|error| resume_unwind(error.into_panic()))
    }

    pub(crate) fn store(&self) -> RwLockReadGuard<'_, Store> {
        self.store.read()
    }

    fn store_mut(&self) -> RwLockWriteGuard<'_, Store> {
        self.store.write()
    }

    /// Makes blocks until the node stops.
    pub(crate) async fn produce(self: Arc<Self>, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.produce_forever() => {}
        }
    }

    /// Empties the mempool whenever the node starts again.
    pub(crate) async fn clear_mempool_on_restart(self: Arc<Self>, stop: CancellationToken) {
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
            if let Some(bitcoin) = &self.bitcoin {
                bitcoin.clear_mempool();
            }
        }
    }

    async fn produce_forever(self: &Arc<Self>) {
        let mut capacity = self.config.capacity.clone().map(Capacity::new);
        let mut last_block_at = Instant::now();
        if self.bitcoin.is_some() {
            // A chain that a client generates by itself begins with the client's first block.
            tokio::time::sleep(self.config.block_interval).await;
        }
        loop {
            self.wait_for_turn().await;
            let txs = match &self.bitcoin {
                Some(bitcoin) => self.mine(bitcoin).await,
                None => self.commit_block().await,
            };
            let since = last_block_at.elapsed();
            last_block_at = Instant::now();
            let busy = capacity
                .as_mut()
                .map_or(Duration::ZERO, |capacity| capacity.commit(txs, since));
            tokio::time::sleep_until(last_block_at + self.config.block_interval.max(busy)).await;
        }
    }

    /// Waits until no fault prevents a block.
    async fn wait_for_turn(&self) {
        let mut faults = self.faults.watch();
        loop {
            let waits = !self.config.create_empty_blocks && self.bitcoin.is_none();
            if waits && !self.needs_proof_block() {
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
    pub(crate) fn needs_proof_block(&self) -> bool {
        self.store()
            .latest()
            .is_none_or(|block| block.header.app_hash != block.app_hash)
    }

    /// Mines one block of Bitcoin. Returns the number of its transactions beside the coinbase.
    async fn mine(&self, bitcoin: &Arc<Bitcoin>) -> usize {
        let bitcoin = Arc::clone(bitcoin);
        let wants_empty = self.config.create_empty_blocks;
        // Connecting a large block takes many milliseconds.
        let mined = tokio::task::spawn_blocking(move || {
            let has_txs = || bitcoin.depth().txs > 0;
            (wants_empty || has_txs()).then(|| bitcoin.mine().1)
        });
        let txs = mined.await.ok().flatten().unwrap_or_default();
        self.counters
            .committed
            .fetch_add(txs as u64, Ordering::Relaxed);
        txs
    }

    /// Makes, signs, executes and publishes one block. Returns the number of its transactions.
    async fn commit_block(self: &Arc<Self>) -> usize {
        let mut reaped = self.mempool.reap(
            self.genesis.max_data_bytes(),
            self.config.max_block_txs.unwrap_or(usize::MAX),
        );
        if let Some(most) = self.config.max_block_gas {
            self.app.fit_gas(&mut reaped, most);
        }
        let failing = self.faults.now().failing;
        let node = Arc::clone(self);
        // Hashing a large block takes many milliseconds, too long for a thread that serves clients.
        let Ok((block, finalized)) =
            tokio::task::spawn_blocking(move || node.execute(&reaped, failing.as_ref())).await
        else {
            return 0;
        };
        let block = Arc::new(block);
        let txs = u32::try_from(block.txs.len()).unwrap_or(u32::MAX);
        tokio::time::sleep(self.config.execute_cost.saturating_mul(txs)).await;
        let update = self.mempool.update().await;
        let node = Arc::clone(self);
        // So is adding ten thousand transactions to a ledger.
        let Ok(news) = tokio::task::spawn_blocking(move || node.app.commit(finalized)).await else {
            return 0;
        };
        self.store_mut().push(Arc::clone(&block));
        update.remove_committed(&block.txs, |index| block.code(index) == 0);
        update.recheck(&self.app).await;
        update.show_to(&self.app);
        drop(update);
        self.counters
            .committed
            .fetch_add(block.txs.len() as u64, Ordering::Relaxed);
        self.app.publish(news);
        publish(&self.bus, &block).await;
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
        let proposal = {
            let store = self.store();
            Proposal {
                app: self.app.kind(),
                height: store.height() + 1,
                txs,
                previous: store.previous(&self.app.app_hash()),
            }
        };
        let mut block = Block::new(&self.genesis, proposal, BlockTime::now());
        let mut finalized = self.app.finalize(Execution {
            height: block.header.height,
            txs: &block.txs,
            failing,
        });
        for tx in &mut block.txs {
            tx.effect = None;
        }
        block.failed = std::mem::take(&mut finalized.failed);
        block.outcomes = std::mem::take(&mut finalized.outcomes);
        block.app_hash = finalized.app_hash.clone();
        block.validator_updates = finalized.validator_updates.clone();
        (block, finalized)
    }
}

#[cfg(test)]
mod tests;
