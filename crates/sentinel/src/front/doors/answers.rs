//! Answers that are made here: refusals, and the lane's answer to a broadcast as a Cosmos SDK's node gives it over gRPC
//! and REST (`client/broadcast.go`, `types/result.go` and `proto/cosmos/base/abci/v1beta1/abci.proto`, v0.50.13).

use std::sync::Arc;

use bytes::Bytes;
use fairq::ClientKey;
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Response};
use rpc::BroadcastMethod;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use wire::doors::NoBroadcast;
use wire::encoding::hex_text;
use wire::proto;

use crate::budget::Reservation;
use crate::front::Shared;
use crate::front::backend::{Backend as _, Lanes, WRITE_OVERHEAD};
use crate::lane::{Awaited, Outbox, Write, WriteAnswer};
use crate::metrics::OutcomeLabel;
use crate::refusal::Refusal;
use crate::respond::{GrpcStatus, http_status, whole_seconds};
use crate::upstream::{self, AnswerBody, UpstreamError};

/// Why a call has no answer of the node's: it ends, or is refused, which is counted.
pub(super) enum Failure {
    Ended(OutcomeLabel, GrpcStatus),
    Refused(Refusal),
}

impl Failure {
    /// A call that is none.
    pub(super) fn rejected(code: u16, text: &str) -> Self {
        Self::Ended(OutcomeLabel::Rejected, GrpcStatus::new(code, text))
    }
}

impl From<NoBroadcast> for Failure {
    fn from(error: NoBroadcast) -> Self {
        Self::Ended(OutcomeLabel::Rejected, error.into())
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// A broadcast as gRPC answers it.
pub(super) fn grpc_answer(response: &TxResponse) -> Response<AnswerBody> {
    let mut trailers = HeaderMap::new();
    GrpcStatus::new(GrpcStatus::OK, "").write(&mut trailers);
    let mut answer = Response::new(AnswerBody::whole(response.frame().into(), Some(trailers)));
    answer.headers_mut().insert(header::CONTENT_TYPE, GRPC);
    answer
}

/// The end of a call that was not served, as gRPC or as its gateway writes it.
pub(super) fn ended(status: &GrpcStatus, is_grpc: bool) -> Response<AnswerBody> {
    if is_grpc {
        let mut answer = Response::new(AnswerBody::default());
        answer.headers_mut().insert(header::CONTENT_TYPE, GRPC);
        status.write(answer.headers_mut());
        return answer;
    }
    let body = serde_json::json!({"code": status.code, "message": status.message, "details": []});
    let mut answer = json_answer(http_status(status.code), body.to_string().into_bytes());
    if let Some(after) = status.retry_after {
        answer
            .headers_mut()
            .insert(header::RETRY_AFTER, whole_seconds(after).into());
    }
    answer
}

/// JSON in whole.
pub(super) fn json_answer(status: u16, body: Vec<u8>) -> Response<AnswerBody> {
    let length = body.len();
    let mut answer = Response::new(AnswerBody::whole(body.into(), None));
    *answer.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    let headers = answer.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CONTENT_LENGTH, length.into());
    answer
}

/// Puts a broadcast of a client's connection into the write lane and waits for its answer. Dropped, it takes the write
/// back if it still waits.
pub(super) async fn broadcast(
    front: &Shared<Lanes>,
    (client, connection): (ClientKey, u64),
    (method, tx): (BroadcastMethod, Bytes),
    mut held: Reservation,
) -> Result<TxResponse, Failure> {
    let backend = &front.backend;
    backend.check_method(client, method.name())?;
    if !held.grow(WRITE_OVERHEAD) {
        return Err(Refusal::buffers_full().into());
    }
    let hash: [u8; 32] = Sha256::digest(&tx).into();
    let awaited = Awaited(Outbox::new());
    backend.submit(Write {
        client,
        connection,
        tag: 0,
        method,
        tx,
        reservation: held,
        outbox: Arc::clone(&awaited.0),
    })?;
    match awaited.answer().await {
        Some(WriteAnswer::Member(member)) => {
            let answered = |status| Failure::Ended(OutcomeLabel::Forwarded, status);
            TxResponse::read(&member, &hash).map_err(answered)
        }
        Some(WriteAnswer::Refused(refusal)) => Err(refusal.into()),
        None => Err(Refusal::going_down().into()),
    }
}

/// The node's result for a transaction. Logs and events of a committed one are left out: they are asked for by hash.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TxResponse {
    height: u64,
    hash: String,
    codespace: String,
    code: u64,
    data: String,
    log: String,
    info: String,
    gas: [u64; 2],
}

impl TxResponse {
    /// From the member of a JSON-RPC answer to the transaction of this hash.
    ///
    /// # Errors
    /// What the node would answer to an error that it has no code for.
    pub(super) fn read(member: &[u8], hash: &[u8; 32]) -> Result<Self, GrpcStatus> {
        let result: Value = match upstream::result(&[b"{", member, b"}"].concat()) {
            Ok(result) => result,
            Err(UpstreamError::Refused(text)) => return Self::of_error(text, hash),
            Err(_) => {
                let text = "the node's answer cannot be read";
                return Err(GrpcStatus::new(GrpcStatus::UNKNOWN, text));
            }
        };
        let Some(check) = result.get("check_tx") else {
            return Ok(Self::of_check(&result, hex_text(hash)));
        };
        // `NewResponseFormatBroadcastTxCommit`: the check unless it passed, else the execution.
        if number(check, "code") != 0 {
            return Ok(Self::of_check(check, hex_text(hash)));
        }
        let executed = result.get("tx_result").or_else(|| result.get("deliver_tx"));
        let mut response = Self::of_check(executed.unwrap_or(&Value::Null), hex_text(hash));
        response.height = number(&result, "height");
        Ok(response)
    }

    fn of_check(result: &Value, hash: String) -> Self {
        let text = |key: &str| result[key].as_str().unwrap_or_default().to_owned();
        Self {
            height: 0,
            hash,
            codespace: text("codespace"),
            code: number(result, "code"),
            data: text("data"),
            log: text("log"),
            info: text("info"),
            gas: [number(result, "gas_wanted"), number(result, "gas_used")],
        }
    }

    /// `CheckCometError`: some errors of the mempool have a code (`types/errors/errors.go`), the others are the call's.
    fn of_error(text: String, hash: &[u8; 32]) -> Result<Self, GrpcStatus> {
        let lower = text.to_ascii_lowercase();
        let code = [
            ("tx already exists in cache", 19),
            ("mempool is full", 20),
            ("tx too large", 21),
        ]
        .into_iter()
        .find_map(|(words, code)| lower.contains(words).then_some(code));
        let code = code.ok_or_else(|| GrpcStatus::new(GrpcStatus::UNKNOWN, text))?;
        Ok(Self {
            code,
            codespace: "sdk".to_owned(),
            hash: hex_text(hash),
            ..Self::default()
        })
    }

    /// `BroadcastTxResponse` in protobuf, behind gRPC's prefix.
    pub(super) fn frame(&self) -> Vec<u8> {
        let mut message = Vec::with_capacity(256);
        proto::nested(&mut message, 1, |out| {
            proto::number(out, 1, self.height);
            proto::bytes(out, 2, self.hash.as_bytes());
            proto::bytes(out, 3, self.codespace.as_bytes());
            proto::number(out, 4, self.code);
            proto::bytes(out, 5, self.data.as_bytes());
            proto::bytes(out, 6, self.log.as_bytes());
            proto::bytes(out, 8, self.info.as_bytes());
            proto::number(out, 9, self.gas[0]);
            proto::number(out, 10, self.gas[1]);
        });
        let len = u32::try_from(message.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes();
        [&[0][..], &len, &message].concat()
    }

    /// `BroadcastTxResponse` in JSON, as the gateway writes it: 64-bit numbers are text.
    pub(super) fn json(&self) -> Vec<u8> {
        json!({"tx_response": {
            "height": self.height.to_string(), "txhash": self.hash, "codespace": self.codespace,
            "code": self.code, "data": self.data, "raw_log": self.log, "logs": [], "info": self.info,
            "gas_wanted": self.gas[0].to_string(), "gas_used": self.gas[1].to_string(),
            "tx": null, "timestamp": "", "events": [],
        }})
        .to_string()
        .into_bytes()
    }
}

/// A number, or the text of one: Go writes those of 64 bits as text.
fn number(value: &Value, key: &str) -> u64 {
    let value = &value[key];
    let text = || value.as_str()?.parse().ok();
    value.as_u64().or_else(text).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: [u8; 32] = [0xab; 32];

    fn read(member: &str) -> Result<TxResponse, GrpcStatus> {
        TxResponse::read(member.as_bytes(), &HASH)
    }

    #[test]
    fn checks_commits_and_errors_are_what_the_node_says_of_them() {
        let check = read(
            r#""result":{"code":5,"data":"0A","log":"no funds","codespace":"sdk","hash":"X"}"#,
        );
        let check = check.unwrap();
        assert_eq!(
            (check.code, check.log.as_str(), check.data.as_str()),
            (5, "no funds", "0A")
        );
        assert_eq!(check.hash, "AB".repeat(32));
        let commit = read(
            r#""result":{"check_tx":{"code":0},"tx_result":{"code":3,"gas_wanted":"7","gas_used":"6"},"height":"9"}"#,
        )
        .unwrap();
        assert_eq!((commit.code, commit.height, commit.gas), (3, 9, [7, 6]));
        for (data, code) in [
            ("tx already exists in cache", 19),
            ("mempool is full: number of txs 5", 20),
            ("Tx too large. Max size is 1", 21),
        ] {
            let member =
                format!(r#""error":{{"code":-32603,"message":"Internal error","data":"{data}"}}"#);
            let response = read(&member).unwrap();
            assert_eq!((response.code, response.codespace.as_str()), (code, "sdk"));
        }
        let other = read(r#""error":{"code":-32603,"message":"Internal error","data":"boom"}"#);
        assert_eq!(other, Err(GrpcStatus::new(2, "boom")));
        assert_eq!(read("nonsense").unwrap_err().code, 2);
    }

    #[test]
    fn json_and_protobuf_say_the_same() {
        let response =
            read(r#""result":{"code":5,"data":"","log":"x","codespace":"sdk","hash":""}"#).unwrap();
        let json: Value = serde_json::from_slice(&response.json()).unwrap();
        assert_eq!(json["tx_response"]["height"], "0");
        assert_eq!(json["tx_response"]["code"], 5);
        let frame = response.frame();
        assert_eq!(usize::from(frame[4]), frame.len() - 5);
        assert_eq!(&frame[frame.len() - 10..], b"\x1a\x03sdk\x20\x05\x32\x01x");
    }
}
