//! JSON-RPC over a WebSocket: requests are read and answered one at a time, so a slow answer keeps
//! the next request in the socket and TCP pushes back on the client.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use futures_util::{Sink, SinkExt, Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use wire::json;
use wire::jsonrpc::{self, PlainBroadcast, RequestFault, RequestId};

use super::answer::{RpcError, failure_body};
use super::http::{TOO_FEW_ARGUMENTS, garbled, outcome, server_time};
use super::methods::{self, Caller};
use super::{params, table};
use crate::events::bus::{Outbox, Outgoing};
use crate::faults::Garbage;
use crate::http::{Request, Response, Upgrade};
use crate::node::Node;

/// How long a client may be silent, answers to pings included (`defaultWSReadWait`).
const READ_WAIT: Duration = Duration::from_secs(30);
/// How often the server pings (`defaultWSPingPeriod`).
const PING_PERIOD: Duration = Duration::from_secs(27);
/// How long a write may take (`defaultWSWriteWait`).
const WRITE_WAIT: Duration = Duration::from_secs(10);
/// Answers that are written before a flush, if that many are waiting.
const WRITE_BATCH: usize = 64;

/// The answer to a handshake: the switch of protocols, or what was wrong (texts of the `gorilla`
/// server that CometBFT uses).
pub(crate) fn handshake(request: &Request) -> Response {
    let bad = |status: u16, text: &str| {
        let mut response = Response::new(
            status,
            "text/plain; charset=utf-8",
            text.as_bytes().to_vec(),
        );
        response
            .headers
            .push(("Sec-Websocket-Version", "13".to_owned()));
        response
            .headers
            .push(("X-Content-Type-Options", "nosniff".to_owned()));
        response.headers.push(server_time(SystemTime::now()));
        response
    };
    if !request.has_token("connection", "upgrade") || !request.has_token("upgrade", "websocket") {
        return bad(400, "Bad Request\n");
    }
    if request.method != "GET" {
        return bad(405, "Method Not Allowed\n");
    }
    let key = request
        .header("sec-websocket-key")
        .filter(|key| !key.is_empty());
    let (true, Some(key)) = (request.has_token("sec-websocket-version", "13"), key) else {
        return bad(400, "Bad Request\n");
    };
    let headers = vec![
        ("Upgrade", "websocket".to_owned()),
        ("Connection", "Upgrade".to_owned()),
        ("Sec-WebSocket-Accept", derive_accept_key(key.as_bytes())),
    ];
    Response {
        status: 101,
        headers,
        body: Vec::new(),
        close: false,
    }
}

/// Serves an upgraded connection until it ends.
pub(crate) async fn serve(node: &Node, peer: SocketAddr, upgrade: Upgrade) {
    let limit = node.config.rpc.max_body_bytes;
    let config = WebSocketConfig::default()
        .max_message_size(Some(limit))
        .max_frame_size(Some(limit));
    let stream = WebSocketStream::from_partially_read(
        upgrade.stream,
        upgrade.read,
        Role::Server,
        Some(config),
    )
    .await;
    converse(node, peer, stream).await;
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    node: &Node,
    peer: SocketAddr,
    stream: WebSocketStream<S>,
) {
    let (sink, source) = stream.split();
    let (answers, answered) = mpsc::channel(node.config.rpc.websocket_write_buffer_size);
    let (outbox, events) = mpsc::unbounded_channel();
    let subscriber = Subscriber { node, peer };
    tokio::select! {
        () = read(node, peer, source, &answers, &outbox) => {}
        () = write(sink, answered, events) => {}
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

async fn read(
    node: &Node,
    peer: SocketAddr,
    mut source: impl Stream<Item = Result<Message, Error>> + Unpin,
    answers: &mpsc::Sender<Vec<u8>>,
    outbox: &Outbox,
) {
    let silence = tokio::time::sleep(READ_WAIT);
    tokio::pin!(silence);
    let mut heard_at = Instant::now();
    loop {
        let message = tokio::select! {
            biased;
            message = source.next() => message,
            () = &mut silence => {
                if heard_at.elapsed() >= READ_WAIT {
                    return;
                }
                silence.as_mut().reset(heard_at + READ_WAIT);
                continue;
            }
        };
        heard_at = Instant::now();
        let answer = match &message {
            Some(Ok(Message::Text(text))) => handle(node, peer, text.as_bytes(), outbox).await,
            Some(Ok(Message::Binary(bytes))) => handle(node, peer, bytes, outbox).await,
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => None,
            Some(Ok(Message::Close(_)) | Err(_)) | None => return,
        };
        if let Some(answer) = answer
            && answers.send(answer).await.is_err()
        {
            return;
        }
    }
}

/// One request with the faults around it.
async fn handle(node: &Node, peer: SocketAddr, text: &[u8], outbox: &Outbox) -> Option<Vec<u8>> {
    node.counters.requests.fetch_add(1, Ordering::Relaxed);
    if node.faults.untouched() {
        return answer(node, peer, text, outbox).await;
    }
    node.faults.pass().await;
    let answer = answer(node, peer, text, outbox).await;
    node.faults.delay().await;
    node.faults.pass().await;
    match node.faults.now().garbage {
        Some(Garbage::Silence) => None,
        Some(garbage) => answer.map(|answer| garbled(&answer, garbage)),
        None => answer,
    }
}

async fn answer(node: &Node, peer: SocketAddr, text: &[u8], outbox: &Outbox) -> Option<Vec<u8>> {
    if let Some(found) = PlainBroadcast::whole(text)
        && let Some(tx) = found.transaction()
    {
        let result = methods::broadcast(node, found.method, tx, peer).await;
        return Some(outcome(&found.id, result));
    }
    let request = match json::first(text)
        .map_err(RequestFault::Json)
        .and_then(jsonrpc::Request::decode)
    {
        Ok(request) => request,
        Err(fault) => {
            let error = RpcError::Parse(format!("error unmarshaling request: {fault}"));
            return Some(failure_body(None, &error));
        }
    };
    let id = request.id?;
    let Some(method) = table::find(&request.method) else {
        return Some(failure_body(Some(&id), &RpcError::MethodNotFound));
    };
    let args = match request.params.map(|given| params::decode(method, given)) {
        Some(Ok(args)) => args,
        Some(Err(text)) => {
            let error =
                RpcError::Internal(format!("error converting json params to arguments: {text}"));
            return Some(failure_body(Some(&id), &error));
        }
        None if method.params.is_empty() => params::Args::new(Vec::new()),
        None => {
            let error = RpcError::Internal(format!("WSJSONRPC: {TOO_FEW_ARGUMENTS}"));
            return Some(failure_body(Some(&RequestId::NONE), &error));
        }
    };
    let caller = Caller {
        address: peer,
        events: Some((outbox, &id)),
    };
    Some(outcome(
        &id,
        methods::call(node, method.name, args, caller).await,
    ))
}

async fn write(
    mut sink: impl Sink<Message, Error = Error> + Unpin,
    mut answers: mpsc::Receiver<Vec<u8>>,
    mut events: mpsc::UnboundedReceiver<Outgoing>,
) {
    let mut ping = tokio::time::interval_at(Instant::now() + PING_PERIOD, PING_PERIOD);
    let mut batch = Vec::with_capacity(WRITE_BATCH);
    loop {
        tokio::select! {
            biased;
            count = answers.recv_many(&mut batch, WRITE_BATCH) => if count == 0 { return },
            event = events.recv() => {
                let Some(event) = event else { return };
                batch.push(event.body);
                event.waiting.fetch_sub(1, Ordering::Relaxed);
            }
            _ = ping.tick() => {
                let pinged = tokio::time::timeout(WRITE_WAIT, sink.send(Message::Ping(Vec::new().into())));
                if !matches!(pinged.await, Ok(Ok(()))) { return }
            }
        }
        let last = answers.is_empty() && events.is_empty();
        if !matches!(
            tokio::time::timeout(WRITE_WAIT, write_batch(&mut sink, &mut batch, last)).await,
            Ok(Ok(()))
        ) {
            return;
        }
    }
}

async fn write_batch(
    sink: &mut (impl Sink<Message, Error = Error> + Unpin),
    batch: &mut Vec<Vec<u8>>,
    flush: bool,
) -> Result<(), Error> {
    for body in batch.drain(..) {
        let text = Utf8Bytes::try_from(body).map_err(|error| Error::Utf8(error.to_string()))?;
        sink.feed(Message::Text(text)).await?;
    }
    if flush { sink.flush().await } else { Ok(()) }
}
