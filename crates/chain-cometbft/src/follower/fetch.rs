//! One block, and then its codes.

use crate::client::{
    BlockAnswer, BlockCodes, BlockContent, Client, CodesAnswer, Naming, Status, at_height,
    hash_of_successes,
};
use rpc::ClientError;

/// What a fetch found, and the buffer for the next one.
pub(super) struct Fetched {
    pub(super) found: Found,
    pub(super) buffer: Vec<u8>,
}

/// The state of one height at the node.
pub(super) enum Found {
    /// The block.
    Block(Box<BlockContent>),
    /// The node says it has no such block: what it has instead, and what it said.
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

/// Below this size decoding takes less than switching threads is worth (about 0.2 ms).
const BLOCKING_BYTES: usize = 128 << 10;
/// A body buffer up to this size is kept between blocks.
const KEEP_BUFFER: usize = 1 << 20;
