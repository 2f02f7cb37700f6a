//! Reads and a node for the tests of the layers.

use std::future::ready;
use std::sync::Arc;

use bytes::Bytes;
use fairq::KeyScheme;
use hyper::{HeaderMap, Method};
use pacing::Nanos;
use tower::{Service, service_fn};

use super::request::{Read, ReadAnswer, ReadRequest};
use crate::clock::Clock;
use crate::config::Config;
use crate::refusal::Refusal;
use crate::upstream::limits::ClientLimits;

/// A read of this method by the client 127.0.0.`client`.
pub(super) fn read(client: u8, method: &str) -> Read {
    Read {
        client: KeyScheme::default().key([127, 0, 0, client].into()),
        node: 0,
        request: ReadRequest {
            http_method: Method::GET,
            target: Bytes::from_static(b"/"),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            method: Some(method.into()),
            calls: 1,
        },
    }
}

/// A service that answers at once, with nothing.
pub(super) fn node()
-> impl Service<Read, Response = ReadAnswer<()>, Error = Refusal, Future: Send> + Clone {
    service_fn(|_: Read| {
        ready(Ok(ReadAnswer {
            status: 200,
            headers: Vec::new(),
            length: None,
            took: Nanos::ZERO,
            body: (),
        }))
    })
}

/// The limits of clients with the default configuration, changed.
pub(super) fn limits(change: impl FnOnce(&mut Config)) -> Arc<ClientLimits> {
    let mut config = Config::default();
    change(&mut config);
    Arc::new(ClientLimits::new(&config, Clock::start(), [1, 2]).unwrap())
}
