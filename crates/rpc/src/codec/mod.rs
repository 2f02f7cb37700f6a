//! JSON-RPC bodies: answers read in one pass. Requests are written by [`wire::jsonrpc`].

mod answer;
mod read;
#[cfg(test)]
mod reference;
mod refused;
#[cfg(test)]
mod tests;

pub use answer::{Answer, AnswerId, DecodeError, Outcome, decode_answer};

/// The body of a call that is no broadcast; `params` is a JSON object or array as text.
pub(crate) fn encode_call(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}
