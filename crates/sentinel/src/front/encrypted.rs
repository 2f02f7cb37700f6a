//! TLS of a client's connection: the handshake within its client's share of everything, and the stream behind it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use fairq::ClientKey;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::Acceptor;
use tokio_rustls::server::TlsStream;

use super::Shared;
use super::backend::Backend;
use super::socket::Stream;
use crate::budget::{Piece, Reservation};
use crate::identity::Peer;
use crate::refusal::{Reason, Refusal};

/// An encrypted connection. Unlike the library's, it has written the bytes that it reports as written.
pub(super) struct Encrypted<IO> {
    tls: TlsStream<IO>,
    /// Bytes that the library has taken and not yet written in whole.
    taken: usize,
    /// Its part of the account.
    _held: Reservation,
}

/// What one write encrypts: a record of TLS has no more (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 16 << 10;
/// What a connection holds beside what its owner sees: the state of the library and its buffers, which are mostly empty.
/// 150 idle ones took 11 KiB each more than without TLS.
pub(super) const CONNECTION_BYTES: usize = 16 << 10;
/// Beside that while keys are agreed on: messages of several records, and certificates of the client.
const HANDSHAKE_BYTES: usize = 32 << 10;

/// Agrees on keys with a client that has been let in. None if it came to nothing: then it is counted.
///
/// A handshake of one client waits for no other's: those under way are bounded for each client, have to end in time,
/// and take turns at the processor as all long work does.
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub(super) async fn handshake<B: Backend, IO: Stream>(
    front: &Shared<B>,
    stream: IO,
    (peer, config): (&Peer, Arc<ServerConfig>),
) -> Option<Encrypted<IO>> {
    let client = peer.identity.client;
    let agreeing = async {
        // A trusted proxy speaks for many clients.
        let place = (!peer.is_proxy).then(|| {
            let begun = front.budget.begin_handshake(client);
            front.shadow.judge(client, begun)
        });
        let _place = place.transpose()?;
        agree(front, stream, (client, config)).await
    };
    let patience = front.config.load().fixed.header_timeout;
    let late = || Refusal::new(Reason::Parse, "the TLS handshake did not end in time");
    let agreed = tokio::select! {
        biased;
        agreed = timeout(patience, agreeing) => agreed.unwrap_or_else(|_| Err(late())),
        () = front.stop.cancelled() => return None,
    };
    agreed
        .inspect_err(|refusal| front.refused(client, refusal))
        .ok()
}

async fn agree<B: Backend, IO: Stream>(
    front: &Shared<B>,
    stream: IO,
    (client, config): (ClientKey, Arc<ServerConfig>),
) -> Result<Encrypted<IO>, Refusal> {
    let failed = |error: io::Error| Refusal::new(Reason::Parse, format!("TLS: {error}"));
    let held = front.ledger.of(client);
    let held = held.reserve(CONNECTION_BYTES + HANDSHAKE_BYTES);
    let mut held = held.ok_or_else(Refusal::buffers_full)?;
    let hello = LazyConfigAcceptor::new(Acceptor::default(), stream);
    let hello = hello.await.map_err(failed)?;
    // A signature is long work.
    front.budget.turn(client).take(Piece::LONG).await;
    let tls = hello.into_stream(config).await.map_err(failed)?;
    held.shrink_to(CONNECTION_BYTES);
    Ok(Encrypted {
        tls,
        taken: 0,
        _held: held,
    })
}

impl<IO> Encrypted<IO> {
    /// The certificate that the client has presented, and has the key of.
    pub(super) fn certificate(&self) -> Option<&[u8]> {
        let certificates = self.tls.get_ref().1.peer_certificates();
        certificates.and_then(|all| all.first()).map(AsRef::as_ref)
    }
}

impl<IO: Stream> Stream for Encrypted<IO> {
    fn is_hung_up(&self) -> bool {
        self.tls.get_ref().0.is_hung_up()
    }

    fn is_reset(&self) -> bool {
        self.tls.get_ref().0.is_reset()
    }
}

impl<IO: Stream> AsyncRead for Encrypted<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_read(context, into)
    }
}

/// As with OpenSSL's `SSL_write`, a write that has to wait is to be repeated with the same bytes in front.
impl<IO: Stream> AsyncWrite for Encrypted<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.taken == 0 {
            let record = &bytes[..bytes.len().min(RECORD_BYTES)];
            self.taken = ready!(Pin::new(&mut self.tls).poll_write(context, record))?;
        }
        ready!(Pin::new(&mut self.tls).poll_flush(context))?;
        Poll::Ready(Ok(std::mem::take(&mut self.taken)))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_shutdown(context)
    }
}
