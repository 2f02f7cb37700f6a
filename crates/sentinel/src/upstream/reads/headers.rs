//! The headers of an answer on their way to the client.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{self, HeaderName};

/// The headers that travel on, spelt as a Go server spells them.
pub(super) fn end_to_end(headers: &HeaderMap) -> Vec<(Cow<'static, str>, Bytes)> {
    let travels = |(name, _): &(&HeaderName, _)| !is_hop_header(name, headers);
    let copied = |(name, value): (&HeaderName, &header::HeaderValue)| {
        (go_name(name), Bytes::copy_from_slice(value.as_bytes()))
    };
    headers.iter().filter(travels).map(copied).collect()
}

/// `Content-Length`, if there is one that counts.
pub(in crate::upstream) fn content_length(headers: &HeaderMap) -> Option<u64> {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        return None;
    }
    let length = headers.get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

/// Whether a header concerns the connection to the node or the framing on it (RFC 9110, section
/// 7.6.1).
fn is_hop_header(name: &HeaderName, headers: &HeaderMap) -> bool {
    let named = || {
        let mut values = headers.get_all(header::CONNECTION).iter();
        values.any(|value| {
            let tokens = value.as_bytes().split(|byte| *byte == b',');
            let mut tokens = tokens.map(<[u8]>::trim_ascii);
            tokens.any(|token| token.eq_ignore_ascii_case(name.as_str().as_bytes()))
        })
    };
    matches!(
        *name,
        header::CONNECTION
            | header::CONTENT_LENGTH
            | header::PROXY_AUTHENTICATE
            | header::PROXY_AUTHORIZATION
            | header::TE
            | header::TRAILER
            | header::TRANSFER_ENCODING
            | header::UPGRADE
    ) || matches!(name.as_str(), "keep-alive" | "proxy-connection")
        || named()
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
