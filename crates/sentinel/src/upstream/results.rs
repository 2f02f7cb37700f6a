//! What became of a block's transactions.

use std::time::Duration;

use bytes::Bytes;
use fairq::ClientKey;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::UpstreamError;
use super::node_state::NodeIndex;
use super::nodes::Nodes;
use super::query::{garbage, result};

/// The results of one block's transactions as the node wrote them: parts of its answer.
#[derive(Debug)]
pub struct BlockResults(Vec<Bytes>);

impl Nodes {
    /// The results of a block's transactions, charged to the ledger.
    ///
    /// # Errors
    /// [`UpstreamError`]: no answer, no room, or the node does not have them, after a second of
    /// asking again (they are saved a moment after the block).
    ///
    /// # Cancel safety
    /// Dropping the future drops the question.
    pub async fn results(
        &self,
        node: NodeIndex,
        height: u64,
    ) -> Result<BlockResults, UpstreamError> {
        let params = format!(r#"{{"height":"{height}"}}"#);
        let ask = || async {
            let http = &self.node(node).http;
            let body = http.ask(("block_results", &params), self.ledger()).await?;
            BlockResults::decode(body).await
        };
        ask_again(|_| true, ask).await
    }

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
        let account = self.ledger().of(client);
        let ask = || async {
            let body = self.node(node).http.ask(("tx", &params), &account).await?;
            BlockResults::parse_tx(&body, height)
        };
        ask_again(|text| text.ends_with("not found"), ask).await
    }
}

/// Asks about a block that the node has. What belongs to it is saved a moment later, so a refusal that may be too
/// early counts only after a second of asking again.
async fn ask_again<T, F>(
    is_early: fn(&str) -> bool,
    ask: impl Fn() -> F,
) -> Result<T, UpstreamError>
where
    F: Future<Output = Result<T, UpstreamError>>,
{
    let mut attempts = 1;
    loop {
        match ask().await {
            Err(UpstreamError::Refused(text)) if attempts < ATTEMPTS && is_early(&text) => {
                attempts += 1;
                sleep(PAUSE).await;
            }
            answer => return answer,
        }
    }
}

impl BlockResults {
    /// The result of the block's transaction at this place, compact JSON: the node's `tx_result`
    /// of `broadcast_tx_commit`, byte for byte. `None` past the last one.
    pub fn tx_result(&self, place: usize) -> Option<&str> {
        let result = std::str::from_utf8(self.0.get(place)?).ok()?;
        // Tendermint up to 0.33 leaves out zero values, and `null` is the code 0 of a whole result.
        Some(if result == "null" { "{}" } else { result })
    }

    /// Reads the answer to `tx`: the result of one transaction, if it is in the block of this height.
    fn parse_tx(body: &Bytes, height: u64) -> Result<Self, UpstreamError> {
        #[derive(Deserialize)]
        struct Answer<'a> {
            height: &'a str,
            #[serde(borrow)]
            tx_result: &'a RawValue,
        }
        let answer: Answer<'_> = result(body)?;
        if answer.height.parse() != Ok(height) {
            let text = format!("the transaction is indexed in block {}", answer.height);
            return Err(UpstreamError::Refused(text));
        }
        Ok(Self(vec![part(body, answer.tx_result)]))
    }

    /// Reads the answer to `block_results`: a long one on a thread for blocking work.
    async fn decode(body: Bytes) -> Result<Self, UpstreamError> {
        if body.len() < BLOCKING_BYTES {
            return Self::parse(&body);
        }
        let parsed = spawn_blocking(move || Self::parse(&body)).await;
        // It fails only by a panic, or when the runtime ends before it began.
        parsed.unwrap_or_else(|error| Err(garbage(&error)))
    }

    fn parse(body: &Bytes) -> Result<Self, UpstreamError> {
        #[derive(Deserialize)]
        struct Answer<'a> {
            #[serde(borrow, default)]
            txs_results: Option<Vec<&'a RawValue>>,
            /// Up to Tendermint 0.33.
            #[serde(borrow, default)]
            results: Option<OldResults<'a>>,
        }
        #[derive(Deserialize)]
        struct OldResults<'a> {
            #[serde(borrow, default, rename = "DeliverTx", alias = "deliver_tx")]
            executed: Option<Vec<&'a RawValue>>,
        }
        let answer: Answer<'_> = result(body)?;
        let old = answer.results.and_then(|old| old.executed);
        let results = answer.txs_results.or(old).unwrap_or_default();
        let results = results.into_iter().map(|result| part(body, result));
        Ok(Self(results.collect()))
    }
}

fn part(body: &Bytes, part: &RawValue) -> Bytes {
    body.slice_ref(part.get().as_bytes())
}

/// So often a node is asked about a block before its refusal counts.
const ATTEMPTS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(25);
/// Below this size decoding takes less than switching threads is worth (about 0.2 ms).
const BLOCKING_BYTES: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_result_is_handed_out_as_it_was_written() {
        let body = r#"{"jsonrpc":"2.0","id":1,"result":{"height":"5","txs_results":[{"code":0,"data":null},{"code":7}],"app_hash":""}}"#;
        let results = BlockResults::parse(&Bytes::from_static(body.as_bytes())).unwrap();
        assert_eq!(results.tx_result(0), Some(r#"{"code":0,"data":null}"#));
        assert_eq!(results.tx_result(1), Some(r#"{"code":7}"#));
        assert_eq!((results.tx_result(2), results.0.len()), (None, 2));
    }

    #[test]
    fn a_block_without_transactions_has_no_results() {
        let body = br#"{"jsonrpc":"2.0","id":1,"result":{"height":"5","txs_results":null}}"#;
        let results = BlockResults::parse(&Bytes::from_static(body)).unwrap();
        assert!(results.0.is_empty());
    }

    #[test]
    fn case_93_the_result_of_a_transaction_is_read_in_every_version() {
        for dialect in testkit::Dialect::ALL {
            let recorded = dialect.answer("tx").unwrap();
            let answer: serde_json::Value = serde_json::from_str(recorded).unwrap();
            let height = answer["result"]["height"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap();
            let body = || Bytes::from_static(recorded.as_bytes());
            let read = BlockResults::parse_tx(&body(), height).unwrap();
            let result: serde_json::Value =
                serde_json::from_str(read.tx_result(0).unwrap()).unwrap();
            assert_eq!(result, answer["result"]["tx_result"], "{}", dialect.version);
            // The same transaction, in another block.
            assert!(BlockResults::parse_tx(&body(), height + 1).is_err());
        }
    }

    #[test]
    fn versions_58_the_results_of_every_version_are_read() {
        for dialect in testkit::Dialect::ALL {
            let recorded = dialect.answer("block_results").unwrap().as_bytes();
            let results = BlockResults::parse(&Bytes::from_static(recorded)).unwrap();
            for (place, code) in dialect.codes.iter().enumerate() {
                let result = results.tx_result(place).unwrap();
                let result: serde_json::Value = serde_json::from_str(result).unwrap();
                let found = result["code"].as_u64().unwrap_or(0);
                assert_eq!(found, u64::from(*code), "{}", dialect.version);
            }
            assert_eq!(results.tx_result(dialect.codes.len()), None);
        }
    }
}
