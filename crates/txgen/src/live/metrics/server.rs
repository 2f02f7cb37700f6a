//! The listener, on a thread of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use anyhow::Context as _;
use hyper::{Request, StatusCode};
use ops::ListenAddress;
use ops::listener::{self, Bounds};
use ops::page::{self, Page};
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::collect;
use crate::live::track::Track;

/// Serves until it is dropped.
pub(in crate::live) struct MetricsServer {
    address: SocketAddr,
    shutdown: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens, and serves the figures of `track` from then on.
    ///
    /// # Errors
    /// When the address is taken or is not ours.
    pub(in crate::live) fn start(
        address: ListenAddress,
        track: Arc<Mutex<Track>>,
    ) -> anyhow::Result<Self> {
        let asked = address.0;
        let failed = || {
            format!(
                "cannot serve metrics on {asked}; free it, or give --metrics another port (0 takes a free one)"
            )
        };
        let runtime = crate::runtime::start().with_context(failed)?;
        let bound = runtime.block_on(TcpListener::bind(asked));
        let listener = bound.with_context(failed)?;
        let address = listener.local_addr().with_context(failed)?;
        let shutdown = CancellationToken::new();
        let registry = Mutex::new(collect::registry(track));
        let pages = move |request: &Request<_>| page(request.uri().path(), &registry);
        let serving = listener::serve(listener, Bounds::default(), pages, shutdown.clone());
        let thread = thread::Builder::new()
            .name("metrics".into())
            .spawn(move || runtime.block_on(serving))
            .with_context(failed)?;
        Ok(Self {
            address,
            shutdown,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub(in crate::live) const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.shutdown.cancel();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by its thread; the run does not depend on it.
            let _ = thread.join();
        }
    }
}

fn page(path: &str, registry: &Mutex<Registry>) -> Page {
    match path {
        "/metrics" => {
            let mut text = String::with_capacity(EXPOSITION_BYTES);
            let registry = registry.lock();
            match encode(&mut text, &registry) {
                Ok(()) => page::metrics(text),
                Err(error) => page::text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    format!("the metrics cannot be encoded: {error}\n"),
                ),
            }
        }
        "/" => page::text(StatusCode::OK, INDEX.into()),
        _ => page::not_found(INDEX),
    }
}

const INDEX: &str = "/metrics   the run under way, for Prometheus\n";
const EXPOSITION_BYTES: usize = 16 << 10;
