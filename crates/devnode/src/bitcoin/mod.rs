//! A Bitcoin node of the regression-test network, behind the JSON-RPC of btcd 0.26, and among peers if it listens
//! for them.
//!
//! Served in place of the node that speaks CometBFT's RPC: a chain, coins and a mempool of its own. What
//! it spends are P2PKH outputs; blocks are mined on the interval and by `generate`, and are valid to btcd,
//! which a test shows by feeding them to one.

mod block;
mod chain;
mod error;
mod ledger;
mod methods;
mod node;
pub(crate) mod peers;
mod render;
mod rpc;
mod rules;
mod scripts;

pub(crate) use node::Bitcoin;
pub(crate) use rpc::handle;
