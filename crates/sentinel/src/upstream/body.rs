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

    /// Reads what is left, up to about so many bytes: the connection of a body that was read to its end serves
    /// the next request.
    ///
    /// # Cancel safety
    /// The rest stays unread when the future is dropped.
    fn skip(&mut self, most: usize) -> impl Future<Output = ()> + Send {
        async move {
            let mut skipped = 0;
            while skipped <= most
                && let Some(Ok(piece)) = self.next().await
            {
                skipped += piece.len();
            }
        }
    }
}
