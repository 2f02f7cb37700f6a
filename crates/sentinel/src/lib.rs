//! The fair, pacing, pausing front door of a CometBFT node's RPC.
//!
//! Clients speak to it as to the node. Reads pass; writes (`broadcast_tx_*`) wait in a queue that
//! shares the node's write capacity fairly between clients, and are forwarded at the rate at which
//! the node commits most. When measured throughput drops, or on a schedule, the node is given a
//! break that clients do not notice.
//!
//! It is not a cache, not an authenticator and not a load balancer for reads: it never invents an
//! answer, and it never does what the node alone should decide.
//!
//! Read first: [`config::Config`], [`lane`], [`control::Pacer`].

pub mod admin;
pub mod cli;
pub mod clock;
pub mod command;
pub mod config;
pub mod front;
pub mod identity;
mod inspect;
pub mod jsonrpc;
pub mod lane;
pub mod ledger;
pub mod metrics;
pub mod refusal;
pub mod respond;
pub mod serve;
pub mod upstream;
