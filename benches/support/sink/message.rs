//! The JSON-RPC part: find the id, answer "accepted"; and what a proxy asks of a node it watches.

/// Appends the answer to a JSON-RPC request or to the target of a URI request; says what it was.
pub(super) fn answer(body: &[u8], out: &mut Vec<u8>) -> Request {
    let (request, result) = result(body);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id(body).unwrap_or(b"-1"));
    out.extend_from_slice(b",\"result\":");
    out.extend_from_slice(result);
    out.push(b'}');
    request
}

/// What a request was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// A transaction.
    Broadcast,
    /// Anything else.
    Query,
}

/// The digits of the id. Generators put it in front of the params, so this is a short search; params
/// are base64 and cannot contain the pattern.
fn id(body: &[u8]) -> Option<&[u8]> {
    let start = find(body, b"\"id\":")? + b"\"id\":".len();
    let rest = &body[start..];
    let blanks = rest.iter().take_while(|byte| **byte == b' ').count();
    let rest = &rest[blanks..];
    let digits = rest
        .iter()
        .take_while(|byte| byte.is_ascii_digit() || **byte == b'-')
        .count();
    (digits > 0).then_some(&rest[..digits])
}

fn result(body: &[u8]) -> (Request, &'static [u8]) {
    let head = &body[..body.len().min(HEAD_BYTES)];
    if find(head, b"broadcast_tx_").is_some() {
        return (Request::Broadcast, ACCEPTED);
    }
    let answer = QUERIES
        .iter()
        .find(|(method, _)| find(head, method).is_some())
        .map_or(b"{}".as_slice(), |(_, answer)| answer);
    (Request::Query, answer)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

/// The method stands within this.
const HEAD_BYTES: usize = 96;
const ACCEPTED: &[u8] = br#"{"code":0,"data":"","log":"","codespace":"","hash":"0000000000000000000000000000000000000000000000000000000000000000"}"#;
/// A chain that stands at height 1 with an empty mempool.
const QUERIES: [(&[u8], &[u8]); 3] = [
    (b"status", STATUS),
    (b"num_unconfirmed_txs", WAITING),
    (b"block", BLOCK),
];
const WAITING: &[u8] = br#"{"n_txs":"0","total":"0","total_bytes":"0","txs":null}"#;
const BLOCK: &[u8] = br#"{"block_id":{"hash":"","parts":{"total":1,"hash":""}},"block":{"header":{"version":{"block":"11","app":"1"},"chain_id":"sink","height":"1","time":"2026-01-01T00:00:00Z","last_block_id":{"hash":"","parts":{"total":0,"hash":""}},"last_commit_hash":"","data_hash":"","validators_hash":"","next_validators_hash":"","consensus_hash":"","app_hash":"","last_results_hash":"","evidence_hash":"","proposer_address":""},"data":{"txs":[]},"evidence":{"evidence":[]},"last_commit":{"height":"0","round":0,"block_id":{"hash":"","parts":{"total":0,"hash":""}},"signatures":[]}}}"#;
const STATUS: &[u8] = br#"{"node_info":{"protocol_version":{"p2p":"8","block":"11","app":"1"},"id":"0000000000000000000000000000000000000000","listen_addr":"tcp://127.0.0.1:0","network":"sink","version":"0.38.17","channels":"","moniker":"sink","other":{"tx_index":"off","rpc_address":""}},"sync_info":{"latest_block_hash":"","latest_app_hash":"","latest_block_height":"1","latest_block_time":"2026-01-01T00:00:00Z","earliest_block_hash":"","earliest_app_hash":"","earliest_block_height":"1","earliest_block_time":"2026-01-01T00:00:00Z","catching_up":false},"validator_info":{"address":"","pub_key":{"type":"tendermint/PubKeyEd25519","value":""},"voting_power":"10"}}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_comes_back() {
        let mut out = Vec::new();
        answer(
            br#"{"jsonrpc":"2.0","id":42,"method":"broadcast_tx_sync","params":{"tx":"AA=="}}"#,
            &mut out,
        );
        let answer: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            (answer["id"].as_i64(), answer["result"]["code"].as_i64()),
            (Some(42), Some(0))
        );
    }

    fn answered(body: &[u8]) -> serde_json::Value {
        let mut out = Vec::new();
        assert_eq!(answer(body, &mut out), Request::Query);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn a_watched_node_has_a_status_a_mempool_and_a_block() {
        let status = answered(br#"{"jsonrpc":"2.0","id":1,"method":"status"}"#);
        assert_eq!(status["result"]["sync_info"]["catching_up"], false);
        let waiting = answered(br#"{"jsonrpc":"2.0","id":1,"method":"num_unconfirmed_txs"}"#);
        assert_eq!(waiting["result"]["n_txs"], "0");
        let block = answered(br#"{"jsonrpc":"2.0","id":1,"method":"block","params":{}}"#);
        assert_eq!(block["result"]["block"]["header"]["height"], "1");
    }

    #[test]
    fn uri_requests_have_no_id() {
        let status = answered(b"/status?");
        assert_eq!(status["id"], -1);
        assert_eq!(status["result"]["sync_info"]["catching_up"], false);
        assert_eq!(answered(b"/health")["result"], serde_json::json!({}));
    }
}
