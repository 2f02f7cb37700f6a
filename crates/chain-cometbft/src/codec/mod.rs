//! JSON-RPC bodies: answers read in one pass. Requests are written by [`wire::jsonrpc`].

mod answer;
mod read;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use answer::{Answer, AnswerId, DecodeError, Outcome, decode_answer};
