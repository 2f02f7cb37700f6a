//! Questions of our own to a node, their answers charged to the ledger.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fairq::ClientKey;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method};
use tokio::time::sleep;

use super::UpstreamError;
use super::body::Pieces as _;
use super::http::{Outgoing, Repeat};
use super::nodes::{NodeIndex, Nodes};
use super::reads::content_length;
use super::reply::is_error;
pub(super) use super::reply::{charged, decode, result};
use super::results::BlockResults;
use super::target;
use crate::ledger::Ledger;

impl Nodes {
    /// The results of a block's transactions. Those who ask for the same block share one fetch and
    /// its memory, which is charged to the ledger.
    ///
    /// # Errors
    /// [`UpstreamError`]: no answer, no room, or the node does not have them, after a second of
    /// asking again (they are saved a moment after the block).
    ///
    /// # Cancel safety
    /// When the one who fetches is dropped, another one who waits fetches.
    pub async fn results(
        &self,
        node: NodeIndex,
        height: u64,
    ) -> Result<Arc<BlockResults>, UpstreamError> {
        let cell = self.results_cache().cell(node, height);
        let fetch = || async {
            let body = ask_at(self, node, "block_results", height).await?;
            decode(body, BlockResults::parse).await.map(Arc::new)
        };
        cell.get_or_try_init(fetch).await.cloned()
    }
}

impl Nodes {
    /// The result of one transaction that is in the block of this height, charged to a client. The transaction is
    /// indexed a moment after its block.
    ///
    /// # Errors
    /// [`UpstreamError`]: no answer, no room, or ([`UpstreamError::Refused`]) the node indexes no transactions, or
    /// not this one.
    ///
    /// # Cancel safety
    /// Dropping the future drops the question.
    pub async fn tx_result(
        &self,
        node: NodeIndex,
        client: ClientKey,
        (hash, height): (&[u8; 32], u64),
    ) -> Result<BlockResults, UpstreamError> {
        let hash = base64_simd::STANDARD.encode_to_string(hash);
        let params = format!(r#"{{"hash":"{hash}","prove":false}}"#);
        let mut attempts = 1;
        loop {
            let ledger = self.ledger().of(client);
            let body = ask_on(&ledger, self, node, ("tx", &params)).await?;
            match BlockResults::parse_tx(body, height) {
                Err(UpstreamError::Refused(text))
                    if attempts < ATTEMPTS && text.ends_with("not found") =>
                {
                    attempts += 1;
                    sleep(PAUSE).await;
                }
                read => return read,
            }
        }
    }
}

/// Asks a node. `params` is a JSON object as text. The answer's body stays charged to the ledger
/// until its last part is dropped.
///
/// # Errors
/// [`UpstreamError`]; [`UpstreamError::Refused`] is not among them, as the body is not read.
///
/// # Cancel safety
/// Dropping the future drops the question.
pub(super) async fn ask(
    nodes: &Nodes,
    node: NodeIndex,
    method: &str,
    params: &str,
) -> Result<Bytes, UpstreamError> {
    ask_on(nodes.ledger(), nodes, node, (method, params)).await
}

/// The same, charged to this account.
async fn ask_on(
    ledger: &Ledger,
    nodes: &Nodes,
    node: NodeIndex,
    (method, params): (&str, &str),
) -> Result<Bytes, UpstreamError> {
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
    let asked = nodes.node(node);
    let json = HeaderValue::from_static("application/json");
    let request = Outgoing {
        method: Method::POST,
        uri: target::uri(&asked.base, &Bytes::from_static(b"/"))?,
        headers: HeaderMap::from_iter([(CONTENT_TYPE, json)]),
        body: body.into(),
        repeat: Repeat::Always,
    };
    let limit = ledger.capacity() / ANSWER_SHARE;
    let answer = asked.http.send(request).await?;
    let announced = content_length(answer.headers()).unwrap_or(0);
    let announced = usize::try_from(announced).unwrap_or(usize::MAX);
    let too_large = UpstreamError::TooLarge(limit);
    if announced > limit {
        return Err(too_large);
    }
    let mut charge = ledger.reserve(announced).ok_or(UpstreamError::Memory)?;
    let mut answer = answer.into_body();
    let mut body = Vec::with_capacity(announced);
    while let Some(piece) = answer.next().await {
        let piece = piece?;
        let len = body.len() + piece.len();
        if len > limit {
            return Err(too_large);
        }
        if len > charge.bytes() && !charge.grow(len - charge.bytes()) {
            return Err(UpstreamError::Memory);
        }
        body.extend_from_slice(&piece);
    }
    Ok(charged(body, charge))
}

/// Asks a node about a block it has. What belongs to a block is saved a moment after it, so a
/// refusal is taken seriously only after a second of asking again.
///
/// # Errors
/// As [`ask`].
pub(super) async fn ask_at(
    nodes: &Nodes,
    node: NodeIndex,
    method: &str,
    height: u64,
) -> Result<Bytes, UpstreamError> {
    let params = format!(r#"{{"height":"{height}"}}"#);
    let mut attempts = 1;
    loop {
        let body = ask(nodes, node, method, &params).await?;
        if attempts == ATTEMPTS || !is_error(&body) {
            return Ok(body);
        }
        attempts += 1;
        sleep(PAUSE).await;
    }
}

/// One answer takes at most this part of the ledger.
pub(super) const ANSWER_SHARE: usize = 4;
/// So often a node is asked about a block before its refusal counts.
const ATTEMPTS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(25);
