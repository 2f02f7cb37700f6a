//! HTTP/1.1 connections: requests are read, served and answered one after the other.

mod answer;
mod batch;
mod incoming;
mod plan;
mod rest;
mod stream;
#[cfg(test)]
mod tests;
mod write;

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fairq::ClientKey;
use tokio::time::Instant;
use tokio_util::sync::WaitForCancellationFutureOwned;

use self::answer::Tail;
pub(crate) use self::answer::too_many;
use self::incoming::NoRequest;
pub(crate) use self::incoming::full;
use self::plan::{Cold, Plan};
use self::rest::Rest;
pub(crate) use self::write::outcome_of;
use super::Shared;
use super::backend::Backend;
use super::queue::Queue;
use super::slots::Slot;
use super::socket::{Ended, Socket, Stream};
use super::websocket::Session;
use crate::identity::Identity;
use crate::metrics::{LaneLabel, OutcomeLabel};
use crate::refusal::Refusal;

/// A connection that speaks HTTP, or has not spoken yet.
pub(crate) struct Connection<B: Backend, IO> {
    front: Arc<Shared<B>>,
    socket: Socket<IO>,
    peer: Peer,
    /// Whose request is served, or was last.
    asking: ClientKey,
    queue: Queue<B>,
    /// Whether the last request had a body: stray line ends may follow it.
    had_body: bool,
    rest: Rest,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    slot: Slot,
}

/// Who is at the other end of a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// The socket's own address.
    pub(crate) address: IpAddr,
    /// The client that it is, headers unseen.
    pub(crate) identity: Identity,
    /// Whether it is a trusted proxy, whose headers say who the client is.
    pub(crate) is_proxy: bool,
}

/// How long a client that was not let in may take to say and to hear something.
const REFUSED_PATIENCE: Duration = Duration::from_secs(1);

/// How the connection goes on after a request.
enum Next {
    /// With the next request.
    Request,
    /// It is closed when everything is written.
    Close,
    /// As a WebSocket of that client, which was charged for it if it is behind a proxy.
    WebSocket(ClientKey, Option<Slot>),
}

impl<B: Backend, IO: Stream> Connection<B, IO> {
    /// A connection that was let in.
    pub(crate) fn new(front: Arc<Shared<B>>, io: IO, peer: Peer, slot: Slot) -> Self {
        Self {
            socket: Socket::new(io, front.ledger.clone()),
            queue: Queue::new(front.backend.clone(), front.next_connection()),
            asking: peer.identity.client,
            peer,
            had_body: false,
            rest: Rest::default(),
            stop: Box::pin(front.stop.clone().cancelled_owned()),
            front,
            slot,
        }
    }

    /// Serves it to its end.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection and takes its writes out of the queue.
    // Not `async fn`: that would keep the connection twice, as its argument and as its variable.
    #[allow(clippy::manual_async_fn)]
    pub(crate) fn run(mut self) -> impl Future<Output = ()> + Send {
        async move {
            if let Some((client, charge)) = self.speak_http().await {
                Box::pin(self.into_session(client, charge).run()).await;
            }
        }
    }

    /// Serves requests to the end of the connection, or until it becomes a WebSocket.
    async fn speak_http(&mut self) -> Option<(ClientKey, Option<Slot>)> {
        let patience = self.front.config.limits.write_timeout;
        loop {
            let next = self.one().await.ok()?;
            self.socket.flush(patience).await.ok()?;
            match next {
                Next::Request => self.rest().await.ok()?,
                Next::Close => {
                    self.socket.close().await;
                    return None;
                }
                Next::WebSocket(client, charge) => return Some((client, charge)),
            }
        }
    }

    /// Tells a client that it was not let in, once it has said something.
    pub(crate) async fn refuse_all(mut self, refusal: Refusal) {
        let until = Instant::now() + REFUSED_PATIENCE;
        if self.socket.fill(until).await.is_err() {
            return;
        }
        self.turn_away(&refusal);
        if self.socket.flush(REFUSED_PATIENCE).await.is_ok() {
            self.socket.close().await;
        }
    }

    /// Reads one request and serves it; the end of its answer is left to be written.
    async fn one(&mut self) -> Result<Next, Ended> {
        let incoming = match self.incoming().await {
            Ok(incoming) => incoming,
            Err(NoRequest::End) => return Err(Ended::Closed),
            Err(NoRequest::Malformed(error)) => return Ok(self.malformed(error)),
            Err(NoRequest::Refused(refusal)) => return Ok(self.turn_away(&refusal)),
        };
        let overhead = self.front.overhead();
        match self.plan(&incoming) {
            (Plan::Write(write), tail) => match self.submit(write, tail) {
                Ok(to) => self.written(to, tail, overhead).await,
                Err(next) => Ok(next),
            },
            (Plan::Cold(cold), tail) => Box::pin(self.serve(*cold, tail)).await,
        }
    }

    async fn serve(&mut self, cold: Cold, tail: Tail) -> Result<Next, Ended> {
        match cold {
            Cold::Read(forward) => self.read(forward, tail).await,
            Cold::Unusual(forward) => self.unusual(forward, tail).await,
            Cold::Batch(batch) => self.batch(batch, tail).await,
            Cold::Nothing => Ok(self.nothing(tail)),
            Cold::Refuse(to, refusal) => {
                self.count(&to, LaneLabel::Read, OutcomeLabel::Rejected);
                Ok(self.refuse(&to, &refusal, tail))
            }
            Cold::Deny(to, refusal) => {
                self.count(&to, LaneLabel::Read, OutcomeLabel::Rejected);
                Ok(self.refuse(&to, &refusal, tail.last()))
            }
            Cold::Upgrade(client, accept) => Ok(self.upgrade(client, &accept, tail)),
            Cold::NotUpgraded(error) => Ok(self.not_upgraded(error, tail)),
        }
    }

    fn into_session(self, client: ClientKey, charge: Option<Slot>) -> Session<B, IO> {
        Session::new(
            self.front,
            self.socket,
            self.queue,
            client,
            (self.slot, charge),
        )
    }
}
