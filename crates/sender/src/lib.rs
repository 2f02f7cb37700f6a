//! What is done for each transaction of a load on its way out: made ahead, encoded, sent, answered.
//!
//! Everything here is generic over [`Protocol`], which a chain's crate implements; behind [`Loader`] the threads are
//! the same for every chain. The generic code is compiled in the crate of the chain, so those crates are optimised
//! in full and `txgen` is not.
//!
//! What it is not: it has no say in when transactions are due (that is `pacing`), keeps no accounts
//! (that is `measure`) and speaks no wire format (that is a chain's).
//!
//! Read first: [`Protocol`], then [`shard`].

pub mod clock;
mod loader;
mod protocol;
mod sequences;
pub mod shard;
pub mod source;
mod stream;

pub use loader::Loader;
pub use protocol::{Closing, Framing, Limits, Protocol, ReplyTo};
pub use sequences::{Expectation, OnGap, Sequences};
pub use stream::{Families, TxName, TxStream, WorkloadError};
