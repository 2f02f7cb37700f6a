//! The WebSocket opening handshake (RFC 6455, section 4.1).

use httparse::{EMPTY_HEADER, Response, Status};

use super::error::ConnectionError;
use super::websocket::Masks;
use crate::endpoint::Endpoint;
use wire::ws::frame::accept_key;

/// The upgrade request and the answer it must get.
#[derive(Debug)]
pub(super) struct Upgrade {
    pub(super) request: Vec<u8>,
    pub(super) sent: usize,
    accept: String,
}

impl Upgrade {
    pub(super) fn new(endpoint: &Endpoint, masks: &mut Masks) -> Self {
        let mut nonce = [0; 16];
        for half in nonce.as_chunks_mut::<8>().0 {
            *half = masks.next().to_le_bytes();
        }
        let key = base64_simd::STANDARD.encode_to_string(nonce);
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n",
            endpoint.path(),
            endpoint.authority(),
        );
        Self {
            request: request.into_bytes(),
            sent: 0,
            accept: accept_key(&key),
        }
    }

    pub(super) fn unsent(&self) -> &[u8] {
        &self.request[self.sent..]
    }

    /// Reads the answer: the length of its head, or `None` while it is incomplete.
    pub(super) fn check(
        &self,
        bytes: &[u8],
        limit: usize,
    ) -> Result<Option<usize>, ConnectionError> {
        let mut headers = [EMPTY_HEADER; 64];
        let mut response = Response::new(&mut headers);
        let len = match response.parse(bytes) {
            Ok(Status::Complete(len)) => len,
            Ok(Status::Partial) if bytes.len() > limit => {
                return Err(ConnectionError::TooLarge {
                    what: "head",
                    limit,
                });
            }
            Ok(Status::Partial) => return Ok(None),
            Err(error) => return Err(refuse(format!("the answer is not HTTP ({error})"))),
        };
        let status = response.code.unwrap_or(0);
        if status != 101 {
            let reason = response.reason.unwrap_or("");
            return Err(refuse(format!("the node answered HTTP {status} {reason}")));
        }
        let value = |name: &str| {
            let found = response
                .headers
                .iter()
                .find(|header| header.name.eq_ignore_ascii_case(name));
            found.map_or(&b""[..], |header| header.value.trim_ascii())
        };
        if !value("upgrade").eq_ignore_ascii_case(b"websocket") {
            return Err(refuse("the answer upgrades to something else".into()));
        }
        if value("sec-websocket-accept") != self.accept.as_bytes() {
            return Err(refuse(
                "the answer's Sec-WebSocket-Accept does not fit the request".into(),
            ));
        }
        if !value("sec-websocket-extensions").is_empty() {
            return Err(refuse(
                "the answer names an extension that was not offered".into(),
            ));
        }
        Ok(Some(len))
    }
}

const fn refuse(reason: String) -> ConnectionError {
    ConnectionError::Upgrade { reason }
}
