//! Requests and answers for the tests.

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
