//! What the node's answer to a broadcast means for the lane, and answers the lane gives itself.

use std::borrow::Cow;

use bytes::Bytes;
use rpc::{Outcome, decode_answer};

use super::job::TxHash;

/// What the node's answer means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// CheckTx passed, or the transaction was taken without telling (async).
    Accepted,
    /// CheckTx refused the transaction.
    Rejected,
    /// There is no room at the moment: try again.
    Full(Fullness),
    /// The node has the transaction already.
    Known,
    /// Anything else: for the client to read.
    Other,
}

/// Why a mempool takes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fullness {
    /// It is full; `max` is the number of transactions it holds, when the node says so.
    Full { max: Option<usize> },
    /// It is being rechecked after a block and counts as full.
    Rechecking,
}

/// The member behind the id (`"result":…` or `"error":…`) of a node's answer, and what it means;
/// none when it is no answer to a broadcast.
pub(super) fn read(message: &[u8]) -> Option<(u64, &[u8], Verdict)> {
    if let Some((id, member)) = split(message)
        && member.starts_with(ACCEPTED)
    {
        return Some((id, member, Verdict::Accepted));
    }
    let answer = decode_answer(message).ok()?;
    let id = answer.id.as_u64()?;
    let (_, member) = split(message).unwrap_or((id, UNREADABLE));
    let verdict = match answer.outcome {
        Outcome::Broadcast { code: 0, .. } => Verdict::Accepted,
        Outcome::Broadcast { .. } => Verdict::Rejected,
        Outcome::Error { message, data, .. } => judge(&message, &data),
        Outcome::Commit { .. } | Outcome::Other => Verdict::Other,
    };
    Some((id, member, verdict))
}

/// `{"jsonrpc":"2.0","id":<digits>,<member>}`, the one form in which CometBFT 0.38 answers
/// (`RPCResponse` in `rpc/jsonrpc/types`, through `json.Marshal`).
fn split(message: &[u8]) -> Option<(u64, &[u8])> {
    let rest = message.strip_prefix(br#"{"jsonrpc":"2.0","id":"#)?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    let id = rest[..digits].iter().try_fold(0_u64, |id, digit| {
        id.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })?;
    let member = rest[digits..].strip_prefix(b",")?.strip_suffix(b"}")?;
    (digits > 0).then_some((id, member))
}

/// The texts are those of CometBFT's `mempool/errors.go` and `mempool/clist_mempool.go` (v0.38.17);
/// Tendermint 0.20 capitalised the first.
fn judge(message: &str, data: &str) -> Verdict {
    let text: Cow<'_, str> = if data.is_empty() {
        message.into()
    } else {
        data.into()
    };
    if contains(&text, "mempool is full") {
        return Verdict::Full(Fullness::Full {
            max: mempool_size(&text),
        });
    }
    if contains(&text, "rechecking after a new committed block") {
        return Verdict::Full(Fullness::Rechecking);
    }
    if contains(&text, "already exists in cache") {
        return Verdict::Known;
    }
    Verdict::Other
}

fn contains(text: &str, words: &str) -> bool {
    text.to_ascii_lowercase().contains(words)
}

/// `mempool is full: number of txs 5000 (max: 5000), total txs bytes …`: the first maximum, if it
/// was the number that was reached.
fn mempool_size(text: &str) -> Option<usize> {
    let rest = &text[text.find("number of txs ")? + "number of txs ".len()..];
    let (count, rest) = rest.split_once(" (max: ")?;
    let (max, _) = rest.split_once(')')?;
    let (count, max): (usize, usize) = (count.parse().ok()?, max.parse().ok()?);
    (count >= max).then_some(max)
}

/// The result of a broadcast that was accepted here or earlier, as the node writes it.
pub(super) fn accepted(hash: &TxHash) -> Bytes {
    let mut out = Vec::with_capacity(150);
    out.extend_from_slice(br#""result":{"code":0,"data":"","log":"","codespace":"","hash":""#);
    push_hex(&mut out, hash);
    out.extend_from_slice(br#""}"#);
    out.into()
}

/// The result of `broadcast_tx_commit`: `check` is the member that answered the sync before,
/// `tx_result` JSON text, height 0 for one that is in no block.
pub(super) fn committed(check: &[u8], hash: &TxHash, tx_result: &[u8], height: u64) -> Bytes {
    let mut out = Vec::with_capacity(500 + tx_result.len());
    out.extend_from_slice(br#""result":{"check_tx":"#);
    push_check_tx(&mut out, check);
    out.extend_from_slice(br#","tx_result":"#);
    out.extend_from_slice(tx_result);
    out.extend_from_slice(br#","hash":""#);
    push_hex(&mut out, hash);
    out.extend_from_slice(br#"","height":""#);
    out.extend_from_slice(itoa::Buffer::new().format(height).as_bytes());
    out.extend_from_slice(br#""}"#);
    out.into()
}

/// `ResponseCheckTx` from the fields that the answer to a sync has; the others are not told by the
/// node and read as empty.
fn push_check_tx(out: &mut Vec<u8>, check: &[u8]) {
    #[derive(serde::Deserialize)]
    struct Check {
        code: u32,
        #[serde(default)]
        data: String,
        #[serde(default)]
        log: String,
        #[serde(default)]
        codespace: String,
    }
    let parsed = check
        .strip_prefix(br#""result":"#)
        .and_then(|text| serde_json::from_slice::<Check>(text).ok());
    let check = parsed.unwrap_or(Check {
        code: 0,
        data: String::new(),
        log: String::new(),
        codespace: String::new(),
    });
    let data = if check.data.is_empty() {
        serde_json::Value::Null
    } else {
        // The result of a sync spells bytes in hexadecimal, `ResponseCheckTx` in base64.
        base64_of_hex(&check.data).map_or(serde_json::Value::Null, Into::into)
    };
    let text = format!(
        r#"{{"code":{},"data":{},"log":{},"info":"","gas_wanted":"0","gas_used":"0","events":[],"codespace":{}}}"#,
        check.code,
        data,
        serde_json::Value::from(check.log),
        serde_json::Value::from(check.codespace),
    );
    out.extend_from_slice(text.as_bytes());
}

fn base64_of_hex(hex: &str) -> Option<String> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let bytes: Option<Vec<u8>> = hex
        .as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect();
    Some(base64_simd::STANDARD.encode_to_string(bytes?))
}

/// The node's error when a committed transaction was awaited in vain, with the hash, so that the
/// client can look for it.
pub(super) fn commit_timed_out(hash: &TxHash) -> Bytes {
    internal_error("timed out waiting for tx to be included in a block", hash)
}

/// A transaction is in a block, and the node does not tell what became of it there.
pub(super) fn no_result(hash: &TxHash, height: u64) -> Bytes {
    let text = format!("tx was committed in block {height}, but its result could not be fetched");
    internal_error(&text, hash)
}

/// An error as the node writes it; `text` needs no escapes.
fn internal_error(text: &str, hash: &TxHash) -> Bytes {
    let mut out = Vec::with_capacity(220);
    out.extend_from_slice(br#""error":{"code":-32603,"message":"Internal error","data":""#);
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b" (hash: ");
    push_hex(&mut out, hash);
    out.extend_from_slice(br#")"}"#);
    out.into()
}

fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend(
        bytes
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|digit| DIGITS[usize::from(digit)]),
    );
}

/// What `ExecTxResult` looks like for a transaction that was not executed.
pub(super) const NOT_EXECUTED: &[u8] = br#"{"code":0,"data":null,"log":"","info":"","gas_wanted":"0","gas_used":"0","events":[],"codespace":""}"#;
const ACCEPTED: &[u8] = br#""result":{"code":0,"#;
const UNREADABLE: &[u8] = br#""error":{"code":-32603,"message":"Internal error","data":"the node's answer could not be read"}"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn error(data: &str) -> Verdict {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":-32603,"message":"Internal error","data":"{data}"}}}}"#
        );
        let (id, member, verdict) = read(text.as_bytes()).unwrap();
        assert_eq!(id, 7);
        assert!(member.starts_with(br#""error":{"code":-32603"#) && member.ends_with(b"\"}"));
        verdict
    }

    #[test]
    fn a_result_is_passed_on_as_it_is() {
        let member = r#""result":{"code":0,"data":"","log":"","codespace":"","hash":"AB"}"#;
        let text = format!(r#"{{"jsonrpc":"2.0","id":12,{member}}}"#);
        let read = read(text.as_bytes()).unwrap();
        assert_eq!(read, (12, member.as_bytes(), Verdict::Accepted));
        let refused = text.replace("\"code\":0", "\"code\":3");
        assert_eq!(
            super::read(refused.as_bytes()).unwrap().2,
            Verdict::Rejected
        );
    }

    #[test]
    fn errors_are_told_apart_by_their_texts() {
        let full = "mempool is full: number of txs 5000 (max: 5000), total txs bytes 1 (max: 9)";
        let is_full = |max| Verdict::Full(Fullness::Full { max });
        assert_eq!(error(full), is_full(Some(5000)));
        let bytes = "mempool is full: number of txs 12 (max: 5000), total txs bytes 9 (max: 9)";
        assert_eq!(error(bytes), is_full(None));
        assert_eq!(error("Mempool is full"), is_full(None));
        let recheck =
            "mempool is still rechecking after a new committed block, so it is considered as full";
        assert_eq!(error(recheck), Verdict::Full(Fullness::Rechecking));
        assert_eq!(error("tx already exists in cache"), Verdict::Known);
        assert_eq!(
            error("Tx too large. Max size is 1048576, but got 2"),
            Verdict::Other
        );
    }

    #[test]
    fn what_is_no_answer_is_none() {
        assert!(read(b"<html>").is_none());
        assert!(read(br#"{"jsonrpc":"2.0","id":-1,"result":{}}"#).is_none());
        assert!(
            read(br#"{"jsonrpc":"2.0","id":99999999999999999999,"result":{"code":0,"#).is_none()
        );
    }

    #[test]
    fn a_commit_is_put_together_from_check_and_block() {
        let check =
            br#""result":{"code":2,"data":"AB01","log":"no \"x\"","codespace":"kv","hash":"00"}"#;
        let member = committed(check, &[0xab; 32], NOT_EXECUTED, 0);
        let text = format!("{{{}}}", String::from_utf8(member.to_vec()).unwrap());
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let result = &value["result"];
        assert_eq!(result["check_tx"]["code"], 2);
        assert_eq!(result["check_tx"]["data"], "qwE=");
        assert_eq!(result["check_tx"]["log"], "no \"x\"");
        assert_eq!(result["height"], "0");
        assert_eq!(result["hash"].as_str().unwrap(), "AB".repeat(32));
    }
}
