//! The subscription that says when to look.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use rpc::{
    ConnectionOptions, Endpoint, Loss, Message, Reconnecting, SourceEvent, TaskConnection, Trust,
    encode_call, number,
};

/// A subscription to new headers that connects again by itself.
pub(super) struct Wake {
    stream: Reconnecting,
    /// When something was last read, or tried.
    heard: Instant,
}

impl Wake {
    pub(super) fn new(endpoint: Endpoint, trust: Trust, max_backoff: Duration) -> Self {
        let options = ConnectionOptions {
            max_message_bytes: MAX_EVENT_BYTES,
            trust,
            ..Default::default()
        };
        let connect = move || connect(endpoint.clone(), options.clone());
        Self {
            stream: Reconnecting::new(max_backoff, connect),
            heard: Instant::now(),
        }
    }

    /// The next event.
    ///
    /// Cancel safe: all progress is in `self`.
    pub(super) async fn next(&mut self) -> SourceEvent {
        loop {
            // Of the heights that come in together only the highest counts.
            let mut announced = Ok(None);
            let read = self.stream.read(|message| {
                if let Ok(highest) = announced {
                    announced = read_event(message).map(|height| height.max(highest));
                }
            });
            // The node pings every 27 s: longer silence means that the connection is dead.
            let read = timeout_at(self.heard + SILENCE_LIMIT, read).await;
            self.heard = Instant::now();
            let loss = match (announced, read) {
                (_, Err(_)) => Loss::open("the websocket fell silent"),
                (_, Ok(Err(event))) => return event,
                (Ok(Some(height)), _) => {
                    self.stream.succeeded();
                    return SourceEvent::Height(height);
                }
                // A subscriber that reads too slowly is thrown out with an error.
                (Err(EventError::Refused(error)), _) => {
                    Loss::open(format!("the node ended the subscription: {error}"))
                }
                (Err(EventError::Unreadable(error)), _) => {
                    Loss::open(format!("an announcement cannot be read: {error}"))
                }
                (Ok(None), Ok(Ok(Ok(_)))) => continue,
                (Ok(None), Ok(Ok(Err(error)))) => Loss::closed(error.to_string()),
            };
            return self.stream.lose(loss);
        }
    }
}

/// Connects and subscribes.
async fn connect(endpoint: Endpoint, options: ConnectionOptions) -> Result<TaskConnection, String> {
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
