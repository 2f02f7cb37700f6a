//! Why nodes cannot be observed.

use std::io;

use rpc::ClientError;

/// Why nodes cannot be observed. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// A node does not answer before the load begins.
    #[error("the node {name} that is to be observed does not answer")]
    Silent {
        /// Its name.
        name: String,
        /// What came instead.
        source: ClientError,
    },
    /// It says nothing of what is observed.
    #[error("{kind} nodes cannot be observed: they do not tell how many transactions wait")]
    Mute {
        /// What kind of target.
        kind: &'static str,
    },
    /// The process is not there.
    #[error(
        "the node {name} has no process {pid} on this machine that can be read: {reason}; give metrics=URL for a node elsewhere"
    )]
    Process {
        /// Its name.
        name: String,
        /// The process.
        pid: i32,
        /// What the system said.
        reason: String,
    },
    /// Too few nodes were found.
    #[error(
        "{found} nodes of the network answer where {wanted} are wanted, after {waited_s} s{hint}"
    )]
    TooFew {
        /// Those that answer.
        found: usize,
        /// How many are wanted.
        wanted: usize,
        /// How long they were looked for.
        waited_s: u64,
        /// What may be the matter.
        hint: &'static str,
    },
    /// The system refuses a thread or a runtime.
    #[error("nodes cannot be observed")]
    System(#[from] io::Error),
}
