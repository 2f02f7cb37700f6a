//! What a follower asks a node for: one block and then its codes, and the subscription that announces blocks.

use std::time::Duration;

use rpc::{
    ClientError, ConnectionOptions, Endpoint, Loss, Message, Reconnecting, SourceEvent,
    TaskConnection, Trust, encode_call, number,
};
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use crate::client::{
    BlockAnswer, BlockCodes, BlockContent, Client, CodesAnswer, Naming, Status, at_height,
    hash_of_successes,
};

/// What a fetch found, and the buffer for the next one.
pub(super) struct Fetched {
    pub(super) found: Found,
    pub(super) buffer: Vec<u8>,
}

/// The state of one height at the node.
pub(super) enum Found {
    /// The block.
    Block(Box<BlockContent>),
    /// The node has no such block: what it has instead, and its message.
    Absent(Status, String),
    /// No answer.
    Unknown(ClientError),
    /// What became of the transactions of a block that was fetched before; `None` when the header of the
    /// next height does not show it and the results are not asked for.
    Codes(Box<BlockContent>, Result<Option<BlockCodes>, ClientError>),
}

/// How the codes of a block are found.
#[derive(Clone, Copy)]
pub(super) struct CodeSources {
    /// The header of the next height is there: its hash over the results shows whether all succeeded, in
    /// a kilobyte.
    pub(super) next_header: bool,
    /// `block_results`, hundreds of bytes for each transaction.
    pub(super) results: bool,
}

/// Asks for a block. Large bodies are decoded on the blocking pool, so that announcements are
/// stamped meanwhile.
pub(super) async fn fetch_block<N: Naming>(
    client: Client,
    height: u64,
    mut buffer: Vec<u8>,
) -> Fetched {
    let found = find::<N>(&client, height, &mut buffer).await;
    Fetched::with(found.unwrap_or_else(Found::Unknown), buffer)
}

/// Asks for the codes of a block that has transactions.
pub(super) async fn fetch_codes(
    client: Client,
    block: Box<BlockContent>,
    sources: CodeSources,
    mut buffer: Vec<u8>,
) -> Fetched {
    let (height, count) = (block.height, block.hashes.len());
    let found = find_codes(&client, height, count, sources, &mut buffer).await;
    Fetched::with(Found::Codes(block, found), buffer)
}

impl Fetched {
    fn with(found: Found, mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.shrink_to(KEEP_BUFFER);
        Self { found, buffer }
    }
}

async fn find<N: Naming>(
    client: &Client,
    height: u64,
    buffer: &mut Vec<u8>,
) -> Result<Found, ClientError> {
    let asked = client.fetch("block", &at_height(height), buffer).await;
    let answer = match asked {
        Ok(()) => decode::<BlockAnswer<N>>(client, "block", buffer).await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(BlockAnswer {
            content: Some(block),
            ..
        }) if block.height == height => Ok(Found::Block(Box::new(block))),
        Ok(BlockAnswer {
            content: Some(block),
            ..
        }) => {
            let reason = format!("asked for block {height}, got block {}", block.height);
            Err(client.unexpected("block", &reason))
        }
        Ok(BlockAnswer { content: None, .. }) => absent(client, "no block".to_owned()).await,
        Err(error @ ClientError::Rpc { .. }) => absent(client, error.to_string()).await,
        Err(error) => Err(error),
    }
}

async fn absent(client: &Client, said: String) -> Result<Found, ClientError> {
    let status = client.status().await?;
    Ok(Found::Absent(status, said))
}

async fn find_codes(
    client: &Client,
    height: u64,
    count: usize,
    sources: CodeSources,
    buffer: &mut Vec<u8>,
) -> Result<Option<BlockCodes>, ClientError> {
    if sources.next_header {
        let hash = match client.results_hash(height, buffer).await {
            Err(error) if error.is_from_node() => None,
            answer => answer?,
        };
        if hash == Some(hash_of_successes(count)) {
            return Ok(Some(BlockCodes {
                count,
                ..BlockCodes::default()
            }));
        }
    }
    if !sources.results {
        return Ok(None);
    }
    client
        .fetch("block_results", &at_height(height), buffer)
        .await?;
    let answer: CodesAnswer = decode(client, "block_results", buffer).await?;
    if answer.codes.count != count {
        let reason = format!("{} results for {count} transactions", answer.codes.count);
        return Err(client.unexpected("block_results", &reason));
    }
    Ok(Some(answer.codes))
}

async fn decode<T>(
    client: &Client,
    method: &'static str,
    buffer: &mut Vec<u8>,
) -> Result<T, ClientError>
where
    T: serde::de::DeserializeOwned + Send + 'static,
{
    if buffer.len() < BLOCKING_BYTES {
        return client.decode(method, buffer);
    }
    let body = std::mem::take(buffer);
    let decoder = client.clone();
    let task = tokio::task::spawn_blocking(move || {
        let result = decoder.decode(method, &body);
        (result, body)
    });
    // A blocking task fails only by a panic, or when the runtime ends before it began.
    match task.await {
        Ok((result, body)) => {
            *buffer = body;
            result
        }
        Err(error) => Err(client.unexpected(method, &format!("decoding was broken off: {error}"))),
    }
}

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

/// Below this size decoding takes less than switching threads is worth (about 0.2 ms).
const BLOCKING_BYTES: usize = 128 << 10;
/// A body buffer up to this size is kept between blocks.
const KEEP_BUFFER: usize = 1 << 20;

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
