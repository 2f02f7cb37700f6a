//! The request that matters: a broadcast, written and recognised.

use std::fmt;
use std::str::FromStr;

use super::RequestId;
use crate::json::{Bracket, Scanner};

/// What the node does before it answers a broadcast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BroadcastMethod {
    /// Answers once the transaction is queued for its check.
    Async,
    /// Answers with the result of CheckTx.
    #[default]
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

    /// The name on the command line and in files.
    const fn short(self) -> &'static str {
        match self {
            Self::Async => "async",
            Self::Sync => "sync",
            Self::Commit => "commit",
        }
    }

    /// The method of that name, letter by letter.
    pub fn of(name: &[u8]) -> Option<Self> {
        let name = name.strip_prefix(b"broadcast_tx_")?;
        match name {
            b"sync" => Some(Self::Sync),
            b"async" => Some(Self::Async),
            b"commit" => Some(Self::Commit),
            _ => None,
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
        let short = text.strip_prefix("broadcast_tx_").unwrap_or(text);
        let found = Self::ALL.into_iter().find(|method| method.short() == short);
        found.ok_or_else(|| UnknownMethod(text.into()))
    }
}

impl fmt::Display for BroadcastMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
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

const HEAD: &[u8] = br#"{"jsonrpc":"2.0","id":"#;
const TAIL: &[u8] = br#""}}"#;

/// A broadcast as clients commonly write it:
/// `{"jsonrpc":…,"id":…,"method":"broadcast_tx_…","params":{"tx":"…"}}` with members in any order,
/// each at most once, spelled exactly, without escapes and with an id that the node echoes letter
/// by letter. Any other request is for [`Request`](super::Request).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainBroadcast<'a> {
    /// To be echoed.
    pub id: RequestId<'a>,
    /// How it is broadcast.
    pub method: BroadcastMethod,
    /// The transaction in base64, not checked.
    pub base64: &'a [u8],
}

impl<'a> PlainBroadcast<'a> {
    /// Recognises a text that is nothing but a broadcast.
    pub fn whole(text: &'a [u8]) -> Option<Self> {
        let mut scanner = Scanner::new(text, LEVELS);
        let found = Self::members(&mut scanner)?;
        scanner.end().ok()?;
        Some(found)
    }

    /// Recognises a broadcast at the start of a text; also the bytes that it takes.
    pub fn first(text: &'a [u8]) -> Option<(Self, usize)> {
        let mut scanner = Scanner::new(text, LEVELS);
        let found = Self::members(&mut scanner)?;
        Some((found, scanner.position()))
    }

    /// The transaction; none if it is not plain base64.
    pub fn transaction(&self) -> Option<Vec<u8>> {
        base64_simd::STANDARD.decode_to_vec(self.base64).ok()
    }

    fn members(scanner: &mut Scanner<'a>) -> Option<Self> {
        let (mut version, mut id, mut method, mut base64) = (None, None, None, None);
        let mut more = scanner.enter(Bracket::Object).ok()?;
        while more {
            let key = scanner.verbatim()?;
            scanner.colon().ok()?;
            match key {
                b"jsonrpc" => once(&mut version, scanner.verbatim()?)?,
                b"id" => once(&mut id, RequestId::verbatim(scanner)?)?,
                b"method" => once(&mut method, BroadcastMethod::of(scanner.verbatim()?)?)?,
                b"params" => once(&mut base64, only_tx(scanner)?)?,
                _ => return None,
            }
            more = scanner.another(Bracket::Object).ok()?;
        }
        Some(Self {
            id: id?,
            method: method?,
            base64: base64?,
        })
    }
}

/// Levels of a plain broadcast.
const LEVELS: usize = 2;

/// The base64 in `{"tx":"…"}` or `["…"]`.
fn only_tx<'a>(scanner: &mut Scanner<'a>) -> Option<&'a [u8]> {
    let bracket = match scanner.peek()? {
        b'{' => Bracket::Object,
        _ => Bracket::Array,
    };
    // An empty one is left already: what follows is not in it.
    scanner.enter(bracket).ok()?.then_some(())?;
    if bracket == Bracket::Object {
        (scanner.verbatim()? == b"tx").then_some(())?;
        scanner.colon().ok()?;
    }
    // Whether it is base64 is found when it is decoded: the end of the string is all that counts.
    (scanner.peek()? == b'"').then(|| scanner.advance(1))?;
    let rest = scanner.rest();
    let len = memchr::memchr(b'"', rest)?;
    scanner.advance(len + 1);
    let another = scanner.another(bracket).ok()?;
    (!another).then_some(&rest[..len])
}

/// Fills a slot once: a repeated member is for the decoder of any request.
#[inline]
fn once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::jsonrpc::Request;

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

    fn found(text: &str) -> Option<(String, BroadcastMethod, Vec<u8>)> {
        let found = PlainBroadcast::whole(text.as_bytes())?;
        let tx = found.transaction()?;
        Some((found.id.as_str().to_owned(), found.method, tx))
    }

    #[test]
    fn the_common_forms_are_recognised() {
        for (text, id) in [
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#,
                "7",
            ),
            (
                " {\t\"method\" : \"broadcast_tx_sync\" , \"params\" : [ \"YT0x\" ] ,\r\n \"id\" : \"7\" } ",
                "\"7\"",
            ),
            (
                r#"{"id":-5,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#,
                "-5",
            ),
            (
                r#"{"id":"","method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#,
                "\"\"",
            ),
        ] {
            let expected = (id.to_owned(), BroadcastMethod::Sync, b"a=1".to_vec());
            assert_eq!(found(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn the_unusual_is_left_to_others() {
        let with = |id: &str, params: &str| {
            format!(r#"{{"id":{id},"method":"broadcast_tx_sync","params":{params}}}"#)
        };
        for id in [
            "1.0",
            "1.5",
            "1e3",
            "01",
            "-0",
            "-",
            "null",
            "1234567890123456",
            "\"a<b\"",
            "\"\\u0061\"",
            "\"é\"",
            "true",
            "{}",
        ] {
            assert_eq!(found(&with(id, r#"{"tx":"YT0x"}"#)), None, "id {id}");
        }
        for params in [
            "{}",
            "[]",
            "null",
            // No JSON: the node answers with a parse error and executes nothing.
            r#"[]"YT0x"]"#,
            r#"{}"tx":"YT0x"}"#,
            r#"{ } "tx" : "YT0x" }"#,
            r#"{"tx":{}"YT0x"}"#,
            r#"{"tx":"YQ"}"#,
            r#"{"tx":"YT0x","tx":"YT0x"}"#,
            r#"{"TX":"YT0x"}"#,
            r#"["YT0x","YT0x"]"#,
            "[[97]]",
            r#"{"tx":"YT0\u0078"}"#,
            r#"{"tx":"YT 0x"}"#,
        ] {
            assert_eq!(found(&with("1", params)), None, "params {params}");
        }
        for text in [
            r#"{"id":1,"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#,
            r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0x"},"x":1}"#,
            r#"{"id":1,"method":"Broadcast_tx_sync","params":{"tx":"YT0x"}}"#,
            r#"{"id":1,"method":"health","params":{"tx":"YT0x"}}"#,
            r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}} x"#,
            r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}"#,
            r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0x"},}"#,
            r#"{"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#,
            "",
            "{",
            "{}",
            "[]",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    proptest! {
        /// Whatever is recognised is what the decoder of any request makes of it.
        #[test]
        fn it_agrees_with_the_decoder_of_any_request(
            parts in proptest::collection::vec(proptest::sample::select(vec![
                "{", "}", "[", "]", ":", ",", " ", "\"id\"", "\"method\"", "\"params\"", "\"jsonrpc\"", "\"tx\"", "\"2.0\"",
                "\"broadcast_tx_sync\"", "\"YT0x\"", "\"YT1=\"", "1", "-1", "0", "12", "null", "\"ID\"", "\"a\\n\"",
                "{\"id\":1,\"method\":\"broadcast_tx_sync\",\"params\":{\"tx\":\"YT0x\"}", "\"params\":[\"YT0x\"]",
            ]), 0..24),
        ) {
            let text = parts.concat();
            if let Some(found) = PlainBroadcast::whole(text.as_bytes()) {
                let request = Request::decode(crate::json::check(text.as_bytes()).unwrap()).unwrap();
                prop_assert_eq!(Some(found.id), request.id);
                prop_assert_eq!(found.method.name(), request.method.as_ref());
                let params = std::str::from_utf8(request.params.unwrap()).unwrap();
                prop_assert!(params.contains(std::str::from_utf8(found.base64).unwrap()));
            }
        }

        #[test]
        fn what_is_written_is_recognised(id in 0_u64..1_000_000_000_000_000, tx: Vec<u8>, which in 0_usize..3) {
            let (method, mut out) = (BroadcastMethod::ALL[which], Vec::new());
            encode_broadcast(&mut out, id, method, &tx);
            let found = PlainBroadcast::whole(&out).unwrap();
            prop_assert_eq!(found.id.as_str(), id.to_string());
            prop_assert_eq!(found.method, method);
            prop_assert_eq!(found.transaction(), Some(tx));
        }
    }
}
