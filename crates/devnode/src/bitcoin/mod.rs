//! A Bitcoin node of the regression-test network, behind the JSON-RPC of btcd 0.26, and among peers if it listens
//! for them: a chain, coins and a mempool of its own.
//!
//! What it spends are P2PKH outputs; blocks are mined on the interval and by `generate`, and are valid to btcd,
//! which a test shows by feeding them to one.

mod chain;
mod ledger;
mod methods;
mod node;
mod peers;
mod rpc;
mod rules;

pub(crate) use node::BitcoinNode;
