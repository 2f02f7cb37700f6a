//! What a chain is to a load. A chain is one crate that implements the traits here, and one line in `txgen`'s table.
//!
//! - [`Protocol`] is hot: it encodes each transaction's request and reads each answer. The senders are generic over it.
//! - [`Chain`] is cold and object-safe: the kind of node that a chain has ([`Target`], asked through [`NodeClient`]) and
//!   the workloads that it brings ([`Workload`]).
//!
//! What chains share is a library: connections, JSON-RPC and followers are in `rpc`, senders in `sender`.
//!
//! Read first: [`Chain`], [`Target`], [`Workload`].

mod file;
mod target;
mod workload;

use std::fmt;

pub use sender::{
    Closing, Expectation, Framing, Limits, Loader, OnGap, Protocol, ReplyTo, Sequences, TxName,
    TxStream, WorkloadError,
};

pub use self::file::{FileFormat, FileWorkload};
pub use self::target::{
    Asking, BuiltIn, Facts, FollowWith, Followed, LoadOptions, NodeClient, Probe, Target,
};
pub use self::workload::{LIMIT_OF_BODIES, Learning, MAX_SIZE, Workload, check_limit, check_size};

/// A chain, as a program lists it.
pub trait Chain: fmt::Debug + Sync {
    /// Its name in messages.
    fn name(&self) -> &'static str;

    /// The kind of node that it brings; `None` for a chain whose nodes are those of another one.
    fn target(&self) -> Option<&'static dyn Target> {
        None
    }

    /// Whether its workloads go to the nodes that it brings, and to no others.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// The names of its workloads on the command line.
    fn workloads(&self) -> &'static [&'static str];
}
