//! A proxy for a CometBFT node's RPC: fair between clients, paced by the node's blocks.
//!
//! Clients use it as they use the node. Reads are forwarded at once; writes (`broadcast_tx_*`) wait in a queue that
//! shares the node's write capacity fairly between clients, and are forwarded at the rate at which
//! the node commits most. When measured throughput drops, or on a schedule, writes
//! pause to let the node recover.
//!
//! Of several nodes each client reads from one. Answers that cannot change are kept. It never makes up a response that
//! only the node can give.
//!
//! Read first: [`config::Config`], [`lane`], [`control::Pacer`].

mod access;
mod background;
pub mod bans;
pub mod budget;
pub mod cli;
pub mod clock;
#[cfg(feature = "cluster")]
mod cluster;
pub mod command;
pub mod config;
mod files;
pub mod front;
pub mod handover;
pub mod identity;
pub mod keys;
pub mod lane;
mod listeners;
mod log;
pub mod metrics;
pub mod operator;
pub mod refusal;
pub mod reload;
pub mod respond;
mod sampled;
pub mod serve;
mod shadow;
pub mod shared_context;
mod supervise;
pub mod tls;
pub mod top;
#[cfg(feature = "otlp")]
mod traces;
pub mod upstream;
