//! The event stream: over a WebSocket, one message for each transaction of a block, after the
//! block is committed, in its order.
//!
//! The original writes to its clients one after the other, so that a slow one holds up the rest.
//! Here each has its own pace; one that falls too many blocks behind is cut off, and finds what it
//! missed in `/api/v1/blocks`.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{Sink, SinkExt, StreamExt};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::app::bigchaindb::ValidTransactions;
use crate::http::{Request, Response, Upgrade};
use crate::node::Node;
use crate::rpc;

/// Where the stream is.
pub(crate) const PATH: &str = "/api/v1/streams/valid_transactions";
/// How long writing a block's messages may take.
const WRITE_WAIT: Duration = Duration::from_secs(10);
/// Largest message that a client may send; the stream has no use for any.
const MAX_MESSAGE: usize = 64 << 10;

/// Blocks as they are committed.
pub(crate) type Listener = Receiver<Arc<ValidTransactions>>;

/// The answer to a handshake, and what hears of blocks from now on if it succeeds.
pub(crate) fn handshake(node: &Node, request: &Request) -> (Response, Option<Listener>) {
    let app = node.app.bigchaindb().filter(|_| request.path() == PATH);
    let Some(app) = app else {
        let text = b"404: Not Found".to_vec();
        return (Response::new(404, "text/plain; charset=utf-8", text), None);
    };
    let listener = app.listen();
    let response = rpc::ws::handshake(request);
    let listener = (response.status == 101).then_some(listener);
    (response, listener)
}

/// Serves an upgraded connection until it ends.
pub(crate) async fn serve(node: &Node, upgrade: Upgrade, mut blocks: Listener) {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE));
    let stream = WebSocketStream::from_partially_read(
        upgrade.stream,
        upgrade.read,
        Role::Server,
        Some(config),
    )
    .await;
    let (mut sink, mut source) = stream.split();
    loop {
        let block = tokio::select! {
            message = source.next() => match message {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => continue,
            },
            block = blocks.recv() => block,
        };
        node.faults.pass().await;
        let (written, goes_on) = match block {
            Ok(block) => (write(&mut sink, &block).await, true),
            Err(RecvError::Lagged(missed)) => (cut_off(&mut sink, missed).await, false),
            Err(RecvError::Closed) => return,
        };
        if written.is_err() || !goes_on {
            return;
        }
    }
}

async fn write(
    sink: &mut (impl Sink<Message, Error = Error> + Unpin),
    block: &ValidTransactions,
) -> Result<(), Error> {
    let all = async {
        for message in &block.messages {
            sink.feed(Message::Text(message.clone())).await?;
        }
        sink.flush().await
    };
    tokio::time::timeout(WRITE_WAIT, all)
        .await
        .unwrap_or(Err(Error::ConnectionClosed))
}

/// Tells a client that it lost blocks, as far as it still listens.
async fn cut_off(
    sink: &mut (impl Sink<Message, Error = Error> + Unpin),
    missed: u64,
) -> Result<(), Error> {
    let frame = CloseFrame {
        code: CloseCode::Policy,
        reason: format!("too slow: missed {missed} blocks, see /api/v1/blocks").into(),
    };
    tokio::time::timeout(WRITE_WAIT, sink.send(Message::Close(Some(frame))))
        .await
        .unwrap_or(Err(Error::ConnectionClosed))
}
