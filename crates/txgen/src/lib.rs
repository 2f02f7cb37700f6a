//! The transaction generator: offers transactions to blockchain nodes on an exact open-loop schedule,
//! follows each one from due to committed, and reports whether it kept the schedule.
//!
//! What is elsewhere: `pacing` computes when transactions are due, `sender` makes and sends them, `measure` records and
//! judges, `rpc` and the chains' crates read and write the wire formats.
//!
//! Read first: [`plan::Plan`] (what is to be done) and [`run::run`] (does it).

mod ab;
mod analyse;
mod bigchaindb_benchmark;
pub mod campaign;
pub mod chains;
mod ci;
pub mod cli;
pub mod command;
pub mod compare;
mod devnode_command;
mod doctor;
mod drain;
pub mod exit;
#[cfg_attr(not(feature = "fleet"), path = "no_fleet.rs")]
mod fleet;
pub mod folder;
mod init;
pub mod live;
pub mod managed;
pub mod merge_command;
pub mod observe;
pub mod output;
pub mod plan;
pub mod profiler;
mod recording;
pub mod run;
pub mod scenario;
pub mod search;
pub mod settings;
pub mod threshold;
pub mod tm_bench;

pub use harness::{part, shutdown};

use std::io;

use tokio::runtime::{Builder, Runtime};

/// A runtime on the calling thread, with sockets and timers.
pub(crate) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
