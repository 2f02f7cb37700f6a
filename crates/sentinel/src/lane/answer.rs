//! What the node's answer to a broadcast means for the lane, and answers the lane gives itself.

use std::borrow::Cow;

use bytes::Bytes;
use chain_cometbft::{Outcome, decode_answer};
use control::Refused;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use wire::encoding::{decode_hex, hex_text, push_hex};
use wire::json::compact;
use wire::json::write::{self, Hex, IntText, Raw, fill};

use super::job::TxHash;
use crate::upstream::Version;

/// What the node's answer means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnswerKind {
    /// CheckTx passed, or the transaction was taken without telling (async).
    Accepted,
    /// The mempool takes nothing at the moment: try again.
    Refused(Refused),
    /// The application's own mempool is full, after its check has counted the transaction's sequence: try
    /// again after a block, which takes that back.
    ApplicationFull,
    /// Earlier transactions of its account are missing at the node.
    SequenceGap {
        /// The sequence of the first of them.
        expected: u64,
    },
    /// A transaction with its account's sequence was there before.
    SequenceUsed,
    /// The node has the transaction already.
    Duplicate,
    /// Anything else: for the client to read.
    Other,
}

/// The id of a node's answer, the member behind it (`"result":…` or `"error":…`), compact, and what it means; none
/// when it is no answer to a broadcast. An error without an id, or with -1, is that of the request which the node was
/// just working on: a panic of its handler, or a request that it could not read (`readRoutine` in
/// `rpc/jsonrpc/server/ws_handler.go`, v0.38.17).
pub(super) fn read(message: &[u8]) -> Option<(Option<u64>, Cow<'_, [u8]>, AnswerKind)> {
    let plain = split(message);
    if let Some((id, member)) = plain
        && member.starts_with(ACCEPTED)
    {
        return Some((Some(id), member.into(), AnswerKind::Accepted));
    }
    let answer = decode_answer(message).ok()?;
    let id = answer.id.as_u64();
    if id.is_none() && !matches!(answer.outcome, Outcome::Error { .. }) {
        return None;
    }
    let member = plain.map(|(_, member)| Cow::from(member));
    let member = member.or_else(|| rewritten(message).map(Cow::from))?;
    let kind = match answer.outcome {
        Outcome::Broadcast { code: 0, .. } => AnswerKind::Accepted,
        Outcome::Broadcast {
            code,
            codespace,
            log,
            ..
        } => kind_of_check(code, &codespace, &log),
        Outcome::Error { message, data, .. } => kind_of_error(&message, &data),
        Outcome::Commit { .. } | Outcome::Other => AnswerKind::Other,
    };
    Some((id, member, kind))
}

/// Whether a member of the answer shows that the check passed.
pub(super) fn is_accepted(member: &[u8]) -> bool {
    member.starts_with(ACCEPTED)
}

/// The member of an answer in another form than CometBFT's own: Tendermint up to 0.33 indents its JSON.
fn rewritten(message: &[u8]) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Members<'a> {
        #[serde(borrow)]
        result: Option<&'a RawValue>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    let Members { result, error } = serde_json::from_slice(message).ok()?;
    let (name, value) = match error {
        Some(error) => (&br#""error":"#[..], error),
        None => (&br#""result":"#[..], result?),
    };
    let mut out = name.to_vec();
    compact(&mut out, value.get().as_bytes());
    Some(out)
}

/// `{"jsonrpc":"2.0","id":<digits>,<member>}`, the one form in which CometBFT answers
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

/// Why a check was refused, of what matters here: codes of the Cosmos SDK's code space `sdk`
/// (`types/errors/errors.go`, v0.50: 20 `ErrMempoolIsFull`, 32 `ErrWrongSequence`), and the text of its
/// mempools' `ErrMempoolTxMaxCapacity` (`types/mempool/mempool.go`), which has no code of its own.
fn kind_of_check(code: u32, codespace: &str, log: &str) -> AnswerKind {
    match (codespace, code) {
        ("sdk", 20) => AnswerKind::ApplicationFull,
        ("sdk", 32) => match sequences(log) {
            Some((expected, got)) if got > expected => AnswerKind::SequenceGap { expected },
            Some(_) => AnswerKind::SequenceUsed,
            None => AnswerKind::Other,
        },
        _ if contains(log, "pool reached max tx capacity") => AnswerKind::ApplicationFull,
        _ => AnswerKind::Other,
    }
}

/// `account sequence mismatch, expected 5, got 7: incorrect account sequence` (`x/auth/ante/sigverify.go`).
fn sequences(log: &str) -> Option<(u64, u64)> {
    let number = |word: &str| {
        let rest = &log[log.find(word)? + word.len()..];
        let end = rest.find(|digit: char| !digit.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().ok()
    };
    Some((number("expected ")?, number("got ")?))
}

/// The texts are those of CometBFT's `mempool/errors.go` and `mempool/clist_mempool.go` (v0.38.17);
/// Tendermint 0.20 capitalised the first.
fn kind_of_error(message: &str, data: &str) -> AnswerKind {
    let text = if data.is_empty() { message } else { data };
    if contains(text, "mempool is full") {
        return AnswerKind::Refused(Refused::Full {
            max: mempool_size(text),
        });
    }
    if contains(text, "rechecking after a new committed block") {
        return AnswerKind::Refused(Refused::Rechecking);
    }
    if contains(text, "already exists in cache") {
        return AnswerKind::Duplicate;
    }
    AnswerKind::Other
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

/// A refused check as `broadcast_tx_commit` shows it on a node of this version; errors carry its
/// prefix (`rpc/core/mempool.go`, v0.38.17 and v1.0.1: "error on broadcastTxCommit: %v"), unless they come
/// from the check.
pub(super) fn refused_commit(version: Version, hash: &TxHash, member: &[u8]) -> Bytes {
    if member.starts_with(br#""result":"#) {
        let executed = not_executed(version);
        return committed(version, member, hash, (executed.as_bytes(), 0));
    }
    let Some(at) = memchr::memmem::find(member, DATA) else {
        return Bytes::copy_from_slice(member);
    };
    let (head, tail) = member.split_at(at + DATA.len());
    if tail.starts_with(REFUSED_CHECK.as_bytes()) {
        return Bytes::copy_from_slice(member);
    }
    [head, b"error on broadcastTxCommit: ", tail]
        .concat()
        .into()
}

/// The result of `broadcast_tx_commit` of a node of this version: `check` is the member that answered
/// the sync before, the execution's result is JSON text, the height 0 for one that is in no block.
pub(super) fn committed(
    version: Version,
    check: &[u8],
    hash: &TxHash,
    (executed, height): (&[u8], u64),
) -> Bytes {
    let check = check_tx(version, check);
    let execution = |out: &mut Vec<u8>| compact(out, executed);
    let key = Raw(version.executed_key());
    let mut out = Vec::with_capacity(500 + executed.len());
    let template = r#""result":{"check_tx":?,"?":?,"hash":?,"height":?}"#;
    let values: [&dyn write::Value; 5] =
        [&Raw(&check), &key, &execution, &Hex(hash), &IntText(height)];
    fill(&mut out, template, &values);
    out.into()
}

/// `ResponseCheckTx` from the fields that the answer to a sync has. The others are not in it and
/// read as empty.
fn check_tx(version: Version, member: &[u8]) -> String {
    let sync: Value = member
        .strip_prefix(br#""result":"#)
        .and_then(|text| serde_json::from_slice(text).ok())
        .unwrap_or_default();
    let text = |key: &str| sync[key].as_str().unwrap_or_default();
    // The result of a sync spells bytes in hexadecimal, `ResponseCheckTx` in base64, and no bytes
    // as null.
    let data = decode_hex(text("data").as_bytes()).unwrap_or_default();
    let data = (!data.is_empty()).then(|| base64_simd::STANDARD.encode_to_string(data));
    let mut check = result_of(
        version,
        [
            sync["code"].as_u64().unwrap_or(0).into(),
            Value::from(data),
            text("log").into(),
            text("codespace").into(),
        ],
    );
    if version.has_priorities() {
        check.pop();
        check.push_str(r#","sender":"","priority":"0","mempoolError":""}"#);
    }
    check
}

/// A check's or an execution's result with this code, data, log and codespace.
fn result_of(version: Version, [code, data, log, codespace]: [Value; 4]) -> String {
    let [wanted, used] = version.gas_keys();
    format!(
        r#"{{"code":{code},"data":{data},"log":{log},"info":"","{wanted}":"0","{used}":"0","events":[],"codespace":{codespace}}}"#
    )
}

/// What `ExecTxResult` looks like for a transaction that was not executed.
fn not_executed(version: Version) -> String {
    result_of(version, [0.into(), Value::Null, "".into(), "".into()])
}

/// The node's error when no block has shown a transaction in time, with the hash, so that the client
/// can look for it.
pub(super) fn commit_timed_out(hash: &TxHash) -> Bytes {
    internal_error("timed out waiting for tx to be included in a block", hash)
}

/// The error for a transaction in a block whose results the node does not return.
pub(super) fn no_result(hash: &TxHash, height: u64) -> Bytes {
    let text = format!("tx was committed in block {height}, but its result could not be fetched");
    internal_error(&text, hash)
}

/// An error as the node writes it.
fn internal_error(text: &str, hash: &TxHash) -> Bytes {
    let text = format!("{text} (hash: {})", hex_text(hash));
    write::internal_error(&text).into()
}

/// How CometBFT 1.0 answers a refused check, to a sync and to a commit (v1.0.1, as above).
const REFUSED_CHECK: &str = "broadcast error on transaction validation: ";
const DATA: &[u8] = br#""data":""#;
const ACCEPTED: &[u8] = br#""result":{"code":0,"#;

#[cfg(test)]
mod tests;
