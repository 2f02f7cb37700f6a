//! The runtime of a thread that asks nodes.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// A runtime on the calling thread, with sockets and timers.
pub(crate) fn start() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
