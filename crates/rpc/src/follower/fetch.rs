//! One block with its codes.

use crate::client::{
    BlockAnswer, BlockCodes, BlockContent, Client, ClientError, CodesAnswer, Status, at_height,
};

/// What a fetch found, and the buffer for the next one.
pub(super) struct Fetched {
    pub(super) result: Result<Found, ClientError>,
    pub(super) buffer: Vec<u8>,
}

/// The state of one height at the node.
pub(super) enum Found {
    /// The block and, where asked for and there, its codes.
    Block(Box<BlockContent>, Result<Option<BlockCodes>, ClientError>),
    /// The node says it has no such block: what it has instead.
    Absent(Status),
}

/// Asks for a block. Large bodies are decoded on the blocking pool, so that announcements are
/// stamped meanwhile.
pub(super) async fn fetch(client: Client, height: u64, codes: bool, buffer: Vec<u8>) -> Fetched {
    let mut buffer = buffer;
    let result = find(&client, height, codes, &mut buffer).await;
    buffer.clear();
    buffer.shrink_to(KEEP_BUFFER);
    Fetched { result, buffer }
}

async fn find(
    client: &Client,
    height: u64,
    codes: bool,
    buffer: &mut Vec<u8>,
) -> Result<Found, ClientError> {
    let asked = client.fetch("block", &at_height(height), buffer).await;
    let answer = match asked {
        Ok(()) => decode(client, "block", buffer).await,
        Err(error) => Err(error),
    };
    let block = match answer {
        Ok(BlockAnswer {
            content: Some(block),
        }) if block.height == height => Box::new(block),
        Ok(BlockAnswer {
            content: Some(block),
        }) => {
            let reason = format!("asked for block {height}, got block {}", block.height);
            return Err(client.unexpected("block", &reason));
        }
        Ok(BlockAnswer { content: None }) | Err(ClientError::Rpc { .. }) => {
            return client.status().await.map(Found::Absent);
        }
        Err(error) => return Err(error),
    };
    if !codes || block.hashes.is_empty() {
        let known = codes.then(BlockCodes::default);
        return Ok(Found::Block(block, Ok(known)));
    }
    let codes = match results(client, height, block.hashes.len(), buffer).await {
        Err(error) if !error.is_from_node() => return Err(error),
        result => result.map(Some),
    };
    Ok(Found::Block(block, codes))
}

async fn results(
    client: &Client,
    height: u64,
    count: usize,
    buffer: &mut Vec<u8>,
) -> Result<BlockCodes, ClientError> {
    client
        .fetch("block_results", &at_height(height), buffer)
        .await?;
    let answer: CodesAnswer = decode(client, "block_results", buffer).await?;
    if answer.codes.count != count {
        let reason = format!("{} results for {count} transactions", answer.codes.count);
        return Err(client.unexpected("block_results", &reason));
    }
    Ok(answer.codes)
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

/// Below this size decoding takes less than switching threads is worth (about 0.2 ms).
const BLOCKING_BYTES: usize = 128 << 10;
/// A body buffer up to this size is kept between blocks.
const KEEP_BUFFER: usize = 64 << 20;
