//! The subscription that says when to look.

use std::pin::Pin;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use rpc::{
    Backoff, ConnectionOptions, Endpoint, Loss, Message, SourceEvent, TaskConnection, Trust,
    encode_call, number,
};

type Connecting = Pin<Box<dyn Future<Output = Result<TaskConnection, String>> + Send>>;

/// A subscription to new headers that connects again by itself.
pub(super) struct Wake {
    endpoint: Endpoint,
    options: ConnectionOptions,
    state: WakeState,
    backoff: Backoff,
}

enum WakeState {
    Waiting(Instant),
    Connecting(Connecting),
    /// The connection, and when bytes last came in on it.
    Open(Box<TaskConnection>, Instant),
}

impl Wake {
    pub(super) fn new(endpoint: Endpoint, trust: Trust, max_backoff: Duration) -> Self {
        let options = ConnectionOptions {
            max_message_bytes: MAX_EVENT_BYTES,
            trust,
            ..Default::default()
        };
        Self {
            endpoint,
            options,
            state: WakeState::Waiting(Instant::now()),
            backoff: Backoff::new(max_backoff),
        }
    }

    /// The next event.
    ///
    /// Cancel safe: all progress is in `self`. It ends at once only when something happened, and
    /// every loss and every failed attempt is followed by a pause.
    pub(super) async fn next(&mut self) -> SourceEvent {
        loop {
            match &mut self.state {
                WakeState::Waiting(until) => {
                    sleep_until(*until).await;
                    let attempt = connect(self.endpoint.clone(), self.options.clone());
                    self.state = WakeState::Connecting(Box::pin(attempt));
                }
                WakeState::Connecting(attempt) => match attempt.await {
                    Ok(socket) => {
                        self.state = WakeState::Open(Box::new(socket), Instant::now());
                        return SourceEvent::Open;
                    }
                    Err(reason) => {
                        self.wait();
                        return SourceEvent::Refused(reason);
                    }
                },
                WakeState::Open(socket, heard) => match listen(socket, heard).await {
                    Ok(height) => {
                        self.backoff.reset();
                        return SourceEvent::Height(height);
                    }
                    Err(reason) => {
                        self.wait();
                        return SourceEvent::Lost(reason);
                    }
                },
            }
        }
    }

    fn wait(&mut self) {
        self.state = WakeState::Waiting(Instant::now() + self.backoff.pause());
    }
}

/// Connects and subscribes.
async fn connect(endpoint: Endpoint, options: ConnectionOptions) -> Result<TaskConnection, String> {
    let attempt = async {
        let opened = TaskConnection::open(&endpoint, &options).await;
        let mut connection = opened.map_err(|error| error.to_string())?;
        let request = encode_call(0, "subscribe", r#"{"query":"tm.event='NewBlockHeader'"}"#);
        connection.connection().queue(request.as_bytes());
        // The first message answers the subscription.
        let mut confirmed = None;
        while confirmed.is_none() {
            let read = connection.read(|message| {
                confirmed.get_or_insert_with(|| read_event(message).map(drop));
            });
            let read = read.await;
            if confirmed.is_none() {
                read.map_err(|error| error.to_string())?;
            }
        }
        match confirmed {
            Some(Err(EventError::Refused(error))) => {
                Err(format!("the node refused the subscription: {error}"))
            }
            Some(Err(EventError::Unreadable(error))) => Err(error.to_string()),
            _ => Ok(connection),
        }
    };
    timeout(CONNECT_LIMIT, attempt)
        .await
        .map_err(|_| "no answer in time".to_owned())?
}

/// Waits for the next announcement. Cancel safe: all it knows is in its arguments.
async fn listen(connection: &mut TaskConnection, heard: &mut Instant) -> Result<u64, Loss> {
    loop {
        // Of the heights that come in together only the highest counts.
        let mut announced = Ok(None);
        let read = connection.read(|message| {
            if let Ok(highest) = announced {
                announced = read_event(message).map(|height| height.max(highest));
            }
        });
        // The node pings every 27 s: longer silence means that nobody is there any more.
        let read = timeout_at(*heard + SILENCE_LIMIT, read).await;
        let read = read.map_err(|_| Loss::open("the websocket fell silent"))?;
        *heard = Instant::now();
        match announced {
            Ok(Some(height)) => return Ok(height),
            Ok(None) => {}
            // A subscriber that reads too slowly is thrown out with an error.
            Err(EventError::Refused(error)) => {
                let reason = format!("the node ended the subscription: {error}");
                return Err(Loss::open(reason));
            }
            Err(EventError::Unreadable(error)) => {
                let reason = format!("an announcement cannot be read: {error}");
                return Err(Loss::open(reason));
            }
        }
        read.map_err(|error| Loss::closed(error.to_string()))?;
    }
}

/// The height that a message announces, if it announces one.
fn read_event(message: Message<'_>) -> Result<Option<u64>, EventError> {
    let event: Event = serde_json::from_slice(message.body).map_err(EventError::Unreadable)?;
    match event.error {
        Some(error) => Err(EventError::Refused(error)),
        None => Ok(event.height()),
    }
}

/// Why a message is no announcement.
enum EventError {
    Unreadable(serde_json::Error),
    /// A JSON-RPC error.
    Refused(serde_json::Value),
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

const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// A header is about 1 KB; events of the application that come with it may be more.
const MAX_EVENT_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_are_found_in_events() {
        let height = |text: &str| serde_json::from_str::<Event>(text).unwrap().height();
        let event = r#"{"jsonrpc":"2.0","id":0,"result":{"query":"tm.event='NewBlockHeader'","data":{"type":"tendermint/event/NewBlockHeader","value":{"header":{"chain_id":"c","height":"31"}}},"events":{"tm.event":["NewBlockHeader"]}}}"#;
        assert_eq!(height(event), Some(31));
        assert_eq!(height(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#), None);
    }
}
