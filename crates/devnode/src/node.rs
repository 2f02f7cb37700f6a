//! The node of a CometBFT chain: its mempool, its blocks, and the application that executes them.

use std::panic::resume_unwind;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use wire::encoding::hex_text;

use crate::app::{App, Execution, Finalized, Tx};
use crate::chain::block::BlockTime;
use crate::chain::block::{Block, Proposal};
use crate::chain::genesis::Genesis;
use crate::chain::store::{Retention, Store};
use crate::events::{Bus, Wait};
use crate::faults::FailedExecution;
use crate::hash::{Hash, sha256};
use crate::host::{BlockMaker, BlockSummary, Host, Snapshot, Work};
use crate::mempool::{Limits, Mempool};

/// Everything the parts of the node share.
#[derive(Debug)]
pub struct Node {
    pub(crate) host: Arc<Host>,
    pub(crate) genesis: Genesis,
    pub(crate) node_id: String,
    pub(crate) mempool: Mempool,
    pub(crate) bus: Bus,
    pub(crate) app: Arc<dyn App>,
    store: RwLock<Store>,
    /// Places for checks under way. Each begins for an open connection, but outlives one that is
    /// closed, so that connections alone bound them no longer.
    checks: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl Node {
    /// A node whose blocks are executed on this application.
    pub fn new(host: &Arc<Host>, app: Arc<dyn App>) -> Arc<Self> {
        let config = &host.config;
        let genesis = Genesis::new(config, BlockTime::now());
        let limits = Limits {
            config: config.mempool.clone(),
            max_data_bytes: genesis.max_data_bytes(),
            check_cost: config.check_cost,
            recheck_cost: config.recheck_cost,
        };
        let retention = Retention {
            blocks: config.retain_blocks,
            bytes: config.retain_bytes,
        };
        let id = sha256(format!("devnode {} of {}", config.moniker, config.chain_id).as_bytes());
        Arc::new(Self {
            node_id: hex_text(&id[..20]).to_lowercase(),
            mempool: Mempool::new(limits),
            bus: Bus::new(config.rpc.clone()),
            app,
            store: RwLock::new(Store::new(retention, config.tx_index)),
            genesis,
            checks: Arc::new(Semaphore::new(config.rpc.max_open_connections)),
            tasks: TaskTracker::new(),
            host: Arc::clone(host),
        })
    }

    /// Carries a check to its end, also if the client that waits for it goes, as a real node does.
    ///
    /// # Cancel safety
    /// Before there is a place for it nothing is done; after that all is.
    pub async fn finish<T: Send + 'static>(
        self: &Arc<Self>,
        check: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let place = Arc::clone(&self.checks).acquire_owned().await;
        let stop = self.host.stop.clone();
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

    /// Reads what may take many milliseconds, such as a whole block, on another thread than those
    /// that serve clients.
    pub async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let node = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || read(&node));
        let read = task.await;
        read.unwrap_or_else(|error| resume_unwind(error.into_panic()))
    }

    /// What the node stands on.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// The public key of its validator.
    pub fn validator(&self) -> &[u8; 32] {
        &self.genesis.validator
    }

    /// A committed block; none if the height is not kept.
    pub fn block_at(&self, height: u64) -> Option<Arc<Block>> {
        self.store().block(height).cloned()
    }

    /// Waits for a transaction on behalf of a part of the node itself, outside all limits: the caller has a bound
    /// of its own.
    pub fn wait_inside(&self, hash: &Hash) -> Wait {
        self.bus.wait_inside(hash)
    }

    pub(crate) fn store(&self) -> RwLockReadGuard<'_, Store> {
        self.store.read()
    }

    /// Whether the next block is due for the proof of what the last one did (`needProofBlock` in
    /// `consensus/state.go`): the first is, and one after a change of the application.
    fn needs_proof_block(&self) -> bool {
        self.store()
            .latest()
            .is_none_or(|block| block.header.app_hash != block.app_hash)
    }

    /// Makes, executes and publishes one block. Returns the number of its transactions.
    async fn commit_block(self: Arc<Self>) -> usize {
        let config = &self.host.config;
        let most = config.max_block_txs.unwrap_or(usize::MAX);
        let mut reaped = self.mempool.reap(self.genesis.max_data_bytes(), most);
        if let Some(most) = config.max_block_gas {
            fit_gas(&*self.app, &mut reaped, most);
        }
        let failing = self.host.faults.now().failing;
        let node = Arc::clone(&self);
        // Hashing a large block takes many milliseconds, too long for a thread that serves clients.
        let Ok((block, commit)) =
            tokio::task::spawn_blocking(move || node.execute(reaped, failing.as_ref())).await
        else {
            return 0;
        };
        let block = Arc::new(block);
        let txs = u32::try_from(block.txs.len()).unwrap_or(u32::MAX);
        tokio::time::sleep(config.execute_cost.saturating_mul(txs)).await;
        let update = self.mempool.update().await;
        // So is adding ten thousand transactions to a ledger.
        let Ok(publish) = tokio::task::spawn_blocking(commit).await else {
            return 0;
        };
        self.store.write().push(Arc::clone(&block));
        update.remove_committed(&block.txs, |index| block.code(index) == 0);
        update.recheck(&*self.app).await;
        update.show_to(&*self.app);
        drop(update);
        if let Some(publish) = publish {
            publish();
        }
        self.bus.publish(&*self.app, &block).await;
        block.txs.len()
    }

    fn execute(&self, txs: Vec<Tx>, failing: Option<&FailedExecution>) -> (Block, Commit) {
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
                height: store.height() + 1,
                txs,
                previous: store.previous(&self.app.app_hash()),
            }
        };
        let mut block = Block::new(&self.genesis, proposal, BlockTime::now());
        let Finalized {
            failed,
            outcomes,
            app_hash,
            commit,
        } = self.app.finalize(Execution {
            height: block.header.height,
            txs: &block.txs,
            failing,
        });
        for tx in &mut block.txs {
            tx.learnt = None;
        }
        (block.failed, block.outcomes, block.app_hash) = (failed, outcomes, app_hash);
        (block, commit)
    }
}

type Commit = Box<dyn FnOnce() -> crate::app::Publish + Send>;

/// Leaves the first transactions that want at most so much gas together.
fn fit_gas(app: &dyn App, txs: &mut Vec<Tx>, most: u64) {
    let mut wanted = 0_u64;
    let too_much = txs.iter().position(|tx| {
        wanted = wanted.saturating_add(app.gas_wanted(tx));
        wanted > most
    });
    txs.truncate(too_much.unwrap_or(txs.len()));
}

impl BlockMaker for Node {
    fn wants_block(&self) -> Work<'_, ()> {
        Box::pin(async {
            if !self.host.config.create_empty_blocks && !self.needs_proof_block() {
                self.mempool.available().await;
            }
        })
    }

    fn make_block(self: Arc<Self>) -> Work<'static, usize> {
        Box::pin(self.commit_block())
    }

    fn clear_mempool(&self) {
        self.mempool.clear();
    }

    fn describe(&self, now: &mut Snapshot) {
        {
            let store = self.store();
            (now.height, now.base) = (store.height(), store.base());
        }
        let depth = self.mempool.depth();
        (now.mempool_txs, now.mempool_bytes) = (depth.txs, depth.bytes);
        now.admission = self.app.admission();
    }

    fn block(&self, height: u64) -> Option<BlockSummary> {
        let block = self.store().block(height).cloned()?;
        let txs = block.txs.iter().enumerate();
        let txs = txs.map(|(index, tx)| (tx.hash, block.code(index)));
        Some(BlockSummary {
            height,
            txs: txs.collect(),
        })
    }

    fn stop(&self) -> Work<'_, ()> {
        Box::pin(async {
            self.tasks.close();
            self.tasks.wait().await;
            self.app.stop();
        })
    }
}

#[cfg(test)]
mod tests;
