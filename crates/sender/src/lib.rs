//! What a load is sent with: the kinds of node, the transactions, and the threads that make and send them.
//!
//! Everything that is done for each transaction on its way out is compiled in this crate, so that
//! `txgen`, which plans, conducts and reports, need not be optimised for speed. [`kind::Loaded`] is the seam:
//! behind it everything is generic over the kind of node.
//!
//! What it is not: it has no say in when transactions are due (that is `pacing`), keeps no accounts
//! (that is `measure`) and speaks no wire format (that is `rpc`).
//!
//! Read first: [`target::Target`], then [`shard`].

pub mod clock;
pub mod kind;
pub mod shard;
pub mod source;
pub mod target;
pub mod workload;
