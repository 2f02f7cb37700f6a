//! HTTP requests to one node over a [`pool`] of kept-alive connections, which sends a request once more whose kept
//! connection was dead. The head of an answer has a deadline, and each further part of it ([`ProgressBody`]). Targets are
//! encoded as the library wants them, which is stricter than the node.

mod pool;

use std::time::Duration;

use bytes::Bytes;
use hyper::header::{self, HeaderName};
use hyper::{HeaderMap, Method, Response, Uri};
use rpc::Transport;
use tokio::time::timeout;
use wire::encoding::escape;

pub(super) use self::pool::PoolOptions;
use self::pool::{Pool, PooledBody};
use super::UpstreamError;
use super::body::ProgressBody;
use super::dial::Dialer;

/// One request, which can be made again.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) repeat: Repeat,
}

/// When a request whose connection broke is sent once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It changes nothing, so it may be carried out twice.
    Always,
    /// Only if not a byte of it was written.
    IfUnwritten,
}

/// The body of a node's answer.
pub(super) type NodeBody = ProgressBody<PooledBody>;

/// Asks one node. Cheap to clone; clones share the connections.
#[derive(Clone, Debug)]
pub(super) struct NodeHttp {
    /// What stands before every path: empty, or a gateway's prefix.
    pub(super) base: String,
    /// Opens connections to it.
    pub(super) dialer: Dialer,
    pool: Pool,
    /// For the head of an answer, and for each further part.
    pub(super) patience: Duration,
}

impl NodeHttp {
    /// A client without connections. `patience` is for the head of an answer, and for each further
    /// part.
    ///
    /// # Errors
    /// [`UpstreamError::Setup`] when the node's address is no `Host`.
    pub(super) fn new(
        dialer: Dialer,
        options: PoolOptions,
        patience: Duration,
    ) -> Result<Self, UpstreamError> {
        let base = dialer.endpoint().with_transport(Transport::Http).path();
        let base = base.trim_end_matches('/').to_owned();
        Ok(Self {
            pool: Pool::new(dialer.clone(), &base, options)?,
            base,
            dialer,
            patience,
        })
    }

    /// Leaves the place of one connection to others.
    pub(super) fn give_way(&self) {
        self.pool.give_way();
    }

    /// Sends a request, and waits for the head of the answer.
    ///
    /// # Errors
    /// [`UpstreamError`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection; the node may have seen the request.
    pub(super) async fn send(
        &self,
        request: &Outgoing,
    ) -> Result<Response<NodeBody>, UpstreamError> {
        let answer = match timeout(self.patience, self.pool.send(request)).await {
            Ok(answered) => answered?,
            Err(_) => return Err(self.dialer.timeout()),
        };
        let limit = (self.dialer.clone(), self.patience);
        Ok(answer.map(|body| ProgressBody::new(body, limit)))
    }
}

/// The target under `base` (empty, or a gateway's prefix) as a URI.
///
/// People write `/tx?hash="…"` with raw quotes, which the node takes and the library refuses: such
/// bytes are percent-encoded, which the node decodes to the same.
///
/// # Errors
/// [`UpstreamError::Request`] when it is no path.
pub(super) fn uri(base: &str, target: &Bytes) -> Result<Uri, UpstreamError> {
    let no_path = || UpstreamError::Request("the target is not a path".to_owned());
    if !target.starts_with(b"/") {
        return Err(no_path());
    }
    let parsed = if base.is_empty() && target.iter().all(|byte| is_plain(*byte)) {
        Uri::from_maybe_shared(target.clone())
    } else {
        Uri::try_from(format!("{base}{}", escape(target, is_plain)))
    };
    let uri = parsed.map_err(|error| UpstreamError::Request(error.to_string()))?;
    // `//host/path` would be read as a host.
    if uri.authority().is_some() {
        return Err(no_path());
    }
    Ok(uri)
}

/// Bytes that stand for themselves in a path and in a query alike.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%".contains(&byte)
}

/// The headers that concern more than one connection (RFC 9110, section 7.6.1).
pub(super) fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let travels = |(name, _): &(&HeaderName, _)| !is_hop_header(name, headers);
    let copied = headers.iter().filter(travels);
    copied
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Whether a header concerns one connection, or how a body is framed on it (RFC 9110, section 7.6.1); what gives the length
/// of a body is none of these.
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
            | header::PROXY_AUTHENTICATE
            | header::PROXY_AUTHORIZATION
            | header::TE
            | header::TRAILER
            | header::TRANSFER_ENCODING
            | header::UPGRADE
    ) || matches!(
        name.as_str(),
        "keep-alive" | "proxy-connection" | "http2-settings"
    ) || named()
}

/// `Content-Length`, if there is one that counts.
pub(in crate::upstream) fn content_length(headers: &HeaderMap) -> Option<u64> {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        return None;
    }
    let length = headers.get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

/// Requests and answers for the tests.
#[cfg(test)]
pub(super) mod testing {
    use std::time::Duration;

    use bytes::Bytes;
    use hyper::{HeaderMap, Method, Uri};
    use rpc::Trust;
    use tokio_util::sync::CancellationToken;
    use tokio_util::task::TaskTracker;

    use super::{Outgoing, PoolOptions, Repeat};
    use crate::upstream::dial::Dialer;

    /// A request for `/status`.
    pub(super) fn request(repeat: Repeat) -> Outgoing {
        Outgoing {
            method: Method::GET,
            uri: Uri::from_static("/status"),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            repeat,
        }
    }

    /// A pool's options.
    pub(super) fn options() -> PoolOptions {
        PoolOptions {
            window_bytes: 1 << 16,
            // No test ends sooner for being slow.
            idle_limit: Duration::MAX,
            tracker: TaskTracker::new(),
            shutdown: CancellationToken::new(),
        }
    }

    /// The way to a node that is not there.
    pub(in crate::upstream) fn dialer() -> Dialer {
        dialer_to("http://127.0.0.1:26657")
    }

    pub(super) fn dialer_to(url: &str) -> Dialer {
        let limit = Duration::from_secs(20);
        Dialer::new(&url.parse().unwrap(), &Trust::native(), limit).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::net::TcpListener;

    use super::testing::{dialer_to, options, request};
    use super::*;

    #[tokio::test]
    async fn an_answer_that_does_not_begin_in_time_is_an_error() {
        // Connections are made, and nothing reads them.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dialer = dialer_to(&format!("http://{}", listener.local_addr().unwrap()));
        let http = NodeHttp::new(dialer, options(), Duration::from_millis(50)).unwrap();
        let late = http.send(&request(Repeat::Always)).await.map(|_| ());
        assert!(
            matches!(late, Err(UpstreamError::Timeout { .. })),
            "{late:?}"
        );
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

    fn text(base: &str, target: &'static str) -> String {
        uri(base, &Bytes::from_static(target.as_bytes()))
            .unwrap()
            .to_string()
    }

    #[test]
    fn quotes_are_encoded_and_the_rest_stays() {
        assert_eq!(text("", "/status"), "/status");
        assert_eq!(
            text("", r#"/broadcast_tx_sync?tx="a=b""#),
            "/broadcast_tx_sync?tx=%22a=b%22"
        );
        assert_eq!(text("", "/a%2Fb?x=%22"), "/a%2Fb?x=%22");
        assert_eq!(text("", "/a?b={}#<"), "/a?b=%7B%7D%23%3C");
        assert_eq!(text("/rpc", "/status?"), "/rpc/status?");
        assert_eq!(text("", "//status"), "//status");
    }

    #[test]
    fn only_paths_are_forwarded() {
        for wrong in ["", "*", "http://other/", "status"] {
            assert!(uri("", &Bytes::from_static(wrong.as_bytes())).is_err());
        }
    }

    proptest! {
        #[test]
        fn every_path_decodes_to_what_it_was(rest in proptest::collection::vec(any::<u8>(), 0..60)) {
            let target = [b"/".as_slice(), &rest].concat();
            let encoded = uri("", &Bytes::from(target.clone())).unwrap().to_string();
            prop_assert_eq!(decoded(encoded.as_bytes()), decoded(&target));
        }
    }

    fn decoded(text: &[u8]) -> Vec<u8> {
        let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
        let mut out = Vec::new();
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            match (byte, digit(text.get(at + 1)), digit(text.get(at + 2))) {
                (b'%', Some(high), Some(low)) => {
                    out.push((high * 16 + low) as u8);
                    at += 3;
                }
                _ => {
                    out.push(*byte);
                    at += 1;
                }
            }
        }
        out
    }
}
