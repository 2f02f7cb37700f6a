//! What every kind of node stands on: its configuration and addresses, its faults and counters, and the loop that
//! makes blocks.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::capacity::Capacity;
use crate::config::Config;
use crate::faults::Faults;
use crate::handle::BlockSummary;
use crate::server::Endpoint;
use crate::snapshot::Snapshot;

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

/// The part of a node that does not depend on its kind.
#[derive(Debug)]
pub struct Host {
    pub(crate) config: Config,
    addresses: Vec<(&'static str, SocketAddr)>,
    pub(crate) faults: Faults,
    pub(crate) counters: Counters,
    pub(crate) stop: CancellationToken,
}

/// A future that an object-safe trait returns.
pub type Work<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A kind of node: where it listens, and how it is built.
pub trait Kind {
    /// Where it listens beside [`RPC`], each by the name of the service.
    fn listens(&self, _config: &Config) -> Vec<(&'static str, SocketAddr)> {
        Vec::new()
    }

    /// Builds the node, with an endpoint for each name.
    fn build(&self, host: &Arc<Host>) -> Setup;
}

impl<F: Fn(&Arc<Host>) -> Setup> Kind for F {
    fn build(&self, host: &Arc<Host>) -> Setup {
        self(host)
    }
}

/// The RPC, at which every kind listens.
pub const RPC: &str = "rpc";

/// A built node.
pub struct Setup {
    /// Its blocks and mempool.
    pub maker: Arc<dyn BlockMaker>,
    /// What serves the connections of each service.
    pub endpoints: Vec<(&'static str, Arc<dyn Endpoint>)>,
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

    /// Adds heights, levels and counters.
    fn describe(&self, now: &mut Snapshot);

    /// A committed block; none if the height is not kept.
    fn block(&self, height: u64) -> Option<BlockSummary>;

    /// Ends what is under way, and its threads.
    fn stop(&self) -> Work<'_, ()>;
}

impl Host {
    pub(crate) fn new(
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
