//! What a question asks for whose answer several may get, and whether the answer cannot change.

use hyper::Method;
use hyper::http::request::Parts;
use serde::Deserialize;
use serde::de::IgnoredAny;
use wire::encoding::decode_hash;
use wire::proto::{Fields, Value};

use super::admission::ReadRequest;
use super::params;
use crate::upstream::doors::{CallBody, only_message};
use crate::upstream::node_state::NodeDoor;

/// What a question asks for whose answer several may get. One that cannot change is kept if it names the same, so that a
/// node or a gateway that mixes answers up gives no other client a wrong one.
///
/// `header_by_hash` is none of these: its answer does not contain the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Genesis,
    /// Of the genesis file.
    Chunk(u64),
    /// Cannot change once a later block is there: what the node tells of the last one still does.
    Height(u64),
    /// Of a transaction or a block, which is final as its height is.
    Hash([u8; 32]),
    /// What may always change.
    Latest,
}

impl Subject {
    pub(super) fn of(request: &ReadRequest) -> Option<Self> {
        let (method, target, body) = (request.method.as_deref()?, &request.target, &request.body);
        match method {
            "genesis" => Some(Self::Genesis),
            "genesis_chunked" => params::chunk(target, body).map(Self::Chunk),
            "tx" | "block_by_hash" => params::hash(target, body).map(Self::Hash),
            "block" | "block_results" | "commit" | "consensus_params" | "header" | "validators" => {
                let height = params::height(method, target, body);
                Some(height.map_or(Self::Latest, Self::Height))
            }
            _ => LATEST.contains(&method).then_some(Self::Latest),
        }
    }

    /// What a request asks another listener of a Cosmos SDK's node for.
    pub(super) fn at_door(door: NodeDoor, head: &Parts, body: &CallBody) -> Option<Self> {
        let path = head.uri.path();
        match door {
            NodeDoor::Grpc => Self::by_call(path, body.message()?),
            _ if head.method != Method::GET || !body.ahead().is_empty() => None,
            _ => {
                let height = path.strip_prefix("/cosmos/base/tendermint/v1beta1/blocks/");
                let height = height.and_then(|height| height.parse().ok());
                let hash = path.strip_prefix("/cosmos/tx/v1beta1/txs/");
                let hash = hash.and_then(|hash| decode_hash(hash.as_bytes()));
                let kept = height.map(Self::Height).or(hash.map(Self::Hash));
                Some(kept.unwrap_or(Self::Latest))
            }
        }
    }

    /// What a call of gRPC asks for: a block, its validators, a transaction, or the state.
    fn by_call(path: &str, message: &[u8]) -> Option<Self> {
        if path == GET_TX {
            let Value::Bytes(hash) = at(message, &[1])? else {
                return None;
            };
            return decode_hash(hash).map(Self::Hash);
        }
        if BY_HEIGHT.iter().any(|(known, _)| *known == path) {
            return match at(message, &[1])? {
                Value::Number(height) => Some(Self::Height(height)),
                _ => None,
            };
        }
        let (service, _) = path.rsplit_once('/')?;
        service.ends_with(QUERIES).then_some(Self::Latest)
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
            Self::Genesis | Self::Chunk(_) | Self::Latest => false,
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
            Self::Latest => false,
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
/// Reads of the RPC that many clients ask again and again, and that change nothing at the node.
const LATEST: [&str; 7] = [
    "abci_info",
    "abci_query",
    "blockchain",
    "health",
    "net_info",
    "num_unconfirmed_txs",
    "status",
];
/// How the services of an SDK's modules end whose calls are reads with one answer each.
const QUERIES: &str = ".Query";
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

#[cfg(test)]
mod tests {
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
        let asked = Subject::Hash([0xaa; 32]);
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
            (Subject::Hash([0xcc; 32]), block("A", 8), false),
            (Subject::Height(8), block("A", 8), true),
            (Subject::Height(7), block("A", 8), false),
            (Subject::Height(9), block("A", 9), false),
            (
                Subject::Chunk(0),
                r#"{"chunk":"0","total":"2","data":""}"#.to_owned(),
                true,
            ),
            (
                Subject::Chunk(1),
                r#"{"chunk":"0","total":"2","data":""}"#.to_owned(),
                false,
            ),
            (Subject::Chunk(0), r#"{"height":"8"}"#.to_owned(), false),
            (
                Subject::Genesis,
                r#"{"genesis":{"chain_id":"c"}}"#.to_owned(),
                true,
            ),
            (Subject::Genesis, tx("A", 8), false),
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
            assert_eq!(
                Subject::by_call(&path, &of(&[1], 8)),
                Some(Subject::Height(8))
            );
            assert_eq!(Subject::by_call(&path, b""), None);
            for (asked, told, is_final) in [(8, 8, true), (8, 7, false), (9, 9, false)] {
                let answer = frame(&of(place, told));
                let asked = Subject::Height(asked);
                assert_eq!(
                    asked.is_final_call(&path, &answer, HEIGHT),
                    is_final,
                    "{path}"
                );
            }
            let cut = &frame(&of(place, 8))[..6];
            assert!(!Subject::Height(8).is_final_call(&path, cut, HEIGHT));
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
        let asked = Subject::by_call(GET_TX, &message).unwrap();
        assert_eq!(asked, Subject::Hash([0xaa; 32]));
        for (answer, is_final) in [
            (tx("A", 8), true),
            (tx("B", 8), false),
            (tx("A", 9), false),
            (frame(b""), false),
        ] {
            assert_eq!(asked.is_final_call(GET_TX, &answer, HEIGHT), is_final);
        }
        for (path, asked) in [
            ("/cosmos.bank.v1beta1.Query/Supply", Some(Subject::Latest)),
            ("/cosmos.tx.v1beta1.Service/Simulate", None),
            ("Supply", None),
        ] {
            assert_eq!(Subject::by_call(path, &of(&[1], 8)), asked, "{path}");
        }
    }
}
