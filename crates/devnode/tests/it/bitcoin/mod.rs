//! The node of Bitcoin's regression-test network.

mod btcd;
mod client;
mod node;
mod peers;
mod wallet;
