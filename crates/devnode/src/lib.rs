//! A node in one process that serves the RPC of CometBFT 0.38: the target of a first run and the fixture of tests.
//!
//! It has a real mempool, makes a block each interval and executes it on an [`App`](app::App). For overload it can
//! be given the cost of checks, a capacity that sinks, and scripted faults. Chains bring applications and kinds of
//! nodes of their own; a program lists them.
//!
//! It is no consensus engine: no peers, no votes, no signatures of blocks, nothing on disk. `docs/devnode.md` is its
//! contract.
//!
//! Read first: [`Config`], [`DevNode`], [`Faults`], [`Kind`].

pub mod app;
mod capacity;
mod chain;
mod config;
mod control;
pub mod duration;
mod events;
mod faults;
mod handle;
mod hash;
mod host;
pub mod http;
mod jsonrpc;
mod kind;
mod mempool;
mod node;
mod query;
mod rpc;

pub use self::app::Gate;
pub use self::capacity::CapacityModel;
pub use self::chain::store::TxPlace;
pub use self::chain::{Block, POWER};
pub use self::config::{
    AdmissionConfig, AdmissionMode, BLOCK_BYTES, Config, ConfigError, MAX_WORKERS, MempoolConfig,
    POSITIVE, RpcConfig, Section, Sections, cores, refuse_outside,
};
pub use self::events::{Committed, Wait};
pub use self::faults::{FailedExecution, Faults, Garbage};
pub use self::handle::{DevNode, DevNodeError, Worker};
pub use self::hash::ByPrefix;
pub use self::host::{
    BlockMaker, BlockSummary, Counters, Endpoint, Host, RPC, Setup, Snapshot, Work,
};
pub use self::kind::{Blueprint, Kind};
pub use self::mempool::Refusal;
pub use self::node::Node;
pub use self::rpc::{handshake, take_in};

/// The node with the key-value application.
pub static KVSTORE: &dyn Kind = &kind::Kvstore;
