//! Bodies that are read piece by piece, and what is held as long as one is read.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, SizeHint};

/// A body read piece by piece.
pub(crate) trait Pieces: Body<Data = Bytes> + Unpin + Send {
    /// The next piece; `None` at the end. Nothing follows an error, and trailers are left out.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    fn next(&mut self) -> impl Future<Output = Option<Result<Bytes, Self::Error>>> + Send;
}

impl<B> Pieces for B
where
    B: Body<Data = Bytes> + Unpin + Send,
{
    async fn next(&mut self) -> Option<Result<Bytes, B::Error>> {
        loop {
            match self.frame().await? {
                Err(error) => return Some(Err(error)),
                Ok(frame) => match frame.into_data() {
                    Ok(bytes) if !bytes.is_empty() => return Some(Ok(bytes)),
                    _ => {}
                },
            }
        }
    }
}

/// A body and the permit that its reader holds, given back when the body is dropped. A limit of
/// concurrency has to last until the body ends, which is long after the service has answered.
#[derive(Debug)]
pub struct Permitted<B, P> {
    body: B,
    _permit: Option<P>,
}

impl<B, P> Permitted<B, P> {
    pub(super) const fn new(body: B, permit: P) -> Self {
        Self {
            body,
            _permit: Some(permit),
        }
    }

    /// A body outside the limit.
    pub(super) const fn unlimited(body: B) -> Self {
        Self {
            body,
            _permit: None,
        }
    }
}

impl<B, P> Body for Permitted<B, P>
where
    B: Body<Data = Bytes> + Unpin,
    P: Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
