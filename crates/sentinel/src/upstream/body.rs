//! Bodies that are read piece by piece, and bytes that are charged as long as they live.

use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::UpstreamError;
use crate::budget::Reservation;

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

/// A whole body in memory. `charge` grows with it and is held until the last part of it is dropped.
///
/// # Errors
/// Those of the body; [`UpstreamError::TooLarge`] for more than `limit` bytes, and [`UpstreamError::Memory`] where
/// the account has no room.
pub(super) async fn collected<B>(
    mut body: B,
    mut charge: Reservation,
    limit: usize,
) -> Result<Bytes, B::Error>
where
    B: Pieces<Error: From<UpstreamError>>,
{
    let mut bytes = Vec::with_capacity(charge.bytes());
    while let Some(piece) = body.next().await {
        let piece = piece?;
        let len = bytes.len() + piece.len();
        if len > limit {
            return Err(UpstreamError::TooLarge(limit).into());
        }
        if !charge.grow(len.saturating_sub(charge.bytes())) {
            return Err(UpstreamError::Memory.into());
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(charged(bytes, charge))
}

/// Bytes that stay charged until the last part of them is dropped.
pub(crate) fn charged(bytes: impl AsRef<[u8]> + Send + 'static, charge: Reservation) -> Bytes {
    struct Charged<B> {
        bytes: B,
        _charge: Reservation,
    }
    impl<B: AsRef<[u8]>> AsRef<[u8]> for Charged<B> {
        fn as_ref(&self) -> &[u8] {
            self.bytes.as_ref()
        }
    }
    Bytes::from_owner(Charged {
        bytes,
        _charge: charge,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Ledger;

    #[test]
    fn bytes_stay_charged_until_the_last_part_is_gone() {
        let ledger = Ledger::new(100);
        let bytes = charged(b"hello".to_vec(), ledger.reserve(5).unwrap());
        let part = bytes.slice(1..3);
        drop(bytes);
        assert_eq!(ledger.used(), 5);
        drop(part);
        assert_eq!(ledger.used(), 0);
    }
}
