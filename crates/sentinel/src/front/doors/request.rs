//! What a request to the gRPC or REST listener asks for.

use bytes::Bytes;
use hyper::Method;
use rpc::BroadcastMethod;
use serde::Deserialize;
use serde_json::Value;
use wire::proto::Fields;

use super::web::Web;
use crate::respond::GrpcStatus;

/// What is to be done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// A broadcast in protobuf.
    GrpcWrite,
    /// A broadcast in JSON.
    RestWrite,
    /// A broadcast in a form that is not read here, and what to use instead.
    Unserved(&'static str),
    /// Something that the node answers; it costs so many reads.
    Read(u32),
}

/// Reads that a simulation costs: it executes the transaction as a block does, some milliseconds, where a read takes a
/// tenth of that.
const SIMULATION_READS: u32 = 10;

/// Reads that a search for transactions costs: as many as the node's own of a whole page (`tx_search`), which it asks
/// for.
const SEARCH_READS: u32 = 40;

/// What a path asks for, however it is spelt: what Go's routers or a proxy between could take for a broadcast never
/// passes as a read. Both listeners of a node serve both kinds of path (gRPC-Web is on the REST one).
pub(super) fn route(method: &Method, path: &str, content_type: &[u8]) -> Route {
    let path = plain(path);
    let is_grpc = content_type == b"application/grpc"
        || content_type.starts_with(b"application/grpc+")
        || Web::of(content_type).is_some();
    match path.as_str() {
        "/cosmos.tx.v1beta1.Service/BroadcastTx" if is_grpc => Route::GrpcWrite,
        "/cosmos.tx.v1beta1.Service/BroadcastTx" => Route::Unserved(
            "broadcasts are application/grpc or application/grpc-web; or POST /cosmos/tx/v1beta1/txs",
        ),
        "/cosmos/tx/v1beta1/txs" if *method == Method::POST => Route::RestWrite,
        "/txs" if *method == Method::POST => {
            Route::Unserved("amino broadcasts are not served here: POST /cosmos/tx/v1beta1/txs")
        }
        "/cosmos.tx.v1beta1.Service/Simulate" | "/cosmos/tx/v1beta1/simulate" => {
            Route::Read(SIMULATION_READS)
        }
        "/cosmos.tx.v1beta1.Service/GetTxsEvent" | "/cosmos/tx/v1beta1/txs" => {
            Route::Read(SEARCH_READS)
        }
        _ => Route::Read(1),
    }
}

/// A path without escapes, empty and `.` segments, and a slash at its end.
pub(super) fn plain(path: &str) -> String {
    let mut bytes = path.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    while let [first, rest @ ..] = bytes {
        bytes = rest;
        let escaped = match (first, rest) {
            (b'%', [high, low, ..]) => wire::encoding::decode_hex(&[*high, *low]).ok(),
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
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

/// A broadcast: how, and the transaction.
type Broadcast = (BroadcastMethod, Bytes);

/// The broadcast in the body of a gRPC call: one message (`cosmos.tx.v1beta1.BroadcastTxRequest`).
///
/// # Errors
/// What the node would answer.
pub(super) fn grpc_broadcast(body: &Bytes) -> Result<Broadcast, GrpcStatus> {
    let invalid = |text: &str| GrpcStatus::new(GrpcStatus::INVALID_ARGUMENT, text);
    let Some((prefix, message)) = body.split_at_checked(5) else {
        return Err(invalid("the call has no message"));
    };
    if prefix[0] != 0 {
        // A Cosmos SDK's server has no decompressor installed either.
        let text = "grpc: Decompressor is not installed for the message";
        return Err(GrpcStatus::new(GrpcStatus::UNIMPLEMENTED, text));
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
    broadcast(body.slice_ref(tx), mode)
}

/// The broadcast in the body of a request to REST.
///
/// # Errors
/// What the node would answer.
pub(super) fn rest_broadcast(body: &[u8]) -> Result<Broadcast, GrpcStatus> {
    #[derive(Deserialize)]
    struct Request {
        #[serde(alias = "txBytes", default)]
        tx_bytes: String,
        #[serde(default)]
        mode: Value,
    }
    let invalid = |text: String| GrpcStatus::new(GrpcStatus::INVALID_ARGUMENT, text);
    let request: Request = serde_json::from_slice(body)
        .map_err(|error| invalid(format!("the body is no BroadcastTxRequest: {error}")))?;
    let tx = base64_simd::STANDARD
        .decode_to_vec(&request.tx_bytes)
        .map_err(|_| invalid("tx_bytes is not base64".to_owned()))?;
    let mode = match &request.mode {
        Value::String(name) => MODES.iter().position(|known| known == name),
        mode => mode.as_u64().and_then(|mode| usize::try_from(mode).ok()),
    };
    broadcast(tx.into(), mode.unwrap_or(0) as u64)
}

/// `cosmos.tx.v1beta1.BroadcastMode`.
const MODES: [&str; 4] = [
    "BROADCAST_MODE_UNSPECIFIED",
    "BROADCAST_MODE_BLOCK",
    "BROADCAST_MODE_SYNC",
    "BROADCAST_MODE_ASYNC",
];

/// As `TxServiceBroadcast` does (`client/broadcast.go`); newer nodes know no `BLOCK` any more, and get a commit.
fn broadcast(tx: Bytes, mode: u64) -> Result<Broadcast, GrpcStatus> {
    if tx.is_empty() {
        let text = "invalid empty tx";
        return Err(GrpcStatus::new(GrpcStatus::INVALID_ARGUMENT, text));
    }
    match mode {
        1 => Ok((BroadcastMethod::Commit, tx)),
        2 => Ok((BroadcastMethod::Sync, tx)),
        3 => Ok((BroadcastMethod::Async, tx)),
        _ => {
            let text = "unsupported return type unspecified; supported types: sync, async";
            Err(GrpcStatus::new(GrpcStatus::UNKNOWN, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_broadcast_or_refused(
            body in prop::collection::vec(any::<u8>(), 0..60), path in "[/.%a-f0-9?]{0,30}", kind in "[a-z/+;-]{0,30}"
        ) {
            let _ = rest_broadcast(&body);
            let body = Bytes::from(body);
            if let Ok((_, tx)) = grpc_broadcast(&body) {
                prop_assert!(!tx.is_empty() && tx.len() < body.len());
            }
            route(&Method::POST, &path, kind.as_bytes());
            // It is as plain as it gets.
            prop_assert_eq!(plain(&path.replace('%', "")), plain(&plain(&path.replace('%', ""))));
        }

        #[test]
        fn no_detour_on_the_way_to_a_broadcast_hides_it(
            detours in prop::collection::vec(prop_oneof![Just("/"), Just("/./"), Just("//"), Just("/x/../"), Just("%2f"), Just("%2F.%2f")], 5)
        ) {
            let segments = ["cosmos", "tx", "v1beta1", "txs"];
            let path: String = detours.iter().zip(segments).map(|(detour, segment)| format!("{detour}{segment}")).collect();
            prop_assert_eq!(route(&Method::POST, &path, b""), Route::RestWrite);
        }
    }

    #[test]
    fn no_spelling_of_a_broadcast_is_a_read() {
        let rest = |path: &str| route(&Method::POST, path, b"application/json");
        for path in [
            "/cosmos/tx/v1beta1/txs",
            "/cosmos/tx/v1beta1/txs/",
            "//cosmos/./tx/v1beta1/txs",
            "/cosmos/tx/x/../v1beta1/txs",
            "/cosmos/tx/v1beta1/%74x%73",
            "/cosmos%2ftx/v1beta1/txs",
        ] {
            assert_eq!(rest(path), Route::RestWrite, "{path}");
        }
        assert_eq!(
            route(&Method::GET, "/cosmos/tx/v1beta1/txs", b""),
            Route::Read(SEARCH_READS)
        );
        assert_eq!(
            rest("/cosmos/tx/v1beta1/simulate"),
            Route::Read(SIMULATION_READS)
        );
        assert!(matches!(rest("/txs"), Route::Unserved(_)));
        let grpc = |kind: &[u8]| {
            route(
                &Method::POST,
                "/cosmos.tx.v1beta1.Service/BroadcastTx",
                kind,
            )
        };
        assert_eq!(grpc(b"application/grpc"), Route::GrpcWrite);
        assert_eq!(grpc(b"application/grpc+proto"), Route::GrpcWrite);
        for kind in [
            &b"application/grpc-web+proto"[..],
            b"application/grpc-web-text",
        ] {
            assert_eq!(grpc(kind), Route::GrpcWrite);
        }
        for kind in [&b"application/json"[..], b"application/grpc-webs", b""] {
            assert!(matches!(grpc(kind), Route::Unserved(_)));
        }
    }

    #[test]
    fn broadcasts_are_read_whole_or_refused() {
        let call = |message: &[u8]| {
            let len = u32::try_from(message.len()).unwrap().to_be_bytes();
            Bytes::from([&[0][..], &len, message].concat())
        };
        let read = grpc_broadcast(&call(b"\x0a\x02hi\x10\x02")).unwrap();
        assert_eq!(read, (BroadcastMethod::Sync, Bytes::from_static(b"hi")));
        let code = |body: &Bytes| grpc_broadcast(body).unwrap_err().code;
        assert_eq!(code(&call(b"\x0a\x02hi")), GrpcStatus::UNKNOWN);
        assert_eq!(code(&call(b"\x10\x02")), GrpcStatus::INVALID_ARGUMENT);
        assert_eq!(code(&call(b"\x0a\x09hi")), GrpcStatus::INVALID_ARGUMENT);
        assert_eq!(
            code(&Bytes::from_static(b"\0\0\0")),
            GrpcStatus::INVALID_ARGUMENT
        );
        assert_eq!(
            code(&Bytes::from_static(b"\0\0\0\0\x01ab")),
            GrpcStatus::INVALID_ARGUMENT
        );
        assert_eq!(
            code(&Bytes::from_static(b"\x01\0\0\0\x01a")),
            GrpcStatus::UNIMPLEMENTED
        );
        for (body, method) in [
            (
                r#"{"tx_bytes":"aGk=","mode":"BROADCAST_MODE_SYNC"}"#,
                BroadcastMethod::Sync,
            ),
            (r#"{"txBytes":"aGk=","mode":3}"#, BroadcastMethod::Async),
            (
                r#"{"tx_bytes":"aGk=","mode":"BROADCAST_MODE_BLOCK"}"#,
                BroadcastMethod::Commit,
            ),
        ] {
            assert_eq!(
                rest_broadcast(body.as_bytes()),
                Ok((method, Bytes::from_static(b"hi")))
            );
        }
        for (body, code) in [
            ("{", 3),
            ("{}", 3),
            (r#"{"tx_bytes":"!","mode":2}"#, 3),
            (r#"{"tx_bytes":"aGk="}"#, 2),
        ] {
            assert_eq!(
                rest_broadcast(body.as_bytes()).unwrap_err().code,
                code,
                "{body}"
            );
        }
    }
}
