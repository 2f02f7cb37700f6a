//! HTTP/1.1 connections: requests are read, served and answered one after the other.

mod answers;
mod batch;
mod exchange;
mod plan;
mod request;
#[cfg(test)]
mod tests;
mod work;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use self::exchange::Exchange;
use self::request::{NoRequest, RequestReader};
use self::work::{Next, Other, Plan};
use super::Shared;
use super::backend::{Backend, Queue};
use super::socket::{Ended, Stream};
use super::websocket::Session;
use crate::budget::Held;
use crate::identity::Peer;
use crate::refusal::Refusal;
use crate::respond::Asked;

/// A connection that speaks HTTP, or has not spoken yet.
pub(crate) struct Connection<B: Backend, IO> {
    exchange: Exchange<B, IO>,
    requests: RequestReader,
    /// Its place among the connections; a stream has that of its connection.
    slot: Option<Held>,
}

/// A connection on which HTTP/2 is spoken, and what was read of it.
pub(crate) struct Http2<B: Backend, IO> {
    pub(crate) front: Arc<Shared<B>>,
    pub(crate) io: IO,
    pub(crate) read: Bytes,
    pub(crate) peer: Peer,
    pub(crate) slot: Option<Held>,
}

/// How long a client that was not let in may take to send its request and to read the refusal.
const REFUSED_PATIENCE: Duration = Duration::from_secs(1);

impl<B: Backend, IO: Stream> Connection<B, IO> {
    /// A connection that was let in.
    pub(crate) fn new(front: Arc<Shared<B>>, io: IO, peer: Peer, slot: Held) -> Self {
        let queue = Queue::new(front.backend.clone(), front.next_connection());
        Self {
            requests: RequestReader::new(&front),
            exchange: Exchange::new(front, io, (peer, queue)),
            slot: Some(slot),
        }
    }

    /// One stream of a connection that was let in, whose number it has.
    pub(crate) fn of_stream(front: Arc<Shared<B>>, io: IO, (peer, number): (Peer, u64)) -> Self {
        let queue = Queue::of_stream(front.backend.clone(), number);
        Self {
            requests: RequestReader::new(&front),
            slot: None,
            exchange: Exchange::new(front, io, (peer, queue)),
        }
    }

    /// Serves it to its end, or until HTTP/2 is spoken on it.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection and takes its writes out of the queue.
    // Not `async fn`: that would keep the connection twice, as its argument and as its variable.
    #[allow(clippy::manual_async_fn)]
    pub(crate) fn run(mut self) -> impl Future<Output = Option<Http2<B, IO>>> + Send {
        async move {
            match self.speak_http().await? {
                Next::WebSocket(charge) => {
                    Box::pin(self.into_session(charge).run()).await;
                    None
                }
                Next::Http2 => {
                    let (front, (io, read), peer) = self.exchange.into_io();
                    Some(Http2 {
                        front,
                        io,
                        read,
                        peer,
                        slot: self.slot,
                    })
                }
                Next::Request | Next::Close => None,
            }
        }
    }

    /// Serves requests to the end of the connection, or until another protocol is spoken on it.
    async fn speak_http(&mut self) -> Option<Next> {
        loop {
            let next = self.one().await.ok()?;
            if matches!(next, Next::Request) && self.exchange.gather() {
                continue;
            }
            if let Some(until) = self.exchange.pay() {
                let pause = self.requests.pause(self.exchange.socket(), until);
                Box::pin(pause).await.ok()?;
            }
            self.exchange.flush().await.ok()?;
            match next {
                Next::Request => {}
                Next::Close => {
                    self.exchange.socket().close().await;
                    return None;
                }
                other => return Some(other),
            }
        }
    }

    /// Tells a client that it was not let in, once it has sent something.
    pub(crate) async fn refuse_all(mut self, refusal: Refusal) {
        let until = Instant::now() + REFUSED_PATIENCE;
        if self.exchange.socket().fill(until).await.is_err() {
            return;
        }
        self.exchange.turn_away(&refusal);
        let socket = self.exchange.socket();
        if socket.flush(REFUSED_PATIENCE).await.is_ok() {
            socket.close().await;
        }
    }

    /// Reads one request and serves it; the end of its answer is left to be written.
    async fn one(&mut self) -> Result<Next, Ended> {
        let exchange = &mut self.exchange;
        let (plan, asked) = match exchange.next(&mut self.requests).await {
            Ok(planned) => planned,
            Err(NoRequest::End) => return Err(Ended::Closed),
            Err(NoRequest::Malformed(_)) if exchange.begins_http2() => return Ok(Next::Http2),
            Err(NoRequest::Malformed(error)) => return Ok(exchange.malformed(error)),
            Err(NoRequest::Refused(refusal)) => return Ok(exchange.turn_away(&refusal)),
        };
        match plan {
            Plan::Broadcast(broadcast) => match exchange.broadcast(broadcast, asked) {
                Ok(call) => exchange.finish(call, asked).await,
                Err(next) => Ok(next),
            },
            Plan::Other(other) => Box::pin(serve(exchange, *other, asked)).await,
        }
    }

    fn into_session(self, charge: Option<Held>) -> Session<B, IO> {
        let (front, socket, queue, client) = self.exchange.into_parts();
        Session::new(front, socket, queue, client, [self.slot, charge])
    }
}

/// Serves everything but the common case.
async fn serve<B: Backend, IO: Stream>(
    exchange: &mut Exchange<B, IO>,
    other: Other,
    asked: Asked,
) -> Result<Next, Ended> {
    match other {
        Other::Forward(forward) => exchange.pass(forward, asked).await,
        Other::Batch(batch) => batch::serve(exchange, batch, asked).await,
        Other::Notifications => Ok(exchange.answer(asked, |answer| answer.nothing())),
        Other::Refuse(call, refusal) => Ok(exchange.reject(&call, &refusal, asked)),
        Other::Deny(call, refusal) => Ok(exchange.reject(&call, &refusal, answers::last(asked))),
        Other::Upgrade(accept) => Ok(exchange.upgrade(&accept, asked)),
        Other::NotUpgraded(error) => {
            Ok(exchange.answer(asked, |answer| answer.not_upgraded(error)))
        }
    }
}
