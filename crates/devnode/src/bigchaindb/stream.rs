//! The event stream: over a WebSocket, one message for each transaction of a block, after the
//! block is committed, in its order.
//!
//! The original writes to its clients one after the other, so that a slow one holds up the rest.
//! Here each has a queue of its own; a client that falls too many blocks behind is disconnected, and
//! can read what it missed from `/api/v1/blocks`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use wire::ws::{Event, close_code, write_close, write_pong};

use super::application::{Bigchaindb, ValidTransactions};
use crate::host::{Endpoint, Host, Work};
use crate::http::{self, Frames, Handler, Limits, Request, Response, Upgrade};
use crate::rpc;

/// Its name among the services.
pub(super) const SERVICE: &str = "events";
/// Where the stream is.
pub(super) const PATH: &str = "/api/v1/streams/valid_transactions";
/// How long writing a block's messages may take.
const WRITE_WAIT: Duration = Duration::from_secs(10);
/// Largest message that a client may send; the stream has no use for any.
const MAX_MESSAGE: usize = 64 << 10;

/// Blocks as they are committed.
type Listener = Receiver<Arc<ValidTransactions>>;

/// The event stream of a node.
pub(super) struct Stream {
    pub(super) host: Arc<Host>,
    pub(super) app: Arc<Bigchaindb>,
}

impl Endpoint for Stream {
    fn connections(&self) -> usize {
        self.host.config.rpc.max_open_connections
    }

    fn serve(self: Arc<Self>, stream: TcpStream, _peer: SocketAddr) -> Work<'static, ()> {
        Box::pin(async move {
            let limits = Limits::of_rpc(&self.host.config);
            let client = Client {
                stream: &self,
                listener: Mutex::default(),
            };
            // A broken connection needs no action of the node.
            if let Ok(Some(upgrade)) = http::serve(stream, limits, &client).await
                && let Some(listener) = client.listener.into_inner()
            {
                serve(&self.host, upgrade, listener).await;
            }
        })
    }
}

struct Client<'a> {
    stream: &'a Stream,
    /// Subscribed to blocks since the handshake, so that none is missed before the first read.
    listener: Mutex<Option<Listener>>,
}

impl Handler for Client<'_> {
    async fn answer(&self, request: &Request) -> Response {
        self.stream.host.faults.pass().await;
        if request.path() != PATH {
            return Response::text(404, "404: Not Found");
        }
        let listener = self.stream.app.events.subscribe();
        let response = rpc::ws::handshake(request);
        *self.listener.lock() = (response.status == 101).then_some(listener);
        response
    }
}

/// Serves an upgraded connection until it ends.
async fn serve(host: &Host, upgrade: Upgrade, mut blocks: Listener) {
    let (mut frames, mut stream) = Frames::of(upgrade, MAX_MESSAGE);
    loop {
        let written = match frames.next() {
            Ok(Some(Event::Close { .. })) | Err(_) => return,
            Ok(Some(Event::Ping(payload))) => {
                let mut pong = Vec::new();
                write_pong(&mut pong, payload);
                write(&mut stream, &pong).await
            }
            Ok(Some(_)) => continue,
            Ok(None) => tokio::select! {
                more = frames.read_more() => match more {
                    Ok(true) => continue,
                    Ok(false) | Err(_) => return,
                },
                block = blocks.recv() => {
                    host.faults.pass().await;
                    match block {
                        Ok(block) => write(&mut stream, &block.frames).await,
                        Err(RecvError::Lagged(missed)) => return cut_off(&mut stream, missed).await,
                        Err(RecvError::Closed) => return,
                    }
                }
            },
        };
        if written.is_err() {
            return;
        }
    }
}

async fn write(stream: &mut OwnedWriteHalf, bytes: &[u8]) -> io::Result<()> {
    tokio::time::timeout(WRITE_WAIT, stream.write_all(bytes)).await?
}

/// Closes the stream of a client that lost blocks, with the reason.
async fn cut_off(stream: &mut OwnedWriteHalf, missed: u64) {
    let reason = format!("too slow: missed {missed} blocks, see /api/v1/blocks");
    let mut close = Vec::new();
    write_close(&mut close, close_code::POLICY, &reason);
    // The connection ends in either case.
    let _ = write(stream, &close).await;
}
