//! The operator's listener: metrics, health, and what happens to whom.
//!
//! It only shows; nothing can be changed through it. It has no authentication and names clients, so
//! it belongs on loopback or on a network that clients cannot reach.

mod pages;
#[cfg(test)]
mod tests;
mod views;

pub use views::{ClientView, ClientsView, Explanation, Limit, NodeView, Readiness};

use std::net::IpAddr;
use std::sync::Arc;

use ops::listener::{self, Bounds};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::metrics::{Gauges, Metrics};

/// What the listener shows. Called once per request, so a
/// short lock is fine and a long walk is not.
pub trait Inspect: Send + Sync + 'static {
    /// Whether clients should be sent here.
    fn readiness(&self) -> Readiness;

    /// The `top` clients with the longest queues, longest first, and how many there are.
    fn clients(&self, top: usize) -> ClientsView;

    /// What is known about the client with this address.
    fn explain(&self, address: IpAddr) -> Explanation;

    /// The state of the program in numbers.
    fn gauges(&self) -> Gauges;
}

/// Serves the operator until `shutdown`; then open connections finish the answer they are at.
///
/// Give it a token that is cancelled last: while the rest drains, `/readyz` must say so.
pub async fn serve(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    inspect: Arc<dyn Inspect>,
    shutdown: CancellationToken,
) {
    if let Ok(address) = listener.local_addr() {
        info!(%address, "serving the operator");
    }
    let pages = move |request: &_| pages::answer(request, &metrics, &*inspect);
    listener::serve(listener, Bounds::default(), pages, shutdown).await;
}
