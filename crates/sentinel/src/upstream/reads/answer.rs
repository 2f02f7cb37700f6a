//! The answer to a read, and its headers on their way to the client.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{self, HeaderName};
use pacing::Nanos;

use crate::upstream::http::is_hop_header;

/// The node's answer, its body still to be read.
#[derive(Debug)]
pub struct ReadAnswer<B> {
    /// The HTTP status.
    pub status: u16,
    /// The headers as a Go server spells them, without those of connection and framing.
    pub headers: Vec<(Cow<'static, str>, Bytes)>,
    /// `Content-Length`, if the node gave one. The answer to `HEAD` has one and no body.
    pub length: Option<u64>,
    /// From the moment it was sent to the head of the answer; none if no node was asked for it.
    pub took: Option<Nanos>,
    /// Whether it counts as a read of its client's, whose rate bounds the request then.
    pub is_counted: bool,
    /// The body.
    pub body: B,
}

/// The headers that travel on, spelt as a Go server spells them.
pub(super) fn end_to_end(headers: &HeaderMap) -> Vec<(Cow<'static, str>, Bytes)> {
    let travels = |(name, _): &(&HeaderName, _)| {
        *name != header::CONTENT_LENGTH && !is_hop_header(name, headers)
    };
    let copied = |(name, value): (&HeaderName, &header::HeaderValue)| {
        (go_name(name), Bytes::copy_from_slice(value.as_bytes()))
    };
    headers.iter().filter(travels).map(copied).collect()
}

/// A name as Go's servers spell it: the library keeps names in lower case.
fn go_name(name: &HeaderName) -> Cow<'static, str> {
    match *name {
        header::CONTENT_TYPE => "Content-Type".into(),
        header::DATE => "Date".into(),
        header::CACHE_CONTROL => "Cache-Control".into(),
        header::VARY => "Vary".into(),
        _ => {
            let mut is_first = true;
            let spelt = |letter: char| {
                if std::mem::replace(&mut is_first, letter == '-') {
                    letter.to_ascii_uppercase()
                } else {
                    letter
                }
            };
            name.as_str().chars().map(spelt).collect::<String>().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelt_as_the_node_does() {
        for (name, expected) in [
            ("x-server-time", "X-Server-Time"),
            ("content-type", "Content-Type"),
            ("access-control-allow-origin", "Access-Control-Allow-Origin"),
            ("etag", "Etag"),
        ] {
            assert_eq!(go_name(&HeaderName::from_static(name)), expected);
        }
    }

    #[test]
    fn headers_of_the_connection_stay_here() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Secret"),
            ("x-secret", "1"),
            ("transfer-encoding", "chunked"),
            ("keep-alive", "timeout=5"),
            ("x-server-time", "1"),
        ] {
            let name = HeaderName::from_static(name);
            headers.insert(name, value.parse().unwrap());
        }
        let left: Vec<_> = headers
            .keys()
            .filter(|name| !is_hop_header(name, &headers))
            .collect();
        assert_eq!(left, ["x-server-time"]);
    }
}
