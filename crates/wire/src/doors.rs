//! What a request to a Cosmos SDK's gRPC or REST listener asks for, so that no spelling takes a broadcast for something
//! else.
//!
//! [`route`] reads the path and the type of the content, [`grpc_broadcast`] and [`rest_broadcast`] the body of a
//! broadcast. What grpc-go, grpc-gateway and the SDK make of the same bytes is the measure: here more is refused, and
//! nothing means something else.

use crate::encoding::{decode_base64, decode_hex};
use crate::json::{self, Kind};
use crate::jsonrpc::BroadcastMethod;
use crate::proto::Fields;

/// What is to be done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorRoute {
    /// A broadcast in protobuf.
    GrpcWrite,
    /// A broadcast in JSON.
    RestWrite,
    /// A broadcast in a form that is not read here, and what to use instead.
    Unserved(&'static str),
    /// A simulation: a read that executes a transaction.
    Simulation,
    /// A search for transactions.
    Search,
    /// Anything else that the node answers.
    Read,
}

/// What a path asks for, however it is spelt: what Go's routers or a proxy between could take for a broadcast never
/// passes as a read. Both listeners of a node serve both kinds of path (gRPC-Web is on the REST one).
#[must_use]
pub fn route(is_post: bool, path: &str, content_type: &[u8]) -> DoorRoute {
    let path = plain_path(path);
    let is_grpc = content_type == b"application/grpc"
        || content_type.starts_with(b"application/grpc+")
        || GrpcWeb::of(content_type).is_some();
    match path.as_str() {
        "/cosmos.tx.v1beta1.Service/BroadcastTx" if is_grpc => DoorRoute::GrpcWrite,
        "/cosmos.tx.v1beta1.Service/BroadcastTx" => DoorRoute::Unserved(
            "broadcasts are application/grpc or application/grpc-web; or POST /cosmos/tx/v1beta1/txs",
        ),
        "/cosmos/tx/v1beta1/txs" if is_post => DoorRoute::RestWrite,
        "/txs" if is_post => {
            DoorRoute::Unserved("amino broadcasts are not served here: POST /cosmos/tx/v1beta1/txs")
        }
        "/cosmos.tx.v1beta1.Service/Simulate" | "/cosmos/tx/v1beta1/simulate" => {
            DoorRoute::Simulation
        }
        "/cosmos.tx.v1beta1.Service/GetTxsEvent" | "/cosmos/tx/v1beta1/txs" => DoorRoute::Search,
        _ => DoorRoute::Read,
    }
}

/// A path without escapes, empty and `.` segments, a slash at its end, and colons at the end of a segment: grpc-gateway
/// reads what follows the last colon as a verb, and `txs:` as `txs` without one (`ServeHTTP` in `runtime/mux.go`, v1.16.0).
#[must_use]
pub fn plain_path(path: &str) -> String {
    let mut bytes = path.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    while let [first, rest @ ..] = bytes {
        bytes = rest;
        let escaped = match (first, rest) {
            (b'%', [high, low, ..]) => decode_hex(&[*high, *low]).ok(),
            _ => None,
        };
        if let Some(escaped) = escaped {
            decoded.extend(escaped);
            bytes = &rest[2..];
        } else {
            decoded.push(*first);
        }
    }
    let decoded = String::from_utf8_lossy(&decoded);
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/') {
        match segment.trim_end_matches(':') {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

/// How a call of gRPC-Web and its answer are written (`grpc/doc/PROTOCOL-WEB.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrpcWeb {
    /// As they are.
    Binary,
    /// In base64.
    Text,
}

impl GrpcWeb {
    /// What the type of a request's content says; none if it is no gRPC-Web.
    #[must_use]
    pub fn of(content_type: &[u8]) -> Option<Self> {
        let is = |name: &[u8]| {
            let rest = content_type.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || matches!(rest[0], b'+' | b';'))
        };
        if is(b"application/grpc-web-text") {
            Some(Self::Text)
        } else {
            is(b"application/grpc-web").then_some(Self::Binary)
        }
    }
}

/// Base64 in pieces, each of which may be padded, as gRPC-Web's texts are.
#[must_use]
pub fn decode_pieces(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut rest = text.trim_ascii();
    while !rest.is_empty() {
        let padding = memchr::memchr(b'=', rest).map_or(rest.len(), |at| (at / 4 + 1) * 4);
        let (piece, further) = rest.split_at_checked(padding)?;
        bytes.extend(base64_simd::STANDARD.decode_to_vec(piece).ok()?);
        rest = further;
    }
    Some(bytes)
}

/// Why the body of a broadcast is none, in the node's words where it has some.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBroadcast {
    /// It cannot be read, and why.
    #[error("{0}")]
    Invalid(String),
    /// The message is compressed. A Cosmos SDK's server has no decompressor installed either.
    #[error("grpc: Decompressor is not installed for the message")]
    Compressed,
    /// It asks for none of the ways to broadcast.
    #[error("unsupported return type unspecified; supported types: sync, async")]
    Mode,
}

/// The broadcast in the body of a gRPC call: one message (`cosmos.tx.v1beta1.BroadcastTxRequest`).
///
/// # Errors
/// [`NoBroadcast`].
pub fn grpc_broadcast(body: &[u8]) -> Result<(BroadcastMethod, &[u8]), NoBroadcast> {
    let invalid = |text: &str| NoBroadcast::Invalid(text.to_owned());
    let Some((prefix, message)) = body.split_at_checked(5) else {
        return Err(invalid("the call has no message"));
    };
    if prefix[0] != 0 {
        return Err(NoBroadcast::Compressed);
    }
    let len = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
    if usize::try_from(len) != Ok(message.len()) {
        return Err(invalid("the call is not one whole message"));
    }
    let (mut tx, mut mode): (&[u8], u64) = (&[], 0);
    for field in Fields::of(message, "BroadcastTxRequest") {
        let malformed = |_| invalid("the message is no BroadcastTxRequest");
        let (number, value) = field.map_err(malformed)?;
        match number {
            1 => tx = value.bytes("tx_bytes").map_err(malformed)?,
            2 => mode = value.number("mode").map_err(malformed)?,
            _ => {}
        }
    }
    Ok((method(tx, mode)?, tx))
}

/// The broadcast in the body of a request to REST. As in the gateway, of two members of the same name the last counts,
/// and of a member's two names the one in camel case (`unmarshal` in gogo's `jsonpb/jsonpb.go`, v1.3.2).
///
/// # Errors
/// [`NoBroadcast`].
pub fn rest_broadcast(body: &[u8]) -> Result<(BroadcastMethod, Vec<u8>), NoBroadcast> {
    let invalid = |text: &str| NoBroadcast::Invalid(text.to_owned());
    let malformed = |why: &dyn core::fmt::Display| {
        invalid(&format!("the body is no BroadcastTxRequest: {why}"))
    };
    let request = json::check(body).map_err(|fault| malformed(&fault))?;
    if Kind::of(request) != Kind::Object {
        return Err(malformed(&"no object"));
    }
    let member = |name: &str| {
        let named = json::members(request).filter(|(key, _)| key == name);
        named.last().map(|(_, value)| value)
    };
    let tx = match member("txBytes").or_else(|| member("tx_bytes")) {
        None | Some(b"null") => Vec::new(),
        Some(text) if Kind::of(text) == Kind::String => {
            decode_base64(json::unquote(text).as_bytes())
                .map_err(|_| invalid("tx_bytes is not base64"))?
        }
        Some(_) => return Err(invalid("tx_bytes is no text")),
    };
    let mode = match member("mode") {
        None | Some(b"null") => 0,
        Some([b'"', name @ .., b'"']) => {
            let known = MODES.iter().position(|known| known.as_bytes() == name);
            known.ok_or_else(|| invalid("mode is unknown"))? as u64
        }
        Some(number) => {
            let number = core::str::from_utf8(number).ok();
            let number = number.and_then(|number| number.parse::<i32>().ok());
            // What is negative is no mode either.
            u64::try_from(number.ok_or_else(|| invalid("mode is no number"))?).unwrap_or(0)
        }
    };
    Ok((method(&tx, mode)?, tx))
}

/// `cosmos.tx.v1beta1.BroadcastMode`.
const MODES: [&str; 4] = [
    "BROADCAST_MODE_UNSPECIFIED",
    "BROADCAST_MODE_BLOCK",
    "BROADCAST_MODE_SYNC",
    "BROADCAST_MODE_ASYNC",
];

/// As `TxServiceBroadcast` does (`client/broadcast.go`); newer nodes know no `BLOCK` any more, and get a commit.
fn method(tx: &[u8], mode: u64) -> Result<BroadcastMethod, NoBroadcast> {
    if tx.is_empty() {
        return Err(NoBroadcast::Invalid("invalid empty tx".to_owned()));
    }
    match mode {
        1 => Ok(BroadcastMethod::Commit),
        2 => Ok(BroadcastMethod::Sync),
        3 => Ok(BroadcastMethod::Async),
        _ => Err(NoBroadcast::Mode),
    }
}

#[cfg(test)]
mod tests;
