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
//! [`Admit`] defines what one spends and how it is checked.
//!
//! Read first: [`Admit`] (what an application provides), [`Pipeline`] and its [`Settings`], and
//! [`PhaseLock`] (the lock between checks, commits and pauses). [`Serial`] is the same admission
//! under one lock, one transaction at a time.
//!
//! [`FastFilter`] takes 512 KiB whatever it holds, and a tenth of the time of a hash set; a false conflict only
//! delays a transaction by one epoch. `benches/admission` measures it beside other filters and beside the check
//! of signatures.

mod admit;
mod filter;
mod pipeline;
mod sync;

#[cfg(test)]
extern crate self as admission;
#[cfg(test)]
#[path = "../tests/support/coins.rs"]
#[cfg_attr(any(loom, shuttle), allow(dead_code, reason = "for other tests"))]
mod coins;
#[cfg(test)]
#[cfg(any(loom, shuttle))]
mod model;

pub use admit::{Admit, Key, KeyBits, Outcome, OutputKey, Refused, Verdict, VerdictOf};
pub use filter::{FastFilter, Filter, Layout, Secret};
pub use pipeline::{Counters, Pipeline, Serial, Settings};
pub use sync::{Phase, PhaseGuard, PhaseLock};
