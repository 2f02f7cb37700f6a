//! The node of a CometBFT chain: its mempool, its blocks, and the application that executes them.

use std::panic::resume_unwind;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use wire::encoding::hex_text;

use crate::app::{App, Execution, Finalized, Tx};
use crate::chain::store::{Retention, Store};
use crate::chain::{Block, BlockTime, Genesis, Proposal};
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
mod tests {
    use std::net::SocketAddr;
    use std::pin::pin;
    use std::time::Duration;

    use futures_util::poll;
    use tokio::time::{Instant, timeout};
    use tokio_util::sync::CancellationToken;
    use wire::jsonrpc::BroadcastMethod;

    use super::*;
    use crate::app::kvstore::KvStore;
    use crate::config::Config;
    use crate::rpc::{broadcast, get};

    const HOUR: Duration = Duration::from_secs(3600);

    fn client() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 7))
    }

    fn node_on(app: Arc<dyn App>, config: Config) -> Arc<Node> {
        let host = Host::new(config, Vec::new(), CancellationToken::new());
        Node::new(&Arc::new(host), app)
    }

    fn node(config: Config) -> Arc<Node> {
        node_on(Arc::new(KvStore::new(10)), config)
    }

    /// An application that takes an hour for each check.
    fn slow_checks() -> Config {
        Config {
            check_cost: HOUR,
            ..Config::default()
        }
    }

    /// An application that is a process of its own.
    #[derive(Debug)]
    struct BehindSocket;

    impl App for BehindSocket {
        fn check(&self, _tx: &Tx) -> Option<u32> {
            None
        }

        fn is_behind_socket(&self) -> bool {
            true
        }

        fn app_hash(&self) -> Vec<u8> {
            Vec::new()
        }

        fn finalize(&self, _block: Execution<'_>) -> Finalized {
            unreachable!("no block is made")
        }
    }

    async fn send(node: &Arc<Node>, method: BroadcastMethod, tx: &str) -> Result<Vec<u8>, String> {
        broadcast(node, method, tx.as_bytes().to_vec(), client()).await
    }

    /// Sends a transaction and leaves before the answer.
    async fn send_and_leave(node: &Arc<Node>, tx: &str) {
        let sending = send(node, BroadcastMethod::Sync, tx);
        let answer = timeout(Duration::from_secs(1), sending).await;
        assert!(answer.is_err(), "the check takes an hour");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_leaves_before_its_answer_leaves_its_transaction_to_the_check() {
        let node = node(slow_checks());
        send_and_leave(&node, "a=1").await;
        tokio::time::sleep(2 * HOUR).await;
        assert_eq!(node.mempool.depth().txs, 1);
        let again = send(&node, BroadcastMethod::Sync, "a=1").await;
        assert_eq!(again.unwrap_err(), "tx already exists in cache");
    }

    #[tokio::test(start_paused = true)]
    async fn checks_are_bounded_though_their_clients_leave() {
        let mut config = slow_checks();
        config.rpc.max_open_connections = 2;
        let node = node(config);
        for tx in ["a=1", "b=1", "c=1"] {
            send_and_leave(&node, tx).await;
        }
        tokio::time::sleep(4 * HOUR).await;
        assert_eq!(node.mempool.depth().txs, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn async_waits_for_the_check_of_an_application_inside_the_node_but_not_behind_a_socket() {
        let apps: [(Arc<dyn App>, u64); 2] =
            [(Arc::new(KvStore::new(10)), 1), (Arc::new(BehindSocket), 0)];
        for (app, hours) in apps {
            let node = node_on(app, slow_checks());
            let start = Instant::now();
            send(&node, BroadcastMethod::Async, "a=1").await.unwrap();
            assert_eq!(
                start.elapsed().as_secs() / HOUR.as_secs(),
                hours,
                "{node:?}"
            );
            // What the queue's side of the mempool refuses is refused at once by both.
            let again = send(&node, BroadcastMethod::Async, "a=1").await;
            assert_eq!(again.unwrap_err(), "tx already exists in cache");
        }
    }

    /// The one thread for long work is busy, so a request that reads a whole block has to wait, and the thread
    /// that serves goes on.
    #[test]
    fn whole_blocks_are_not_read_on_the_threads_that_serve() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        for name in ["block", "block_results", "tx"] {
            let (release, held) = std::sync::mpsc::channel::<()>();
            runtime.block_on(async {
                let node = node(Config::default());
                let holding = tokio::task::spawn_blocking(move || held.recv());
                let ask = |name: &'static str| get(&node, client(), name);
                let mut asking = pin!(ask(name));
                assert!(poll!(asking.as_mut()).is_pending(), "{name}");
                assert!(poll!(pin!(ask("status"))).is_ready());
                release.send(()).unwrap();
                holding.await.unwrap().unwrap();
                assert!(!asking.await.is_empty());
            });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_block_is_announced_after_its_transactions_were_executed_one_after_the_other() {
        let node = node(Config {
            execute_cost: Duration::from_millis(100),
            ..Config::default()
        });
        for tx in ["a=1", "b=2"] {
            send(&node, BroadcastMethod::Sync, tx).await.unwrap();
        }
        let begin = Instant::now();
        assert_eq!(Arc::clone(&node).commit_block().await, 2);
        let took = begin.elapsed();
        let expected = Duration::from_millis(200)..Duration::from_millis(250);
        assert!(expected.contains(&took), "{took:?}");
        let begin = Instant::now();
        assert_eq!(Arc::clone(&node).commit_block().await, 0);
        assert!(begin.elapsed() < Duration::from_millis(50));
    }
}
