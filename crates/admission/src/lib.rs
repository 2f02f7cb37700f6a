//! Admission of transactions on several threads: which of those that arrive may enter a mempool.
//!
//! Transactions conflict when they spend the same thing. A filter over what is spent keeps two that may
//! conflict out of the same epoch, so that the transactions of an epoch can be checked in any order on
//! any number of threads against a view that does not change. One thread then commits what passed, and
//! the next epoch begins with what had to wait. This is the admission of the Gigablock testnet (Andrew
//! Stone, 2017; the form with keys from inputs, 2021), rebuilt.
//!
//! What it is not: it has no sockets, no files, no logging, and reads no clock; random secrets are
//! parameters. It has threads, which [`Pipeline::stop`] ends. It does not know what a transaction is:
//! [`Admit`] tells it what one spends and how it is checked.
//!
//! Read first: [`Admit`] (what an application provides), [`Pipeline`] and its [`Settings`], and
//! [`Corral`] (the lock between checks, commits and pauses). [`Serial`] is the same admission
//! under one lock, one transaction at a time.
//!
//! # Which filter
//!
//! [`ExactSet`] has no false conflicts and costs a hash and a place in a table for each key.
//! [`FastFilter`] costs a tenth of that and takes 512 KiB whatever it holds; a false conflict only
//! delays a transaction by one epoch. [`TwoGenerationFilter`] remembers at least its last N keys.
//! [`RollingFilter`] is there to be compared with: it forgets far earlier than its size suggests.
//! `benches/admission` measures all of them beside the check of signatures.

mod admit;
mod corral;
mod filter;
mod key;
mod pipeline;
mod serial;
mod sync;

#[cfg(any(test, feature = "coins"))]
pub mod coins;
#[cfg(test)]
#[cfg(any(loom, shuttle))]
mod model;

pub use admit::{Admit, Outcome, Refused, Verdict, VerdictOf};
pub use corral::{Corral, Inside, Region};
pub use filter::{
    ExactSet, FastFilter, Filter, Layout, RollingFilter, Secret, Sharded, TwoGenerationFilter,
};
pub use key::{Key, KeyBits, OutputKey};
pub use pipeline::{Counters, Orphans, Pipeline, Settings};
pub use serial::Serial;
