//! The opening handshake, both sides (RFC 6455, section 4).

use sha1::{Digest, Sha1};

use super::frame::MaskKeys;
use crate::http::{HeadView, ReplyError, ReplyReader, Version};

/// The `Sec-WebSocket-Accept` that a server answers to a `Sec-WebSocket-Key`.
pub fn accept_key(key: &str) -> String {
    let digest = Sha1::new().chain_update(key).chain_update(GUID).finalize();
    base64_simd::STANDARD.encode_to_string(digest)
}

/// RFC 6455, section 1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Why a request is not a WebSocket handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// `Connection: upgrade`, `Upgrade: websocket`, version 13 or the key is missing or wrong, or
    /// the request has a body.
    #[error("this is no WebSocket handshake")]
    Malformed,
    /// The method is not GET.
    #[error("a WebSocket is asked for with GET")]
    Method,
    /// Pages of this origin may not connect.
    #[error("the origin of the page is not allowed")]
    Origin,
}

/// Checks a request for the path of the WebSocket; returns the `Sec-WebSocket-Accept` to answer
/// with. `origins` are the origins of pages that may connect; empty allows all, as the node does.
///
/// The checks come in the order of the server that the node uses (`gorilla/websocket` 1.5.3,
/// `Upgrade`), so that the first thing wrong is the same for both.
///
/// # Errors
/// [`HandshakeError`].
pub fn check_handshake(
    head: &HeadView<'_>,
    version: Version,
    origins: &[String],
) -> Result<String, HandshakeError> {
    let is_asked_for = head.has_token("connection", "upgrade")
        && head.has_token("upgrade", "websocket")
        && version == Version::Http11;
    if !is_asked_for {
        return Err(HandshakeError::Malformed);
    }
    if head.method != b"GET" {
        return Err(HandshakeError::Method);
    }
    if !head.has_token("sec-websocket-version", "13") {
        return Err(HandshakeError::Malformed);
    }
    if !origins.is_empty() && !comes_from(head, origins) {
        return Err(HandshakeError::Origin);
    }
    head.first("sec-websocket-key")
        .filter(|key| is_nonce(key))
        .and_then(|key| std::str::from_utf8(key).ok())
        .map(accept_key)
        .ok_or(HandshakeError::Malformed)
}

/// Requests without an origin do not come from web pages.
fn comes_from(head: &HeadView<'_>, origins: &[String]) -> bool {
    head.all("origin").all(|origin| {
        origins
            .iter()
            .any(|allowed| origin.eq_ignore_ascii_case(allowed.as_bytes()))
    })
}

/// Base64 of 16 bytes.
fn is_nonce(key: &[u8]) -> bool {
    key.len() == 24
        && base64_simd::STANDARD
            .decode_to_vec(key)
            .is_ok_and(|nonce| nonce.len() == 16)
}

/// The client's side: a request, and the answer it must get.
#[derive(Clone, Debug)]
pub struct ClientHandshake {
    request: Vec<u8>,
    accept: String,
}

/// Why an answer does not open a WebSocket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpgradeError {
    /// It is malformed.
    #[error("the answer is not HTTP ({0})")]
    Http(#[from] ReplyError),
    /// It has another status than 101.
    #[error("the node answered HTTP {status} {reason}")]
    Status {
        /// The status.
        status: u16,
        /// The words behind it.
        reason: String,
    },
    /// It has no `Upgrade: websocket`.
    #[error("the answer upgrades to something else")]
    Protocol,
    /// It does not prove that the request was read.
    #[error("the answer's Sec-WebSocket-Accept does not fit the request")]
    Accept,
    /// It wants an extension.
    #[error("the answer names an extension that was not offered")]
    Extension,
}

impl ClientHandshake {
    /// A request for the WebSocket at a path; its nonce comes from `keys`.
    pub fn new(path: &str, authority: &str, keys: &mut MaskKeys) -> Self {
        let nonce = [keys.bits().to_le_bytes(), keys.bits().to_le_bytes()].concat();
        Self::with_key(
            path,
            authority,
            &base64_simd::STANDARD.encode_to_string(nonce),
        )
    }

    fn with_key(path: &str, authority: &str, key: &str) -> Self {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        Self {
            request: request.into_bytes(),
            accept: accept_key(key),
        }
    }

    /// The request to send.
    pub fn request(&self) -> &[u8] {
        &self.request
    }

    /// Checks the answer at the start of `bytes`: the length of its head, none while it is
    /// incomplete. A head may have `limit` bytes.
    ///
    /// # Errors
    /// [`UpgradeError`]; the connection is of no further use.
    pub fn check(&self, bytes: &[u8], limit: usize) -> Result<Option<usize>, UpgradeError> {
        let Some(reply) = ReplyReader::default().read(bytes, limit)? else {
            return Ok(None);
        };
        let fields = reply.fields(bytes);
        if reply.status != 101 {
            return Err(UpgradeError::Status {
                status: reply.status,
                reason: reply.reason(bytes).to_owned(),
            });
        }
        let value = |name| fields.first(name).unwrap_or_default();
        if !value("upgrade").eq_ignore_ascii_case(b"websocket") {
            return Err(UpgradeError::Protocol);
        }
        if value("sec-websocket-accept") != self.accept.as_bytes() {
            return Err(UpgradeError::Accept);
        }
        if !value("sec-websocket-extensions").is_empty() {
            return Err(UpgradeError::Extension);
        }
        Ok(Some(reply.len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{HeadLimits, HeadReader};

    const LIMITS: HeadLimits = HeadLimits {
        bytes: 4096,
        fields: 20,
        target: 100,
    };

    fn check(head: &str, origins: &[&str]) -> Result<String, HandshakeError> {
        let bytes = head.as_bytes();
        let origins: Vec<String> = origins.iter().map(|&origin| origin.to_owned()).collect();
        let head = HeadReader::new().read(bytes, &LIMITS).unwrap().unwrap();
        check_handshake(&head.view(bytes), head.version, &origins)
    }

    const GOOD: &str = "GET /websocket HTTP/1.1\r\nHost: h\r\nconnection: keep-alive, Upgrade\r\n\
        UPGRADE: WebSocket\r\nSec-WebSocket-Version: 13\r\nOrigin: http://page\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

    #[test]
    fn a_handshake_gets_its_key() {
        assert_eq!(check(GOOD, &[]).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn what_is_missing_is_told_apart() {
        let without = |text: &str, other: &str| check(&GOOD.replace(text, other), &[]);
        let malformed = Err(HandshakeError::Malformed);
        assert_eq!(without("Upgrade\r\n", "close\r\n"), malformed);
        assert_eq!(without("WebSocket\r\n", "h2c\r\n"), malformed);
        assert_eq!(without("Version: 13", "Version: 8"), malformed);
        assert_eq!(without("ZQ==", "ZQ="), malformed);
        assert_eq!(without("dGhl", "!!!!"), malformed);
        assert_eq!(without("HTTP/1.1", "HTTP/1.0"), malformed);
        assert_eq!(without("GET", "POST"), Err(HandshakeError::Method));
    }

    #[test]
    fn case_47_pages_connect_from_allowed_origins_only() {
        assert!(check(GOOD, &["http://other", "HTTP://PAGE"]).is_ok());
        assert_eq!(check(GOOD, &["http://other"]), Err(HandshakeError::Origin));
        let no_page = GOOD.replace("Origin: http://page\r\n", "");
        assert!(check(&no_page, &["http://other"]).is_ok());
    }

    const ANSWER: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
        Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

    fn answered(answer: &str, key: &str) -> Result<Option<usize>, UpgradeError> {
        ClientHandshake::with_key("/websocket", "h", key).check(answer.as_bytes(), 1000)
    }

    #[test]
    fn a_request_of_ours_is_a_handshake() {
        let client = ClientHandshake::new("/websocket", "h", &mut MaskKeys::new(1));
        let request = std::str::from_utf8(client.request()).unwrap();
        assert_eq!(check(request, &[]).unwrap(), client.accept);
    }

    #[test]
    fn case_23_only_the_answer_to_the_request_opens_a_websocket() {
        const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
        assert_eq!(answered(ANSWER, KEY), Ok(Some(ANSWER.len())));
        assert_eq!(answered(&ANSWER[..50], KEY), Ok(None));
        assert_eq!(answered(ANSWER, "another"), Err(UpgradeError::Accept));
        assert!(matches!(
            answered("HTTP/1.1 404 Not Found\r\n\r\n", KEY),
            Err(UpgradeError::Status { status: 404, reason }) if reason == "Not Found"
        ));
        assert!(matches!(
            answered("SSH-2.0-OpenSSH\r\n", KEY),
            Err(UpgradeError::Http(_))
        ));
        assert!(matches!(
            answered(&"x".repeat(2000), KEY),
            Err(UpgradeError::Http(_))
        ));
        let more = ANSWER.replace("\r\n\r\n", "\r\nSec-WebSocket-Extensions: x\r\n\r\n");
        assert_eq!(answered(&more, KEY), Err(UpgradeError::Extension));
    }
}
