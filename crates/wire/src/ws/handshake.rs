//! The opening handshake.

use super::frame::accept_key;

use crate::http::{HeadView, Version};

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
    let has = |name, token| {
        head.all(name).any(|list| {
            list.split(|byte| *byte == b',')
                .any(|word| word.trim_ascii().eq_ignore_ascii_case(token))
        })
    };
    let is_asked_for = has("connection", b"upgrade".as_slice())
        && has("upgrade", b"websocket".as_slice())
        && version == Version::Http11;
    if !is_asked_for {
        return Err(HandshakeError::Malformed);
    }
    if head.method != b"GET" {
        return Err(HandshakeError::Method);
    }
    if !has("sec-websocket-version", b"13".as_slice()) {
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
}
