//! The chain: genuine headers, commits and hashes of CometBFT 0.38 with one validator.

pub(crate) mod block;
pub(crate) mod genesis;
pub(crate) mod header;
pub(crate) mod merkle;
pub(crate) mod prefix;
pub(crate) mod proto;
pub(crate) mod render;
pub(crate) mod store;
pub(crate) mod tendermint;
pub(crate) mod time;
pub(crate) mod validator;
