//! JSON-RPC bodies: requests written without a value tree, answers read in one pass.

mod answer;
mod encode;
mod hex;
mod scan;
mod strict;
#[cfg(test)]
mod tests;

pub use answer::{Answer, AnswerId, DecodeError, Outcome, decode_answer};
pub(crate) use encode::encode_call;
pub use encode::{BroadcastMethod, UnknownMethod, broadcast_len, encode_broadcast};
pub(crate) use hex::decode_hash;
#[cfg(test)]
pub(crate) use hex::write_hex;
