//! The subscription that says when to look.

use std::pin::Pin;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{
    Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config,
};

use crate::client::{ClientError, number};
use crate::codec::encode_call;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;
type Connecting = Pin<Box<dyn Future<Output = Result<Socket, String>> + Send>>;

/// A subscription to new headers that connects again by itself.
pub(super) struct Wake {
    url: String,
    connector: Connector,
    state: State,
    backoff: Backoff,
}

enum State {
    Waiting(Instant),
    Connecting(Connecting),
    /// The socket, and when something was last heard on it.
    Open(Box<Socket>, Instant),
}

/// What a subscription tells.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WakeEvent {
    /// New blocks will be announced.
    Open,
    /// The node has this block.
    Height(u64),
    /// They will not be announced any more; it tries again.
    Lost(Loss),
}

/// Why something was lost.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) reason: String,
    /// Whether the connection ended, as when the node stops.
    pub(super) closed: bool,
}

impl Loss {
    fn closed(reason: &str) -> Self {
        Self {
            reason: reason.to_string(),
            closed: true,
        }
    }

    /// A query that failed.
    pub(super) fn of(error: &ClientError) -> Self {
        Self {
            reason: error.to_string(),
            closed: matches!(error, ClientError::Unreachable { .. }),
        }
    }

    fn open(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            closed: false,
        }
    }
}

/// Pauses that double.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    next: Duration,
    max: Duration,
}

impl Backoff {
    pub(crate) fn new(max: Duration) -> Self {
        Self {
            next: FIRST_PAUSE.min(max),
            max,
        }
    }

    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.max);
        pause
    }

    pub(crate) fn reset(&mut self) {
        self.next = FIRST_PAUSE.min(self.max);
    }
}

impl Wake {
    pub(super) fn new(url: String, connector: Connector, max_backoff: Duration) -> Self {
        let backoff = Backoff::new(max_backoff);
        Self {
            url,
            connector,
            state: State::Waiting(Instant::now()),
            backoff,
        }
    }

    /// The next event.
    ///
    /// Cancel safe: all progress is in `self`. It ends at once only when something happened, and
    /// every loss is followed by a pause.
    pub(super) async fn next(&mut self) -> WakeEvent {
        loop {
            match &mut self.state {
                State::Waiting(until) => {
                    sleep_until(*until).await;
                    let attempt = connect(self.url.clone(), self.connector.clone());
                    self.state = State::Connecting(Box::pin(attempt));
                }
                State::Connecting(attempt) => match attempt.await {
                    Ok(socket) => {
                        self.state = State::Open(Box::new(socket), Instant::now());
                        return WakeEvent::Open;
                    }
                    Err(_) => self.wait(),
                },
                State::Open(socket, heard) => match listen(socket, heard).await {
                    Ok(height) => {
                        self.backoff.reset();
                        return WakeEvent::Height(height);
                    }
                    Err(reason) => {
                        self.wait();
                        return WakeEvent::Lost(reason);
                    }
                },
            }
        }
    }

    fn wait(&mut self) {
        self.state = State::Waiting(Instant::now() + self.backoff.pause());
    }
}

/// Connects and subscribes.
async fn connect(url: String, connector: Connector) -> Result<Socket, String> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_EVENT_BYTES))
        .max_frame_size(Some(MAX_EVENT_BYTES));
    let attempt = async {
        let connecting = connect_async_tls_with_config(url, Some(config), true, Some(connector));
        let (mut socket, _) = connecting.await.map_err(|error| error.to_string())?;
        let request = encode_call(0, "subscribe", r#"{"query":"tm.event='NewBlockHeader'"}"#);
        socket
            .send(Message::text(request))
            .await
            .map_err(|error| error.to_string())?;
        confirm(&mut socket).await?;
        Ok(socket)
    };
    timeout(CONNECT_LIMIT, attempt)
        .await
        .map_err(|_| "no answer in time".to_owned())?
}

/// Waits for the answer to the subscription.
async fn confirm(socket: &mut Socket) -> Result<(), String> {
    while let Some(message) = socket.next().await {
        let Message::Text(text) = message.map_err(|error| error.to_string())? else {
            continue;
        };
        let event: Event = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        return match event.error {
            Some(error) => Err(format!("the node refused the subscription: {error}")),
            None => Ok(()),
        };
    }
    Err("the node closed the websocket".to_owned())
}

/// Waits for the next announcement. Cancel safe: all it knows is in its arguments.
async fn listen(socket: &mut Socket, heard: &mut Instant) -> Result<u64, Loss> {
    loop {
        // The node pings every 27 s: longer silence means that nobody is there any more.
        let message = timeout_at(*heard + SILENCE_LIMIT, socket.next()).await;
        let message = message.map_err(|_| Loss::open("the websocket fell silent"))?;
        *heard = Instant::now();
        let message = message.ok_or_else(|| Loss::closed("the node closed the websocket"))?;
        let text = match message.map_err(|error| Loss::closed(&error.to_string()))? {
            Message::Text(text) => text,
            Message::Close(_) => return Err(Loss::closed("the node closed the websocket")),
            _ => continue,
        };
        let event: Event = serde_json::from_str(&text)
            .map_err(|error| Loss::open(format!("an announcement cannot be read: {error}")))?;
        if let Some(error) = event.error {
            // A subscriber that reads too slowly is thrown out with an error.
            return Err(Loss::open(format!(
                "the node ended the subscription: {error}"
            )));
        }
        if let Some(height) = event.height() {
            return Ok(height);
        }
    }
}

#[derive(Deserialize)]
struct Event {
    result: Option<EventResult>,
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct EventResult {
    data: Option<EventData>,
}

#[derive(Deserialize)]
struct EventData {
    value: Option<EventValue>,
}

#[derive(Deserialize)]
struct EventValue {
    header: Option<Header>,
}

#[derive(Deserialize)]
struct Header {
    #[serde(deserialize_with = "number")]
    height: u64,
}

impl Event {
    fn height(self) -> Option<u64> {
        Some(self.result?.data?.value?.header?.height)
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// A header is about 1 KB; events of the application that come with it may be more.
const MAX_EVENT_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit() {
        let mut backoff = Backoff::new(Duration::from_millis(150));
        let pauses = [(); 4].map(|()| backoff.pause().as_millis());
        assert_eq!(pauses, [50, 100, 150, 150]);
        backoff.reset();
        assert_eq!(backoff.pause().as_millis(), 50);
    }

    #[test]
    fn heights_are_found_in_events() {
        let height = |text: &str| serde_json::from_str::<Event>(text).unwrap().height();
        let event = r#"{"jsonrpc":"2.0","id":0,"result":{"query":"tm.event='NewBlockHeader'","data":{"type":"tendermint/event/NewBlockHeader","value":{"header":{"chain_id":"c","height":"31"}}},"events":{"tm.event":["NewBlockHeader"]}}}"#;
        assert_eq!(height(event), Some(31));
        assert_eq!(height(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#), None);
    }
}
