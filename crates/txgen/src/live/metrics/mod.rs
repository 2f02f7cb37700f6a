//! A run's figures for Prometheus, at `http://ADDRESS/metrics`.

mod collect;
mod server;

pub(super) use server::MetricsServer;
