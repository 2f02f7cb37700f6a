//! The BigchainDB application over its HTTP API, its event stream and Tendermint's RPC.

mod answers;
mod bad_input;
mod chain;
mod client;
mod events;
mod validation;
mod workers;
