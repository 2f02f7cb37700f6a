//! The operator's listener: metrics, health, and what happens to whom.
//!
//! It only shows; nothing can be changed through it. It has no authentication and names clients, so
//! it belongs on loopback or on a network that clients cannot reach.

mod pages;
mod query;
mod server;
#[cfg(test)]
mod tests;
mod views;

pub use server::serve;
pub use views::{ClientView, ClientsView, Explanation, Limit, NodeView, Readiness};

use std::net::IpAddr;

use crate::metrics::Gauges;

/// What the listener shows. Implemented by whoever owns the state; called once per request, so a
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
