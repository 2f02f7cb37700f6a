//! Bodies that are read piece by piece.

use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::Bytes;

/// A body read piece by piece.
pub(crate) trait Pieces: Unpin + Send {
    /// Why no further piece comes.
    type Error;

    /// The next piece, never an empty one; `None` at the end. Nothing follows an error.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>>;

    /// Whether others wait for what it was admitted with.
    fn is_wanted(&self) -> bool {
        false
    }

    /// The same as a future.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    fn next(&mut self) -> impl Future<Output = Option<Result<Bytes, Self::Error>>> + Send {
        poll_fn(|context| self.poll_next(context))
    }
}
