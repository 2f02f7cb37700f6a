//! Which answers of a node cannot change, and what a question for one is known by.

use std::ops::Range;
use std::time::Duration;

use hyper::http::request::Parts;
use hyper::{HeaderMap, Method};
use serde::Deserialize;
use serde::de::IgnoredAny;
use wire::encoding::decode_hash;
use wire::json;
use wire::proto::{Fields, Value};

use super::cache::Headers;
use super::params;
use super::request::{ReadAnswer, ReadRequest};
use crate::respond::KeptId;
use crate::upstream::doors::{CallBody, only_message};
use crate::upstream::nodes::NodeDoor;

/// What a question asks for whose answer cannot change. An answer is kept if it names the same, so that a node or a gateway
/// that mixes answers up does so for nobody else.
///
/// `header_by_hash` is none of these: its answer does not say of which hash it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Genesis,
    /// Of the genesis file.
    Chunk(u64),
    /// Cannot change once a later block is there: what the node tells of the last one still does.
    Height(u64),
    /// Of a transaction or a block, which is final as its height is.
    Hash([u8; 32]),
}

impl Asked {
    fn of(request: &ReadRequest) -> Option<Self> {
        let (method, target, body) = (request.method.as_deref()?, &request.target, &request.body);
        match method {
            "genesis" => Some(Self::Genesis),
            "genesis_chunked" => params::chunk(target, body).map(Self::Chunk),
            "tx" | "block_by_hash" => params::hash(target, body).map(Self::Hash),
            "block" | "block_results" | "commit" | "consensus_params" | "header" | "validators" => {
                params::height(method, target, body).map(Self::Height)
            }
            _ => None,
        }
    }

    /// What a call of gRPC asks for: a block, its validators, or a transaction.
    fn by_call(path: &str, message: &[u8]) -> Option<Self> {
        if path == GET_TX {
            let Value::Bytes(hash) = at(message, &[1])? else {
                return None;
            };
            return decode_hash(hash).map(Self::Hash);
        }
        let known = BY_HEIGHT.iter().any(|(known, _)| *known == path);
        match at(message, &[1])? {
            Value::Number(height) if known => Some(Self::Height(height)),
            _ => None,
        }
    }

    /// Whether the answer to a call of gRPC is one message that is what was asked for, and cannot change while the chain
    /// has this height.
    pub(super) fn is_final_call(self, path: &str, answer: &[u8], height: u64) -> bool {
        let Some(message) = only_message(answer) else {
            return false;
        };
        let places = BY_HEIGHT.iter().find(|(known, _)| *known == path);
        let place = places.map_or(&[2, 1][..], |(_, place)| *place);
        let of = at(message, place);
        match self {
            Self::Height(asked) => of == Some(Value::Number(asked)) && asked < height,
            Self::Hash(asked) => {
                let is_final = matches!(of, Some(Value::Number(of)) if of < height);
                let told = at(message, &[2, 2]);
                is_final
                    && matches!(told, Some(Value::Bytes(told)) if decode_hash(told) == Some(asked))
            }
            Self::Genesis | Self::Chunk(_) => false,
        }
    }

    /// Whether a result is what was asked for, and cannot change while the node's chain has this height.
    pub(super) fn is_final(self, result: &[u8], height: u64) -> bool {
        let Ok(told) = serde_json::from_slice::<Told>(result) else {
            return false;
        };
        let of = told.height();
        match self {
            Self::Genesis => told.genesis.is_some(),
            Self::Chunk(chunk) => told.chunk.is_some_and(|told| told == chunk.to_string()),
            Self::Height(asked) => of == Some(asked) && asked < height,
            Self::Hash(asked) => {
                told.hash() == Some(asked) && of.is_some_and(|height_of| height_of < height)
            }
        }
    }
}

/// A field of a message, or of the messages in it. The last one of a number counts, as protobuf has it.
fn at<'a>(message: &'a [u8], place: &[u32]) -> Option<Value<'a>> {
    let (wanted, deeper) = place.split_first()?;
    let mut found = None;
    for field in Fields::of(message, "answer") {
        let (number, value) = field.ok()?;
        if number == *wanted {
            found = Some(value);
        }
    }
    match found? {
        Value::Bytes(inner) if !deeper.is_empty() => at(inner, deeper),
        value if deeper.is_empty() => Some(value),
        _ => None,
    }
}

/// Calls of gRPC by height, and where their answers name it
/// (`proto/cosmos/base/tendermint/v1beta1/query.proto`, `proto/cosmos/tx/v1beta1/service.proto`).
const BY_HEIGHT: [(&str, &[u32]); 3] = [
    (
        "/cosmos.base.tendermint.v1beta1.Service/GetBlockByHeight",
        &[2, 1, 3],
    ),
    (
        "/cosmos.base.tendermint.v1beta1.Service/GetValidatorSetByHeight",
        &[1],
    ),
    ("/cosmos.tx.v1beta1.Service/GetBlockWithTxs", &[3, 1, 3]),
];
/// The one by hash: its answer's second field has height and hash.
const GET_TX: &str = "/cosmos.tx.v1beta1.Service/GetTx";

/// Where a result names what it is of.
#[derive(Deserialize)]
struct Told {
    genesis: Option<IgnoredAny>,
    chunk: Option<String>,
    #[serde(alias = "txhash")]
    hash: Option<String>,
    block_id: Option<Box<Self>>,
    tx_response: Option<Box<Self>>,
    height: Option<String>,
    block_height: Option<String>,
    block: Option<Box<Self>>,
    header: Option<Box<Self>>,
    signed_header: Option<Box<Self>>,
}

impl Told {
    fn height(&self) -> Option<u64> {
        let own = self.height.as_ref().or(self.block_height.as_ref());
        let blocks = [&self.block, &self.header, &self.signed_header];
        match own {
            Some(height) => height.parse().ok(),
            None => (blocks.into_iter().chain([&self.tx_response]).flatten())
                .find_map(|inner| inner.height()),
        }
    }

    fn hash(&self) -> Option<[u8; 32]> {
        match &self.hash {
            Some(hash) => decode_hash(hash.as_bytes()),
            None => self.block_id.as_ref().or(self.tx_response.as_ref())?.hash(),
        }
    }
}

/// What a question is known by, and what it asks for: all that the answer of a node may depend on, which is everything
/// but the id. `None` if the answer may always change, or the question is long.
pub(super) fn key(
    request: &ReadRequest,
    (node, chain): (usize, u64),
) -> Option<(Box<[u8]>, Asked)> {
    let asked = Asked::of(request)?;
    let [before, after] = match (&request.http_method, &request.id) {
        (&Method::GET, None) if request.body.is_empty() => [&[][..]; 2],
        (&Method::POST, Some(_)) => {
            let id = only_id(&request.body)?;
            [&request.body[..id.start], &request.body[id.end..]]
        }
        _ => return None,
    };
    let mut key = format!("{node} {chain}\n").into_bytes();
    key.extend_from_slice(&request.target);
    push_headers(&mut key, &request.headers);
    for part in [before, after] {
        key.extend_from_slice(b"\n\n");
        key.extend_from_slice(part);
    }
    (key.len() <= KEY_BYTES).then(|| (key.into(), asked))
}

/// The same for a question to another listener of a Cosmos SDK's node.
pub(super) fn key_at_door(
    door: NodeDoor,
    (head, body): (&Parts, &CallBody),
    chain: u64,
) -> Option<(Box<[u8]>, Asked)> {
    let path = head.uri.path();
    let asked = match door {
        NodeDoor::Grpc => Asked::by_call(path, body.message()?)?,
        _ if head.method != Method::GET || !body.ahead().is_empty() => return None,
        _ => match path.strip_prefix("/cosmos/base/tendermint/v1beta1/blocks/") {
            Some(height) => Asked::Height(height.parse().ok()?),
            None => {
                let hash = path.strip_prefix("/cosmos/tx/v1beta1/txs/")?;
                Asked::Hash(decode_hash(hash.as_bytes())?)
            }
        },
    };
    let mut key = format!("{door:?} {chain}\n{}", head.uri.path_and_query()?).into_bytes();
    push_headers(&mut key, &head.headers);
    key.extend_from_slice(b"\n\n");
    key.extend_from_slice(body.ahead());
    (key.len() <= KEY_BYTES).then(|| (key.into(), asked))
}

fn push_headers(key: &mut Vec<u8>, headers: &HeaderMap) {
    let all = headers.iter();
    for (name, value) in all.filter(|(name, _)| !OF_CLIENTS.contains(&name.as_str())) {
        for part in [b"\n", name.as_str().as_bytes(), b":", value.as_bytes()] {
            key.extend_from_slice(part);
        }
    }
}

/// How long anybody may keep this answer, at most a day; `None` if the node does not say that anybody may. CometBFT says
/// so if each argument was given that names the height (`rpc.Cacheable` in `rpc/core/routes.go`, v0.38.17).
///
/// An answer is not kept if it has another directive, comes from another cache, or has a header that names the request.
pub(super) fn public_for<B>(answer: &ReadAnswer<B>) -> Option<Duration> {
    may_be_kept(answer.status, &answer.headers, None)
}

/// The same for an answer with this status and these headers, which may be kept for so many seconds unless the node
/// says otherwise.
pub(super) fn may_be_kept(
    status: u16,
    headers: &Headers,
    unless_told: Option<u64>,
) -> Option<Duration> {
    let mut seconds = None;
    for (name, value) in headers {
        match name.to_ascii_lowercase().as_str() {
            "cache-control" if seconds.is_none() => {
                let text = str::from_utf8(value).ok()?;
                seconds = text.strip_prefix("public, max-age=")?.parse::<u64>().ok();
            }
            "vary" if !VARY.iter().any(|known| value.eq_ignore_ascii_case(known)) => return None,
            "cache-control" | "age" | "set-cookie" | "x-request-id" => return None,
            _ => {}
        }
    }
    let seconds = seconds.or(unless_told).filter(|_| status == 200)?;
    Some(Duration::from_secs(seconds.min(LONGEST_SECONDS)))
}

/// Where the id is in the body of an answer that cannot change: nowhere, behind the end, in one to a request in a
/// target. `None` if the answer may still change while its node's chain has this height, is not what was asked for, or
/// is an error.
pub(super) fn id_in_final(
    id: Option<&KeptId>,
    body: &[u8],
    (asked, height): (Asked, u64),
) -> Option<Range<usize>> {
    let text = json::check(body).ok()?;
    let mut members = json::members(text);
    let [version, echoed, result] = [members.next()?, members.next()?, members.next()?];
    let keys = [version.0, echoed.0, result.0];
    if members.next().is_some() || keys != ["jsonrpc", "id", "result"] {
        return None;
    }
    if !asked.is_final(result.1, height) {
        return None;
    }
    match id {
        None => Some(body.len()..body.len()),
        Some(id) => (id.as_bytes() == echoed.1).then(|| place(body, echoed.1))?,
    }
}

/// Where the id is in a request that has one, in one spelling.
fn only_id(body: &[u8]) -> Option<Range<usize>> {
    let text = json::check(body).ok()?;
    let mut ids = json::members(text).filter(|(key, _)| json::folds_to(key, "id"));
    let (_, id) = ids.next()?;
    match ids.next() {
        None => place(body, id),
        Some(_) => None,
    }
}

/// Where a part is in the whole that it was cut from.
fn place(whole: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    (start + part.len() <= whole.len()).then(|| start..start + part.len())
}

/// Bytes by which a question is known, at most.
const KEY_BYTES: usize = 2 << 10;
/// The longest that an answer is kept, in seconds: what CometBFT allows (`rpc/jsonrpc/server/http_server.go`, v0.38.17).
pub(super) const LONGEST_SECONDS: u64 = 86_400;
/// Headers on which an answer does not depend: they say who asks. Those that name a host or a scheme are not among them:
/// a gateway may write these into its answer.
const OF_CLIENTS: [&str; 10] = [
    "grpc-timeout",
    "grpc-trace-bin",
    "referer",
    "traceparent",
    "tracestate",
    "user-agent",
    "via",
    "x-forwarded-for",
    "x-real-ip",
    "x-request-id",
];
/// Headers that a node may choose an answer by: each is in the key.
const VARY: [&[u8]; 2] = [b"origin", b"accept-encoding"];

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use wire::proto;

    use super::*;

    const HEIGHT: u64 = 9;

    /// At 97e0bff8 only a height was looked at: a node that answered with another transaction or block was believed for
    /// all, for a day.
    #[test]
    fn case_100_an_answer_is_kept_if_it_names_what_was_asked_for() {
        let hash = |digit: &str| digit.repeat(64);
        let tx = |digit, height: u64| {
            format!(
                r#"{{"hash":"{}","height":"{height}","index":0}}"#,
                hash(digit)
            )
        };
        let block = |digit, height: u64| {
            let id = format!(
                r#"{{"hash":"{}","parts":{{"hash":"{}"}}}}"#,
                hash(digit),
                hash("C")
            );
            format!(r#"{{"block_id":{id},"block":{{"header":{{"height":"{height}"}}}}}}"#)
        };
        let of_gateway = |digit| {
            let response = tx(digit, 8).replace("hash", "txhash");
            format!(r#"{{"tx":{{"body":{{}}}},"tx_response":{response}}}"#)
        };
        let asked = Asked::Hash([0xaa; 32]);
        for (asked, result, is_final) in [
            (asked, tx("A", 8), true),
            (asked, tx("a", 8), true),
            (asked, tx("B", 8), false),
            (asked, tx("A", 9), false),
            (asked, r#"{"height":"8"}"#.to_owned(), false),
            // As the gateway writes it.
            (asked, of_gateway("A"), true),
            (asked, of_gateway("B"), false),
            (asked, format!(r#"{{"hash":"{}"}}"#, hash("A")), false),
            (asked, block("A", 8), true),
            (asked, block("B", 8), false),
            // A part's hash is not the block's.
            (Asked::Hash([0xcc; 32]), block("A", 8), false),
            (Asked::Height(8), block("A", 8), true),
            (Asked::Height(7), block("A", 8), false),
            (Asked::Height(9), block("A", 9), false),
            (
                Asked::Chunk(0),
                r#"{"chunk":"0","total":"2","data":""}"#.to_owned(),
                true,
            ),
            (
                Asked::Chunk(1),
                r#"{"chunk":"0","total":"2","data":""}"#.to_owned(),
                false,
            ),
            (Asked::Chunk(0), r#"{"height":"8"}"#.to_owned(), false),
            (
                Asked::Genesis,
                r#"{"genesis":{"chain_id":"c"}}"#.to_owned(),
                true,
            ),
            (Asked::Genesis, tx("A", 8), false),
        ] {
            assert_eq!(
                asked.is_final(result.as_bytes(), HEIGHT),
                is_final,
                "{asked:?} {result}"
            );
        }
    }

    #[test]
    fn case_100_an_answer_of_grpc_is_kept_if_it_names_what_was_asked_for() {
        let frame = |message: &[u8]| {
            let len = u32::try_from(message.len()).unwrap().to_be_bytes();
            [&[0][..], &len, message].concat()
        };
        let of = |place: &[u8], number: u64| {
            let (last, outer) = place.split_last().unwrap();
            let mut message = Vec::new();
            proto::number(&mut message, *last, number);
            for field in outer.iter().rev() {
                let inner = std::mem::take(&mut message);
                proto::bytes(&mut message, *field, &inner);
            }
            message
        };
        let base = "/cosmos.base.tendermint.v1beta1.Service/";
        for (path, place) in [
            (format!("{base}GetBlockByHeight"), &[2, 1, 3][..]),
            (format!("{base}GetValidatorSetByHeight"), &[1]),
            (
                "/cosmos.tx.v1beta1.Service/GetBlockWithTxs".to_owned(),
                &[3, 1, 3],
            ),
        ] {
            assert_eq!(Asked::by_call(&path, &of(&[1], 8)), Some(Asked::Height(8)));
            assert_eq!(Asked::by_call(&path, b""), None);
            for (asked, told, is_final) in [(8, 8, true), (8, 7, false), (9, 9, false)] {
                let answer = frame(&of(place, told));
                let asked = Asked::Height(asked);
                assert_eq!(
                    asked.is_final_call(&path, &answer, HEIGHT),
                    is_final,
                    "{path}"
                );
            }
            let cut = &frame(&of(place, 8))[..6];
            assert!(!Asked::Height(8).is_final_call(&path, cut, HEIGHT));
        }
        let tx = |digit: &str, height| {
            let mut response = of(&[1], height);
            proto::bytes(&mut response, 2, digit.repeat(64).as_bytes());
            let mut message = Vec::new();
            proto::bytes(&mut message, 2, &response);
            frame(&message)
        };
        let mut message = Vec::new();
        proto::bytes(&mut message, 1, "aA".repeat(32).as_bytes());
        let asked = Asked::by_call(GET_TX, &message).unwrap();
        assert_eq!(asked, Asked::Hash([0xaa; 32]));
        for (answer, is_final) in [
            (tx("A", 8), true),
            (tx("B", 8), false),
            (tx("A", 9), false),
            (frame(b""), false),
        ] {
            assert_eq!(asked.is_final_call(GET_TX, &answer, HEIGHT), is_final);
        }
        assert_eq!(
            Asked::by_call("/cosmos.bank.v1beta1.Query/Supply", &of(&[1], 8)),
            None
        );
    }

    #[test]
    fn a_question_to_the_gateway_is_known_by_all_that_its_answer_depends_on() {
        let key = |method: &str, target: &str, header: &str, body: &'static [u8]| {
            let request = hyper::Request::builder().method(method).uri(target);
            let (head, ()) = request.header(header, "x").body(()).unwrap().into_parts();
            let body = CallBody::whole(Bytes::from_static(body));
            key_at_door(NodeDoor::Rest, (&head, &body), 0).map(|(key, _)| key)
        };
        let block = "/cosmos/base/tendermint/v1beta1/blocks/8";
        let tx = format!("/cosmos/tx/v1beta1/txs/{}", "aA".repeat(32));
        let plain = key("GET", block, "accept", b"");
        assert!(plain.is_some() && key("GET", &tx, "accept", b"").is_some());
        assert_eq!(key("GET", block, "accept", b""), plain);
        for (target, header) in [
            ("/cosmos/base/tendermint/v1beta1/blocks/9", "accept"),
            ("/cosmos/base/tendermint/v1beta1/blocks/8?a=b", "accept"),
            (block, "x-cosmos-block-height"),
            (block, "range"),
        ] {
            let other = key("GET", target, header, b"");
            assert!(other.is_some() && other != plain, "{target} {header}");
        }
        for (method, target, body) in [
            ("HEAD", block, &b""[..]),
            ("POST", block, b""),
            ("GET", block, b"x"),
            ("GET", "/cosmos/base/tendermint/v1beta1/blocks/latest", b""),
            ("GET", "/cosmos/base/tendermint/v1beta1/blocks/8/", b""),
            ("GET", "/cosmos/tx/v1beta1/txs", b""),
            ("GET", "/cosmos/tx/v1beta1/txs/block/8", b""),
            ("GET", "/cosmos/bank/v1beta1/supply", b""),
        ] {
            assert_eq!(
                key(method, target, "accept", body),
                None,
                "{method} {target}"
            );
        }
    }
}
