//! What a request to a Cosmos SDK's gRPC or REST listener asks for, so that no spelling takes a broadcast for something
//! else.
//!
//! [`route`] reads the path and the type of the content, [`grpc_broadcast`] and [`rest_broadcast`] the body of a
//! broadcast. What grpc-go, grpc-gateway and the SDK make of the same bytes is the measure: here more is refused, and
//! nothing means something else.

use std::time::Duration;

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
            (b'%', [high, low, ..]) => decode_hex(&[*high, *low]),
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
    /// The kind of gRPC-Web by the request's content type; none if it is no gRPC-Web.
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
                .ok_or_else(|| invalid("tx_bytes is not base64"))?
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

/// The time that a `grpc-timeout` names: at most eight digits and a unit (gRPC over HTTP/2, "Requests").
#[must_use]
pub fn read_grpc_timeout(text: &[u8]) -> Option<Duration> {
    let (unit, digits) = text.split_last()?;
    let (_, nanos) = UNITS.iter().find(|(letter, _)| letter == unit)?;
    let is_number = digits.len() <= MOST_DIGITS && digits.iter().all(u8::is_ascii_digit);
    let number = str::from_utf8(digits).ok().filter(|_| is_number)?;
    Some(Duration::from_nanos(*nanos) * number.parse().ok()?)
}

/// A `grpc-timeout` in the smallest unit that has room for it, rounded up: the node's deadline is not before the client's.
#[must_use]
pub fn grpc_timeout(left: Duration) -> String {
    let numbers = UNITS.iter().map(|(unit, nanos)| {
        let number = left.as_nanos().div_ceil(u128::from(*nanos));
        format!("{number}{}", char::from(*unit))
    });
    let mut fitting = numbers.filter(|text| text.len() <= MOST_DIGITS + 1);
    fitting.next().unwrap_or_else(|| "99999999H".to_owned())
}

/// Digits of a `grpc-timeout`.
const MOST_DIGITS: usize = 8;
/// Units, and their nanoseconds.
const UNITS: [(u8, u64); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', 1_000_000_000),
    (b'M', 60_000_000_000),
    (b'H', 3_600_000_000_000),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WRITE: &str = "/cosmos.tx.v1beta1.Service/BroadcastTx";

    proptest! {
        #[test]
        fn any_bytes_are_a_broadcast_or_refused(
            body in prop::collection::vec(any::<u8>(), 0..60), path in "[/.%:a-f0-9?]{0,30}", kind in "[a-z/+;-]{0,30}"
        ) {
            let _ = (rest_broadcast(&body), decode_pieces(&body));
            if let Ok((_, tx)) = grpc_broadcast(&body) {
                prop_assert!(!tx.is_empty() && tx.len() < body.len());
            }
            let _ = route(true, &path, kind.as_bytes());
            // It is as plain as it gets.
            let plain = plain_path(&path.replace('%', ""));
            prop_assert_eq!(plain_path(&plain), plain);
        }

        #[test]
        fn no_detour_on_the_way_to_a_broadcast_hides_it(
            detours in prop::collection::vec(prop_oneof![Just("/"), Just("/./"), Just("//"), Just("/x/../"), Just("%2f"), Just("%2F.%2f")], 5),
            end in "[/:]{0,2}"
        ) {
            let segments = ["cosmos", "tx", "v1beta1", "txs"];
            let path: String = detours.iter().zip(segments).map(|(detour, segment)| format!("{detour}{segment}")).collect();
            let path = path + &end;
            prop_assert_eq!(route(true, &path, b""), DoorRoute::RestWrite);
        }

        #[test]
        fn pieces_of_base64_are_put_together(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..9), 0..5)) {
            let text: String = pieces.iter().map(|piece| base64_simd::STANDARD.encode_to_string(piece)).collect();
            prop_assert_eq!(decode_pieces(text.as_bytes()), Some(pieces.concat()));
        }
    }

    #[test]
    fn no_spelling_of_a_broadcast_is_a_read() {
        let rest = |path: &str| route(true, path, b"application/json");
        for path in [
            "/cosmos/tx/v1beta1/txs",
            "/cosmos/tx/v1beta1/txs/",
            "//cosmos/./tx/v1beta1/txs",
            "/cosmos/tx/x/../v1beta1/txs",
            "/cosmos/tx/v1beta1/%74x%73",
            "/cosmos%2ftx/v1beta1/txs",
            "/cosmos/tx/v1beta1/txs:",
            "/cosmos/tx/v1beta1/txs%3A",
        ] {
            assert_eq!(rest(path), DoorRoute::RestWrite, "{path}");
        }
        for path in ["/cosmos/tx/v1beta1/txs", "/cosmos/tx/v1beta1/txs:"] {
            assert_eq!(route(false, path, b""), DoorRoute::Search);
        }
        let simulation = rest("/cosmos/tx/v1beta1/simulate:");
        assert_eq!(simulation, DoorRoute::Simulation);
        assert_eq!(plain_path("/:"), "/");
        assert!(matches!(rest("/txs"), DoorRoute::Unserved(_)));
        for kind in [
            &b"application/grpc"[..],
            b"application/grpc+proto",
            b"application/grpc-web+proto",
            b"application/grpc-web-text",
        ] {
            assert_eq!(route(true, WRITE, kind), DoorRoute::GrpcWrite);
        }
        for kind in [&b"application/json"[..], b"application/grpc-webs", b""] {
            let unserved = route(true, WRITE, kind);
            assert!(matches!(unserved, DoorRoute::Unserved(_)));
        }
    }

    #[test]
    fn the_type_of_the_content_says_what_it_is() {
        for (kind, web) in [
            ("application/grpc-web", Some(GrpcWeb::Binary)),
            ("application/grpc-web+proto", Some(GrpcWeb::Binary)),
            ("application/grpc-web-text", Some(GrpcWeb::Text)),
            ("application/grpc-web-text+proto", Some(GrpcWeb::Text)),
            ("application/grpc-web;charset=utf-8", Some(GrpcWeb::Binary)),
            ("application/grpc-webs", None),
            ("application/grpc", None),
            ("application/grpc+proto", None),
            ("", None),
        ] {
            assert_eq!(GrpcWeb::of(kind.as_bytes()), web, "{kind}");
        }
    }

    fn call(message: &[u8]) -> Vec<u8> {
        let len = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[0][..], &len, message].concat()
    }

    #[test]
    fn a_broadcast_over_grpc_is_read_whole_or_refused() {
        let body = call(b"\x0a\x02hi\x10\x02");
        let read = grpc_broadcast(&body);
        assert_eq!(read, Ok((BroadcastMethod::Sync, &b"hi"[..])));
        let refused = |body: &[u8]| grpc_broadcast(body).unwrap_err();
        assert_eq!(refused(&call(b"\x0a\x02hi")), NoBroadcast::Mode);
        assert_eq!(refused(b"\x01\0\0\0\x01a"), NoBroadcast::Compressed);
        for body in [
            call(b"\x10\x02"),
            call(b"\x0a\x09hi"),
            // The mode with four bytes, and with eight.
            call(b"\x0a\x02hi\x15\x02\0\0\0"),
            call(b"\x0a\x02hi\x11\x02\0\0\0\0\0\0\0"),
            b"\0\0\0".to_vec(),
            b"\0\0\0\0\x01ab".to_vec(),
        ] {
            assert!(matches!(refused(&body), NoBroadcast::Invalid(_)));
        }
    }

    #[test]
    fn a_broadcast_over_rest_is_read_as_the_gateway_reads_it() {
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
            (
                r#"{"tx_bytes":"eA==","mode":1,"txBytes":"aGk=","mode":2}"#,
                BroadcastMethod::Sync,
            ),
        ] {
            let read = rest_broadcast(body.as_bytes());
            assert_eq!(read, Ok((method, b"hi".to_vec())), "{body}");
        }
        let refused = |body: &str| rest_broadcast(body.as_bytes()).unwrap_err();
        assert_eq!(refused(r#"{"tx_bytes":"aGk="}"#), NoBroadcast::Mode);
        for body in [
            "{",
            "{}",
            r#"["aGk=",2]"#,
            r#"{"tx_bytes":"!","mode":2}"#,
            r#"{"tx_bytes":["a"],"mode":2}"#,
            r#"{"tx_bytes":"aGk=","mode":"SYNC"}"#,
            r#"{"tx_bytes":"aGk=","mode":2.5}"#,
        ] {
            assert!(matches!(refused(body), NoBroadcast::Invalid(_)), "{body}");
        }
    }

    #[test]
    fn a_deadline_is_read_and_written_as_grpc_go_does() {
        for (written, millis, again) in [
            ("1S", 1_000, "1000000u"),
            ("50m", 50, "50000000n"),
            ("0n", 0, "0n"),
            ("2M", 120_000, "120000m"),
            ("00000001H", 3_600_000, "3600000m"),
            ("99999999H", 99_999_999 * 3_600_000, "99999999H"),
        ] {
            let left = read_grpc_timeout(written.as_bytes()).unwrap();
            assert_eq!(left, Duration::from_millis(millis), "{written}");
            assert_eq!(grpc_timeout(left), again, "{written}");
        }
        assert_eq!(grpc_timeout(Duration::from_nanos(100_000_001)), "100001u");
        for wrong in [
            "",
            "S",
            "1",
            "1s",
            "-1S",
            "+1S",
            "1.5S",
            "123456789n",
            " 1S",
        ] {
            assert_eq!(read_grpc_timeout(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
