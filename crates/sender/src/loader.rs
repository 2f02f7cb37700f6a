//! The threads that load a chain behind an object-safe trait.

use std::io;

use measure::RefusalTexts;
use parking_lot::Mutex;

use crate::protocol::Protocol;
use crate::shard::{self, Orders, ShardChannels, ShardConfig};
use crate::source::{self, Ring, SourceConfig, SourceThread};

/// A protocol with the threads that load it. Each protocol is one: the code behind it is compiled, and optimised,
/// in the chain's crate.
pub trait Loader: Send + Sync {
    /// Starts the source of one shard. Its threads end when the ring is dropped or the supply is used up.
    ///
    /// # Errors
    /// When no thread can be started.
    fn start_source(&self, config: SourceConfig) -> io::Result<(Ring, Vec<SourceThread>)>;

    /// Runs one shard to its end, on the calling thread.
    ///
    /// # Errors
    /// When the system refuses an epoll set, or no connection could be opened before the start.
    fn run_shard(
        &self,
        config: ShardConfig,
        ring: Ring,
        channels: ShardChannels,
        orders: &Orders,
    ) -> io::Result<()>;

    /// Counters of refusal messages and of unusable answers, shared by all threads.
    fn texts(&self) -> Option<&Mutex<RefusalTexts>>;
}

impl<P: Protocol> Loader for P {
    fn start_source(&self, config: SourceConfig) -> io::Result<(Ring, Vec<SourceThread>)> {
        source::spawn(self, config)
    }

    fn run_shard(
        &self,
        config: ShardConfig,
        ring: Ring,
        channels: ShardChannels,
        orders: &Orders,
    ) -> io::Result<()> {
        shard::run(self.clone(), config, ring, channels, orders)
    }

    fn texts(&self) -> Option<&Mutex<RefusalTexts>> {
        Protocol::texts(self)
    }
}
