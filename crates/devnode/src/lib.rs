//! A built-in node that serves the RPC of CometBFT 0.38.17.
//!
//! It has a real mempool, makes a block each interval, executes the key-value application with the
//! original's rules, and answers over POST, URI and WebSocket as the original does. Its hashes,
//! signatures and proofs are genuine: a light client can follow its chain. A test double for
//! overload, too: it can be given the cost of checks, a capacity that sinks, and scripted faults.
//!
//! With the application `bitcoin` it is a node of Bitcoin's regression-test network instead, behind the
//! JSON-RPC of btcd.
//!
//! It is no consensus engine: one validator, no peers, no votes over a network, nothing on disk.
//! `docs/devnode.md` lists where it differs from the original.
//!
//! Read first: [`Config`], [`DevNode`], [`Faults`].

mod api;
mod app;
mod bitcoin;
mod capacity;
mod chain;
mod config;
mod control;
mod dialect;
mod duration;
mod events;
mod faults;
mod handle;
mod http;
mod jsonrpc;
mod mempool;
mod node;
mod results;
mod rpc;
mod server;
mod snapshot;

pub use capacity::CapacityModel;
pub use config::{
    AdmissionConfig, AdmissionMode, Application, BankAccount, BankConfig, BigchaindbConfig,
    BitcoinConfig, Config, ConfigError, MempoolConfig, RpcConfig, Validation,
};
pub use dialect::Dialect;
pub use faults::{FailedExecution, Faults, Garbage};
pub use handle::{BlockSummary, DevNode, DevNodeError, Worker};
pub use snapshot::{AdmissionCounts, Snapshot};
