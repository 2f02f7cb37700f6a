//! A node in one process that serves the RPC of CometBFT 0.38: the target of a first run and the fixture of tests.
//!
//! It has a real mempool, makes a block each interval and executes it on an [`App`](app::App). For overload it can
//! be given the cost of checks, a capacity that sinks, and scripted faults. With the application `bitcoin` it is a node
//! of Bitcoin's regression-test network instead, behind the JSON-RPC of btcd.
//!
//! It is no consensus engine: no peers, no votes, no signatures of blocks, nothing on disk. `docs/devnode.md` is its
//! contract.
//!
//! Read first: [`Config`], [`DevNode`], [`Faults`], [`Kind`].

pub mod app;
mod bigchaindb;
mod bitcoin;
mod capacity;
mod chain;
mod config;
mod control;
mod duration;
mod events;
mod faults;
mod handle;
mod hash;
mod host;
mod http;
mod jsonrpc;
mod kinds;
mod mempool;
mod node;
mod rpc;
mod server;

pub use capacity::CapacityModel;
pub use config::{
    AdmissionConfig, AdmissionMode, Application, BankAccount, BankConfig, BigchaindbConfig,
    BitcoinConfig, Config, ConfigError, MempoolConfig, RpcConfig, Validation,
};
pub use faults::{FailedExecution, Faults, Garbage};
pub use handle::{DevNode, DevNodeError, Worker};
pub use host::{BlockMaker, BlockSummary, Endpoint, Host, Kind, RPC, Setup, Snapshot, Work};
pub use node::Node;
