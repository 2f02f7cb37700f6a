//! JSON-RPC over a WebSocket: requests are read and answered one at a time, so a slow answer keeps
//! the next request in the socket and TCP pushes back on the client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::mpsc;
use tokio::time::Instant;
use wire::json;
use wire::jsonrpc::{self, RequestFault};
use wire::ws::{
    Event, HandshakeError, check_handshake, close_code, write_close, write_ping, write_pong,
    write_text,
};

use super::calls::{Caller, answer, plain_broadcast};
use super::stamped;
use crate::events::{Outbox, Outgoing};
use crate::http::{Frames, Request, Response, Upgrade};
use crate::jsonrpc::{RpcError, failure_body};
use crate::node::Node;

/// How long a client may be silent, answers to pings included (`defaultWSReadWait`).
const READ_WAIT: Duration = Duration::from_secs(30);
/// How often the server pings (`defaultWSPingPeriod`).
const PING_PERIOD: Duration = Duration::from_secs(27);
/// How long a write may take (`defaultWSWriteWait`).
const WRITE_WAIT: Duration = Duration::from_secs(10);
/// Answers that are taken at once, if that many are waiting.
const WRITE_BATCH: usize = 64;
/// Bytes that are collected for one write.
const WRITE_BYTES: usize = 64 << 10;

/// The answer to a handshake: the switch of protocols, or what was wrong (texts of the `gorilla`
/// server that CometBFT uses).
pub fn handshake(request: &Request) -> Response {
    let bad = |status: u16, text: &str| {
        let answer = Response::text(status, text)
            .with("Sec-Websocket-Version", "13")
            .with("X-Content-Type-Options", "nosniff");
        stamped(answer, SystemTime::now())
    };
    let accept = match check_handshake(&request.view(), request.head().version, &[]) {
        Ok(accept) => accept,
        Err(HandshakeError::Method) => return bad(405, "Method Not Allowed\n"),
        Err(HandshakeError::Malformed | HandshakeError::Origin) => {
            return bad(400, "Bad Request\n");
        }
    };
    let headers = vec![
        ("Upgrade", "websocket".to_owned()),
        ("Connection", "Upgrade".to_owned()),
        ("Sec-WebSocket-Accept", accept),
    ];
    Response {
        status: 101,
        headers,
        body: Vec::new(),
        close: false,
    }
}

/// What goes out on a WebSocket.
enum Outbound {
    Text(Vec<u8>),
    Pong(Vec<u8>),
    /// The last frame, with this code.
    Close(u16),
}

/// Serves an upgraded connection until it ends.
pub(crate) async fn serve(node: &Arc<Node>, peer: SocketAddr, upgrade: Upgrade) {
    let (frames, stream) = Frames::of(upgrade, node.host.config.rpc.max_body_bytes);
    let (answers, answered) = mpsc::channel(node.host.config.rpc.websocket_write_buffer_size);
    let (outbox, events) = mpsc::unbounded_channel();
    let subscriber = Subscriber { node, peer };
    tokio::select! {
        () = read(node, peer, frames, &answers, &outbox) => {}
        () = write(stream, answered, events) => {}
    }
    drop(subscriber);
}

/// Ends a connection's subscriptions with it, also if its task is dropped.
#[derive(Debug)]
struct Subscriber<'a> {
    node: &'a Node,
    peer: SocketAddr,
}

impl Drop for Subscriber<'_> {
    fn drop(&mut self) {
        // Most connections have none.
        let _ = self.node.bus.unsubscribe_all(self.peer);
    }
}

/// Reads and answers requests until the client is silent or gone.
async fn read(
    node: &Arc<Node>,
    peer: SocketAddr,
    mut frames: Frames,
    answers: &mpsc::Sender<Outbound>,
    outbox: &Outbox,
) {
    let mut read_at = Instant::now();
    loop {
        let outbound = match frames.next_event() {
            Ok(Some(Event::Text(message) | Event::Binary(message))) => {
                let answer = handle(node, peer, message, outbox).await;
                answer.map(Outbound::Text)
            }
            Ok(Some(Event::Ping(payload))) => Some(Outbound::Pong(payload.to_vec())),
            Ok(Some(Event::Pong | Event::Fragment)) => None,
            Ok(Some(Event::Close { code, .. })) => {
                Some(Outbound::Close(code.unwrap_or(close_code::NORMAL)))
            }
            Err(error) => Some(Outbound::Close(error.close_code())),
            Ok(None) => {
                match tokio::time::timeout_at(read_at + READ_WAIT, frames.read_more()).await {
                    Ok(Ok(true)) => read_at = Instant::now(),
                    _ => return,
                }
                None
            }
        };
        let is_last = matches!(outbound, Some(Outbound::Close(_)));
        if let Some(outbound) = outbound
            && answers.send(outbound).await.is_err()
        {
            return;
        }
        if is_last {
            // The writer ends the connection.
            return std::future::pending().await;
        }
    }
}

/// One request with the faults around it.
async fn handle(
    node: &Arc<Node>,
    peer: SocketAddr,
    text: &[u8],
    outbox: &Outbox,
) -> Option<Vec<u8>> {
    node.host.counters.requests.fetch_add(1, Ordering::Relaxed);
    node.host.faults.pass().await;
    let mut answer = respond(node, peer, text, outbox).await?;
    node.host.faults.spoil(&mut answer).await.then_some(answer)
}

async fn respond(
    node: &Arc<Node>,
    peer: SocketAddr,
    text: &[u8],
    outbox: &Outbox,
) -> Option<Vec<u8>> {
    if let Some(answer) = plain_broadcast(node, peer, text).await {
        return Some(answer);
    }
    let request = json::first(text)
        .map_err(RequestFault::Json)
        .and_then(jsonrpc::Request::decode);
    match request {
        Ok(request) => {
            let caller = Caller {
                address: peer,
                outbox: Some(outbox),
            };
            answer(node, caller, &request).await
        }
        Err(fault) => {
            let error = RpcError::Parse(format!("error unmarshaling request: {fault}"));
            Some(failure_body(None, &error))
        }
    }
}

async fn write(
    mut stream: OwnedWriteHalf,
    mut answers: mpsc::Receiver<Outbound>,
    mut events: mpsc::UnboundedReceiver<Outgoing>,
) {
    let mut ping = tokio::time::interval_at(Instant::now() + PING_PERIOD, PING_PERIOD);
    let mut batch = Vec::with_capacity(WRITE_BATCH);
    let mut out = Vec::new();
    loop {
        tokio::select! {
            biased;
            count = answers.recv_many(&mut batch, WRITE_BATCH) => if count == 0 { return },
            event = events.recv() => {
                let Some(event) = event else { return };
                write_text(&mut out, &event.body);
                event.waiting.fetch_sub(1, Ordering::Relaxed);
            }
            _ = ping.tick() => write_ping(&mut out),
        }
        let mut is_last = false;
        for outbound in batch.drain(..) {
            match outbound {
                Outbound::Text(body) => write_text(&mut out, &body),
                Outbound::Pong(payload) => write_pong(&mut out, &payload),
                Outbound::Close(code) => {
                    write_close(&mut out, code, "");
                    is_last = true;
                }
            }
        }
        let more = !(is_last || answers.is_empty() && events.is_empty());
        if more && out.len() < WRITE_BYTES {
            continue;
        }
        let written = tokio::time::timeout(WRITE_WAIT, stream.write_all(&out)).await;
        if is_last || !matches!(written, Ok(Ok(()))) {
            return;
        }
        out.clear();
        out.shrink_to(WRITE_BYTES);
    }
}
