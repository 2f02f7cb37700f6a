//! What web pages of which origins may read, as the node says it in its answers.
//!
//! A page's write takes the write lane, where sentinel writes the answer itself; so it has to add the
//! headers with which the node would have let the page read it. They are learnt from the answers of the
//! node that pass by, above all those to a browser's preflight requests, and else asked for.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ACCESS_CONTROL_REQUEST_METHOD, HeaderValue, ORIGIN};
use hyper::{HeaderMap, Method};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::respond::CrossOrigin;
use crate::upstream::ReadRequest;

/// A page that asks, and how: nodes may allow some methods only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asking {
    origin: Bytes,
    method: Method,
}

/// A page that asks, and what lets it read the answer.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) asking: Asking,
    /// None if it is not known.
    pub(super) headers: Option<Arc<CrossOrigin>>,
}

/// What is known of origins. Bounded: the one that was learnt first gives way.
#[derive(Debug, Default)]
pub(super) struct Origins(Mutex<HashMap<Asking, Known>>);

#[derive(Debug)]
struct Known {
    headers: Arc<CrossOrigin>,
    since: Instant,
}

impl Asking {
    /// A page of this origin that calls with this method.
    pub(super) fn new(origin: &[u8], method: Method) -> Option<Self> {
        let is_common = origin.len() <= LONGEST_ORIGIN && method.as_str().len() <= LONGEST_METHOD;
        is_common.then(|| Self {
            origin: Bytes::copy_from_slice(origin),
            method,
        })
    }

    /// The request with which a browser asks the node.
    pub(super) fn preflight(&self) -> Option<ReadRequest> {
        let mut headers = HeaderMap::new();
        headers.insert(ORIGIN, HeaderValue::from_bytes(&self.origin).ok()?);
        let method = HeaderValue::from_str(self.method.as_str()).ok()?;
        headers.insert(ACCESS_CONTROL_REQUEST_METHOD, method);
        Some(ReadRequest {
            http_method: Method::OPTIONS,
            target: Bytes::from_static(b"/"),
            headers,
            body: Bytes::new(),
            method: None,
            calls: 1,
        })
    }
}

impl Origins {
    /// The page that asks like this, with what is known of it.
    pub(super) fn page(&self, asking: Asking) -> Box<Page> {
        let headers = self.known(&asking);
        Box::new(Page { asking, headers })
    }

    /// The headers for a page, if they are known.
    fn known(&self, asking: &Asking) -> Option<Arc<CrossOrigin>> {
        let known = self.0.lock();
        let known = known.get(asking)?;
        (known.since.elapsed() < KNOWN_FOR).then(|| Arc::clone(&known.headers))
    }

    /// Learns from an answer of the node.
    pub(super) fn learn(
        &self,
        asking: &Asking,
        answer: &[(Cow<'static, str>, Bytes)],
    ) -> Arc<CrossOrigin> {
        let headers = Arc::new(CrossOrigin::of(answer));
        let mut known = self.0.lock();
        if known.len() >= MOST_ORIGINS && !known.contains_key(asking) {
            let first = known.iter().min_by_key(|(_, known)| known.since);
            if let Some(first) = first.map(|(asking, _)| asking.clone()) {
                known.remove(&first);
            }
        }
        let entry = Known {
            headers: Arc::clone(&headers),
            since: Instant::now(),
        };
        known.insert(asking.clone(), entry);
        headers
    }
}

/// Origins that are known at once: a public endpoint has some dozens of wallets.
const MOST_ORIGINS: usize = 256;
/// Longer ones are no origins: a host name has 253 bytes at most.
const LONGEST_ORIGIN: usize = 300;
const LONGEST_METHOD: usize = 16;
/// After this the node is asked again: its operator may have changed what it allows.
const KNOWN_FOR: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn sharing_72_what_is_known_of_origins_is_bounded_and_forgotten() {
        let origins = Origins::default();
        let asking = |number: usize| {
            Asking::new(format!("https://{number}.example").as_bytes(), Method::POST).unwrap()
        };
        let allow = [(
            "Access-Control-Allow-Origin".into(),
            Bytes::from_static(b"*"),
        )];
        for number in 0..2 * MOST_ORIGINS {
            tokio::time::advance(Duration::from_millis(1)).await;
            origins.learn(&asking(number), &allow);
        }
        assert_eq!(origins.0.lock().len(), MOST_ORIGINS);
        assert!(origins.known(&asking(MOST_ORIGINS - 1)).is_none());
        assert!(origins.known(&asking(MOST_ORIGINS)).is_some());
        tokio::time::advance(KNOWN_FOR).await;
        assert!(origins.known(&asking(2 * MOST_ORIGINS - 1)).is_none());
        assert!(Asking::new(&[b'x'; LONGEST_ORIGIN + 1], Method::POST).is_none());
    }
}
