//! A run's figures for Prometheus, at `http://ADDRESS/metrics`.

mod address;
mod collect;
mod server;

pub use address::MetricsAddress;
pub(super) use server::MetricsServer;
