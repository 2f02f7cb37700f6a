//! Requests.

use std::fmt;
use std::str::FromStr;

/// What the node does before it answers a broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BroadcastMethod {
    /// Answers once the transaction is queued for its check.
    Async,
    /// Answers with the result of CheckTx.
    Sync,
    /// Answers when the transaction is in a block (or the node's timeout, 10 s by default).
    Commit,
}

impl BroadcastMethod {
    /// The three methods.
    pub const ALL: [Self; 3] = [Self::Async, Self::Sync, Self::Commit];

    /// The JSON-RPC method's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Async => "broadcast_tx_async",
            Self::Sync => "broadcast_tx_sync",
            Self::Commit => "broadcast_tx_commit",
        }
    }

    const fn middle(self) -> &'static [u8] {
        match self {
            Self::Async => br#","method":"broadcast_tx_async","params":{"tx":""#,
            Self::Sync => br#","method":"broadcast_tx_sync","params":{"tx":""#,
            Self::Commit => br#","method":"broadcast_tx_commit","params":{"tx":""#,
        }
    }
}

/// The text is not the name of a broadcast method.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is not a broadcast method; use async, sync or commit")]
pub struct UnknownMethod(String);

impl FromStr for BroadcastMethod {
    type Err = UnknownMethod;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("broadcast_tx_").unwrap_or(text) {
            "async" => Ok(Self::Async),
            "sync" => Ok(Self::Sync),
            "commit" => Ok(Self::Commit),
            _ => Err(UnknownMethod(text.into())),
        }
    }
}

impl fmt::Display for BroadcastMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Async => "async",
            Self::Sync => "sync",
            Self::Commit => "commit",
        })
    }
}

/// Appends the body of a broadcast request to `out`.
///
/// `id` comes back in the answer. CometBFT reads numbers through a double, so keep it at or below
/// 2^53 (`idFromInterface` in `rpc/jsonrpc/types`, v0.38.17).
pub fn encode_broadcast(out: &mut Vec<u8>, id: u64, method: BroadcastMethod, tx: &[u8]) {
    out.extend_from_slice(HEAD);
    out.extend_from_slice(itoa::Buffer::new().format(id).as_bytes());
    out.extend_from_slice(method.middle());
    base64_simd::STANDARD.encode_append(tx, out);
    out.extend_from_slice(TAIL);
}

/// The length in bytes of what [`encode_broadcast`] appends, for a transaction of `tx_len` bytes.
pub fn broadcast_len(id: u64, method: BroadcastMethod, tx_len: usize) -> usize {
    let digits = id.checked_ilog10().map_or(1, |log| log as usize + 1);
    HEAD.len() + digits + method.middle().len() + tx_len.div_ceil(3) * 4 + TAIL.len()
}

/// The body of any other call; `params` is a JSON object or array as text.
pub(crate) fn encode_call(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

const HEAD: &[u8] = br#"{"jsonrpc":"2.0","id":"#;
const TAIL: &[u8] = br#""}}"#;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_body_is_what_the_node_expects() {
        let mut out = b"before".to_vec();
        encode_broadcast(&mut out, 7, BroadcastMethod::Sync, b"a=b");
        let text =
            r#"before{"jsonrpc":"2.0","id":7,"method":"broadcast_tx_sync","params":{"tx":"YT1i"}}"#;
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }

    #[test]
    fn names_parse_back() {
        for method in BroadcastMethod::ALL {
            assert_eq!(method.to_string().parse(), Ok(method));
            assert_eq!(method.name().parse(), Ok(method));
        }
        let refused = "block".parse::<BroadcastMethod>().unwrap_err();
        assert!(refused.to_string().contains("use async, sync or commit"));
    }

    proptest! {
        #[test]
        fn length_and_content_hold(id: u64, tx: Vec<u8>, which in 0usize..3) {
            let method = BroadcastMethod::ALL[which];
            let mut out = Vec::new();
            encode_broadcast(&mut out, id, method, &tx);
            prop_assert_eq!(out.len(), broadcast_len(id, method, tx.len()));
            let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
            prop_assert_eq!(value["id"].as_u64(), Some(id));
            prop_assert_eq!(value["method"].as_str(), Some(method.name()));
            let sent = value["params"]["tx"].as_str().unwrap();
            prop_assert_eq!(base64_simd::STANDARD.decode_to_vec(sent).unwrap(), tx);
        }
    }
}
