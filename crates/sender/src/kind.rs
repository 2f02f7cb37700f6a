//! Which kinds of node there are. [`TargetKind`] is what the user chose, and `TargetKind::visit` the only place
//! that tells the kinds apart.

use std::io;

use clap::ValueEnum;
use serde::Deserialize;

use crate::shard::{self, Orders, ShardChannels, ShardConfig};
use crate::source::{self, Ring, SourceConfig, SourceThread};
use crate::target::{Bigchaindb, BitcoinNode, Cometbft, Facts, Target};

/// A kind of target with the threads that load it. They are generic over [`Target`]; here they are compiled for each
/// kind, so that they are optimised as this crate is.
pub trait Loaded: Target {
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
}

macro_rules! loaded {
    ($($kind:ty),*) => {$(
        impl Loaded for $kind {
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
        }
    )*};
}

loaded!(Cometbft, Bigchaindb, BitcoinNode);

/// Which kind of node is loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// The RPC of a CometBFT or Tendermint node.
    #[default]
    Cometbft,
    /// The HTTP API and the event stream of a BigchainDB server.
    Bigchaindb,
    /// The JSON-RPC of a Bitcoin node: btcd, bchd, Bitcoin Core.
    Bitcoin,
}

/// Something that is done with a target whatever its kind.
pub trait TargetVisitor {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<T: Loaded>(self) -> Self::Output;
}

impl TargetKind {
    /// Does something with the type behind this kind. No other place tells the kinds apart.
    pub fn visit<V: TargetVisitor>(self, visitor: V) -> V::Output {
        match self {
            Self::Cometbft => visitor.visit::<Cometbft>(),
            Self::Bigchaindb => visitor.visit::<Bigchaindb>(),
            Self::Bitcoin => visitor.visit::<BitcoinNode>(),
        }
    }

    /// What the kind is called and what it takes.
    pub fn facts(self) -> &'static Facts {
        struct FactsOf;
        impl TargetVisitor for FactsOf {
            type Output = &'static Facts;

            fn visit<T: Loaded>(self) -> Self::Output {
                T::FACTS
            }
        }
        self.visit(FactsOf)
    }
}
