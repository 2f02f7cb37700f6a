//! What every kind of node stands on: its configuration and addresses, its faults and counters, and the loop that
//! makes blocks.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::capacity::Capacity;
use crate::config::Config;
use crate::faults::Faults;

/// What a node has done since it started.
#[derive(Debug, Default)]
pub struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) open_connections: AtomicU64,
    pub(crate) requests: AtomicU64,
    /// Broadcasts received.
    pub broadcasts: AtomicU64,
    /// Broadcasts refused.
    pub refused: AtomicU64,
    pub(crate) committed: AtomicU64,
}

/// What a node has done and where it stands; for tests and the control endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// Newest height.
    pub height: u64,
    /// Lowest height that is kept.
    pub base: u64,
    /// Transactions in the mempool.
    pub mempool_txs: usize,
    /// Their bytes.
    pub mempool_bytes: u64,
    /// Transactions in blocks since the start.
    pub committed: u64,
    /// Broadcasts received since the start.
    pub broadcasts: u64,
    /// Broadcasts that the mempool refused.
    pub refused: u64,
    /// Requests received since the start: HTTP requests and WebSocket messages.
    pub requests: u64,
    /// Connections accepted since the start.
    pub connections: u64,
    /// Connections open now.
    pub open_connections: u64,
    /// Times the node was restarted.
    pub restarts: u64,
    /// What admission did, if the configuration has one.
    pub admission: Option<admission::Counters>,
}

/// The part of a node that does not depend on its kind.
#[derive(Debug)]
pub struct Host {
    pub(crate) config: Config,
    addresses: Vec<(&'static str, SocketAddr)>,
    /// What is wrong with it now.
    pub faults: Faults,
    /// What it has done.
    pub counters: Counters,
    pub(crate) stop: CancellationToken,
}

/// A future that an object-safe trait returns.
pub type Work<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The RPC, at which every kind listens.
pub const RPC: &str = "rpc";

/// A built node.
pub struct Setup {
    /// Its blocks and mempool.
    pub maker: Arc<dyn BlockMaker>,
    /// What serves the connections of each service.
    pub endpoints: Vec<(&'static str, Arc<dyn Endpoint>)>,
}

/// What serves the connections of a listener.
pub trait Endpoint: Send + Sync {
    /// Most connections that are served at a time; more wait in the backlog.
    fn connections(&self) -> usize;

    /// Whether faults concern it and its connections are counted: not those of the control endpoint.
    fn is_of_the_node(&self) -> bool {
        true
    }

    /// Serves a connection until it ends; dropping the future ends it.
    fn serve(self: Arc<Self>, stream: TcpStream, peer: SocketAddr) -> Work<'static, ()>;
}

/// What makes blocks, with its mempool, as the host drives it.
pub trait BlockMaker: Send + Sync {
    /// Waits until the node wants a block: at once where empty ones are made.
    fn wants_block(&self) -> Work<'_, ()>;

    /// Makes a block. Returns the number of its transactions.
    fn make_block(self: Arc<Self>) -> Work<'static, usize>;

    /// Whether the first block waits for the interval.
    fn begins_with_a_pause(&self) -> bool {
        false
    }

    /// Empties the mempool, as a crash does.
    fn clear_mempool(&self);

    /// Adds heights, levels and what admission counted.
    fn describe(&self, now: &mut Snapshot);

    /// A committed block; none if the height is not kept.
    fn block(&self, height: u64) -> Option<BlockSummary>;

    /// Ends what is under way, and its threads.
    fn stop(&self) -> Work<'_, ()>;
}

/// A committed block, for tests that compare with what the chain holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockSummary {
    /// Its height.
    pub height: u64,
    /// Hash and result code of each transaction, in order.
    pub txs: Vec<([u8; 32], u32)>,
}

impl Host {
    /// A host that listens at these addresses, by the names of the services, until it is stopped.
    pub fn new(
        config: Config,
        addresses: Vec<(&'static str, SocketAddr)>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            config,
            addresses,
            faults: Faults::new(),
            counters: Counters::default(),
            stop,
        }
    }

    /// How the node is set up.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where a service listens.
    pub fn address(&self, service: &str) -> Option<SocketAddr> {
        let mut addresses = self.addresses.iter();
        addresses
            .find(|(name, _)| *name == service)
            .map(|(_, address)| *address)
    }

    /// Where the RPC listens.
    pub fn rpc_address(&self) -> SocketAddr {
        let bound = self.address(RPC);
        bound.expect("every node listens for its RPC")
    }

    /// Counters and levels as they are now.
    pub(crate) fn snapshot(&self, maker: &dyn BlockMaker) -> Snapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        let mut now = Snapshot {
            committed: read(&counters.committed),
            broadcasts: read(&counters.broadcasts),
            refused: read(&counters.refused),
            requests: read(&counters.requests),
            connections: read(&counters.connections),
            open_connections: read(&counters.open_connections),
            restarts: self.faults.now().restarts,
            ..Snapshot::default()
        };
        maker.describe(&mut now);
        now
    }

    /// Makes blocks, and empties the mempool with each restart, until the node stops.
    pub(crate) async fn drive(self: Arc<Self>, maker: Arc<dyn BlockMaker>) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = self.produce(&maker) => {}
            () = self.clear_on_restart(&*maker) => {}
        }
    }

    async fn clear_on_restart(&self, maker: &dyn BlockMaker) {
        let mut faults = self.faults.watch();
        let mut restarts = 0;
        while let Ok(state) = faults.wait_for(|state| state.restarts != restarts).await {
            restarts = state.restarts;
            drop(state);
            maker.clear_mempool();
        }
    }

    async fn produce(&self, maker: &Arc<dyn BlockMaker>) {
        let interval = self.config.block_interval;
        let mut capacity = self.config.capacity.clone().map(Capacity::new);
        let mut last_block_at = Instant::now();
        if maker.begins_with_a_pause() {
            tokio::time::sleep(interval).await;
        }
        loop {
            self.wait_for_turn(&**maker).await;
            let txs = Arc::clone(maker).make_block().await;
            let since = last_block_at.elapsed();
            last_block_at = Instant::now();
            let committed = &self.counters.committed;
            committed.fetch_add(txs as u64, Ordering::Relaxed);
            let busy = capacity
                .as_mut()
                .map_or(Duration::ZERO, |capacity| capacity.commit(txs, since));
            tokio::time::sleep_until(last_block_at + interval.max(busy)).await;
        }
    }

    /// Waits until the maker wants a block and no fault prevents it.
    async fn wait_for_turn(&self, maker: &dyn BlockMaker) {
        let mut faults = self.faults.watch();
        loop {
            maker.wants_block().await;
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
}
