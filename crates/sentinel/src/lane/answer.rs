//! What the node's answer to a broadcast means for the lane, and answers the lane gives itself.

use std::borrow::Cow;

use bytes::Bytes;
use control::Refused;
use rpc::{Outcome, decode_answer};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use wire::encoding::{decode_hex, push_hex};

use super::job::TxHash;
use crate::upstream::Version;

/// What the node's answer means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnswerKind {
    /// CheckTx passed, or the transaction was taken without telling (async).
    Accepted,
    /// CheckTx refused the transaction.
    Rejected,
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

/// The member behind the id (`"result":…` or `"error":…`) of a node's answer, compact, and what it
/// means; none when it is no answer to a broadcast.
pub(super) fn read(message: &[u8]) -> Option<(u64, Cow<'_, [u8]>, AnswerKind)> {
    let plain = split(message);
    if let Some((id, member)) = plain
        && member.starts_with(ACCEPTED)
    {
        return Some((id, member.into(), AnswerKind::Accepted));
    }
    let answer = decode_answer(message).ok()?;
    let id = answer.id.as_u64()?;
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

/// Whether a member says that the check passed.
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
    push_compact(&mut out, value.get().as_bytes());
    Some(out)
}

/// Appends JSON without white space between its tokens. A text has no line ends inside its strings,
/// so one without any is compact already.
fn push_compact(out: &mut Vec<u8>, json: &[u8]) {
    if memchr::memchr(b'\n', json).is_none() {
        return out.extend_from_slice(json);
    }
    let (mut quoted, mut escaped) = (false, false);
    out.extend(json.iter().filter(|byte| {
        quoted ^= **byte == b'"' && !escaped;
        escaped = quoted && **byte == b'\\' && !escaped;
        quoted || !byte.is_ascii_whitespace()
    }));
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
            None => AnswerKind::Rejected,
        },
        _ if contains(log, "pool reached max tx capacity") => AnswerKind::ApplicationFull,
        _ => AnswerKind::Rejected,
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
    if text.starts_with(REFUSED_CHECK) {
        return AnswerKind::Rejected;
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
    let mut out = Vec::with_capacity(500 + executed.len());
    out.extend_from_slice(br#""result":{"check_tx":"#);
    out.extend_from_slice(check_tx(version, check).as_bytes());
    out.extend_from_slice(br#",""#);
    out.extend_from_slice(version.executed_key().as_bytes());
    out.extend_from_slice(br#"":"#);
    push_compact(&mut out, executed);
    out.extend_from_slice(br#","hash":""#);
    push_hex(&mut out, hash);
    out.extend_from_slice(br#"","height":""#);
    out.extend_from_slice(itoa::Buffer::new().format(height).as_bytes());
    out.extend_from_slice(br#""}"#);
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

/// How CometBFT 1.0 answers a refused check, to a sync and to a commit (v1.0.1, as above).
const REFUSED_CHECK: &str = "broadcast error on transaction validation: ";
const DATA: &[u8] = br#""data":""#;
const ACCEPTED: &[u8] = br#""result":{"code":0,"#;

#[cfg(test)]
mod tests {
    use testkit::Dialect;

    use super::*;

    fn error(data: &str) -> AnswerKind {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":-32603,"message":"Internal error","data":"{data}"}}}}"#
        );
        let (id, member, kind) = read(text.as_bytes()).unwrap();
        assert_eq!(id, 7);
        assert!(member.starts_with(br#""error":{"code":-32603"#) && member.ends_with(b"\"}"));
        kind
    }

    #[test]
    fn a_result_is_passed_on_as_it_is() {
        let member = r#""result":{"code":0,"data":"","log":"","codespace":"","hash":"AB"}"#;
        let text = format!(r#"{{"jsonrpc":"2.0","id":12,{member}}}"#);
        let read = read(text.as_bytes()).unwrap();
        let expected = Cow::from(member.as_bytes());
        assert_eq!(read, (12, expected, AnswerKind::Accepted));
        let refused = text.replace("\"code\":0", "\"code\":3");
        assert_eq!(
            super::read(refused.as_bytes()).unwrap().2,
            AnswerKind::Rejected
        );
    }

    #[test]
    fn errors_are_classified_by_their_texts() {
        let full = "mempool is full: number of txs 5000 (max: 5000), total txs bytes 1 (max: 9)";
        let is_full = |max| AnswerKind::Refused(Refused::Full { max });
        assert_eq!(error(full), is_full(Some(5000)));
        let bytes = "mempool is full: number of txs 12 (max: 5000), total txs bytes 9 (max: 9)";
        assert_eq!(error(bytes), is_full(None));
        assert_eq!(error("Mempool is full"), is_full(None));
        let recheck =
            "mempool is still rechecking after a new committed block, so it is considered as full";
        assert_eq!(error(recheck), AnswerKind::Refused(Refused::Rechecking));
        assert_eq!(error("tx already exists in cache"), AnswerKind::Duplicate);
        assert_eq!(
            error("Tx too large. Max size is 1048576, but got 2"),
            AnswerKind::Other
        );
    }

    #[test]
    fn account_80_checks_are_read_by_code_space_and_number() {
        let check = |code: u32, codespace: &str, log: &str| {
            let answer = format!(
                r#"{{"jsonrpc":"2.0","id":1,"result":{{"code":{code},"data":"","log":"{log}","codespace":"{codespace}","hash":"00"}}}}"#
            );
            read(answer.as_bytes()).unwrap().2
        };
        let mismatch = |expected, got| {
            check(
                32,
                "sdk",
                &format!(
                    "account sequence mismatch, expected {expected}, got {got}: incorrect account sequence"
                ),
            )
        };
        assert_eq!(mismatch(5, 7), AnswerKind::SequenceGap { expected: 5 });
        assert_eq!(mismatch(7, 5), AnswerKind::SequenceUsed);
        assert_eq!(check(32, "sdk", "another text"), AnswerKind::Rejected);
        assert_eq!(
            check(20, "sdk", "mempool is full"),
            AnswerKind::ApplicationFull
        );
        let pool = "pool reached max tx capacity";
        assert_eq!(check(1, "undefined", pool), AnswerKind::ApplicationFull);
        // Final: who sent it has to pay more, or to sign anew.
        assert_eq!(check(13, "sdk", "insufficient fees"), AnswerKind::Rejected);
        // The same numbers of another application mean something else.
        assert_eq!(check(20, "wasm", "x"), AnswerKind::Rejected);
        assert_eq!(check(32, "wasm", "expected 1, got 2"), AnswerKind::Rejected);
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
        let version = Version::default();
        let member = committed(version, check, &[0xab; 32], (b"{}", 0));
        let text = format!("{{{}}}", String::from_utf8(member.to_vec()).unwrap());
        let value: Value = serde_json::from_str(&text).unwrap();
        let result = &value["result"];
        assert_eq!(result["check_tx"]["code"], 2);
        assert_eq!(result["check_tx"]["data"], "qwE=");
        assert_eq!(result["check_tx"]["log"], "no \"x\"");
        assert_eq!(result["height"], "0");
        assert_eq!(result["hash"].as_str().unwrap(), "AB".repeat(32));
    }

    #[test]
    fn versions_58_indented_answers_are_read_and_passed_on_compact() {
        let dialect = Dialect::TENDERMINT_0_31;
        let cases = [
            (
                "broadcast_tx_sync",
                AnswerKind::Accepted,
                r#""result":{"code":0,"data":"","log":"","hash":"28ABE5C6113CDE129E9177D3A93C7E81CE38A08F9057A0DE3B30D1307B346D23"}"#,
            ),
            (
                "broadcast_tx_sync_refused",
                AnswerKind::Rejected,
                r#""result":{"code":1,"data":"","log":"","hash":"D33B013F70FA175AA9A5A3D411B336E58BE9861C60B015F1FC5D318A573344E7"}"#,
            ),
            (
                "broadcast_tx_sync_again",
                AnswerKind::Duplicate,
                r#""error":{"code":-32603,"message":"Internal error","data":"Tx already exists in cache"}"#,
            ),
            (
                "bad_params",
                AnswerKind::Other,
                r#""error":{"code":-32602,"message":"Invalid params","data":"Error converting json params to arguments: illegal base64 data at input byte 0"}"#,
            ),
        ];
        for (method, kind, member) in cases {
            let (id, found, meant) = read(dialect.answer(method).unwrap().as_bytes()).unwrap();
            assert_eq!((id, meant), (1, kind));
            assert_eq!(std::str::from_utf8(&found).unwrap(), member);
        }
        let error = "{\n \"jsonrpc\": \"2.0\",\n \"id\": 2,\n \"error\": {\n \"code\": -1,\n \"message\": \"m\",\n \"data\": \"a \\\" b: \\\\\" }\n}";
        let (_, member, _) = read(error.as_bytes()).unwrap();
        assert_eq!(
            member.as_ref(),
            br#""error":{"code":-1,"message":"m","data":"a \" b: \\"}"#
        );
    }

    #[test]
    fn versions_58_the_answers_of_every_version_mean_the_same() {
        for dialect in Dialect::ALL {
            let full = Refused::Full { max: Some(2) };
            for (method, kind) in [
                ("broadcast_tx_sync", AnswerKind::Accepted),
                ("broadcast_tx_async", AnswerKind::Accepted),
                ("broadcast_tx_sync_refused", AnswerKind::Rejected),
                ("broadcast_tx_sync_again", AnswerKind::Duplicate),
                ("mempool_full", AnswerKind::Refused(full)),
                ("bad_params", AnswerKind::Other),
                ("unknown_method", AnswerKind::Other),
            ] {
                let Some(answer) = dialect.answer(method) else {
                    continue;
                };
                let (id, member, meant) = read(answer.as_bytes()).unwrap();
                assert_eq!((id, meant), (1, kind), "{} {method}", dialect.version);
                assert!(!member.contains(&b'\n'), "it is compact");
            }
        }
    }

    /// The keys of an object, each with those of the objects in it.
    fn keys(value: &Value) -> Vec<(&String, Vec<&String>)> {
        fn inner(value: &Value) -> Vec<&String> {
            let members = value.as_object().map(|members| members.keys().collect());
            members.unwrap_or_default()
        }
        let members = value.as_object().unwrap().iter();
        members.map(|(key, value)| (key, inner(value))).collect()
    }

    #[test]
    fn versions_58_a_commit_has_the_keys_of_the_nodes_own() {
        // 0.31 leaves out what is zero.
        for dialect in &Dialect::ALL[1..] {
            let json = |text: &str| serde_json::from_str::<Value>(text).unwrap()["result"].clone();
            let answer = |method: &str| dialect.answer(method).unwrap();
            let version = Version::parse(dialect.version).unwrap();
            let results = json(answer("block_results"));
            let of_0_32 = &results["results"]["deliver_tx"];
            let executed = [&results["txs_results"], of_0_32].map(|list| &list[0]);
            let executed = executed
                .into_iter()
                .find(|result| !result.is_null())
                .unwrap();
            let (_, check, _) = read(answer("broadcast_tx_sync").as_bytes()).unwrap();
            let executed = executed.to_string();
            let written = committed(version, &check, &[0xab; 32], (executed.as_bytes(), 3));
            let written = format!("{{{}}}", std::str::from_utf8(&written).unwrap());
            let (written, own) = (json(&written), json(answer("broadcast_tx_commit")));
            assert_eq!(keys(&written), keys(&own), "{}", dialect.version);
        }
    }

    /// At d835b97 a commit refused by the check of CometBFT 1.0 had a prefix that the node's own has not.
    #[test]
    fn versions_58_a_refused_commit_is_the_nodes_own() {
        let mut compared = 0;
        for dialect in Dialect::ALL {
            let recorded = ["broadcast_tx_sync_refused", "broadcast_tx_commit_refused"];
            let [Some(sync), Some(commit)] = recorded.map(|method| dialect.answer(method)) else {
                continue;
            };
            let version = Version::parse(dialect.version).unwrap();
            let hash: TxHash = decode_hex(REFUSED_HASH).unwrap().try_into().unwrap();
            let [(_, sync, _), (_, commit, _)] =
                [sync, commit].map(|text| read(text.as_bytes()).unwrap());
            assert_eq!(
                refused_commit(version, &hash, &sync),
                &commit[..],
                "{}",
                dialect.version
            );
            compared += 1;
        }
        assert_eq!(compared, 2);
        // What is refused before its check has the prefix in every version.
        let full =
            br#""error":{"code":-32603,"message":"Internal error","data":"mempool is full"}"#;
        let refused = refused_commit(Version::default(), &[0; 32], full);
        let text = std::str::from_utf8(&refused).unwrap();
        assert!(
            text.ends_with(r#""data":"error on broadcastTxCommit: mempool is full"}"#),
            "{text}"
        );
    }

    /// The transaction of the recorded refusals.
    const REFUSED_HASH: &[u8] = b"999AAA8645BB72FF599E143B1E3D2A94777127F4783A69F067251F7BBEBC5AB6";

    #[test]
    fn versions_58_a_commit_is_written_as_its_version_writes_it() {
        let check = br#""result":{"code":0,"data":"","log":"","hash":"00"}"#;
        let old = Version::parse("0.31.5").unwrap();
        let member = committed(old, check, &[0xab; 32], (b"{\n  \"code\": 1\n}", 18));
        let text = std::str::from_utf8(&member).unwrap();
        assert!(
            text.contains(r#","deliver_tx":{"code":1},"hash":"ABAB"#),
            "{text}"
        );
        let refused = refused_commit(old, &[0xab; 32], br#""result":{"code":1}"#);
        let text = std::str::from_utf8(&refused).unwrap();
        assert!(text.contains(r#""deliver_tx":{"code":0,"#), "{text}");
    }
}
