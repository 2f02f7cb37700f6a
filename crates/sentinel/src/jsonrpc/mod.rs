//! What a request asks for, decided exactly as the node would decide it, so that no spelling takes
//! a broadcast past the write lane.
//!
//! [`classify`] reads the body of a POST to `/`, [`classify_message`] a WebSocket message and
//! [`classify_uri`] a request target. The plain forms of a broadcast are decoded here, in one pass;
//! every other form that the node would execute as a broadcast is a [`Call::Write`] without its
//! transaction, whose bytes go to the node as they came.

mod envelope;
mod id;
#[cfg(test)]
mod real_node;
#[cfg(test)]
mod reference;
mod subscriptions;
mod uri;

use std::borrow::Cow;

use bytes::Bytes;
use wire::json;
use wire::jsonrpc::{BroadcastMethod, RequestId};

pub use self::id::KeptId;
pub use self::subscriptions::SubscriptionCall;
pub use self::uri::{UriRoute, UriTarget, classify_uri};
use crate::refusal::{Reason, Refusal};

/// Bounds on what is taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonLimits {
    /// Levels of arrays and objects, at most [`MAX_DEPTH`], as on the node.
    pub depth: usize,
    /// Elements of a batch.
    pub batch: usize,
}

/// Deepest nesting that can be allowed.
pub const MAX_DEPTH: usize = json::MAX_DEPTH;

/// What a body or a message is.
#[derive(Debug, PartialEq)]
pub enum Classified<'a> {
    /// One call.
    One(Call<'a>),
    /// A batch, in order; maybe empty. Only in a POST.
    Batch(Vec<Element<'a>>),
    /// Something that the node answers with a parse error and does not execute: it is forwarded
    /// for that answer.
    Unparsable,
}

/// One element of a batch.
#[derive(Debug, PartialEq)]
pub struct Element<'a> {
    /// Its text, without white space around it.
    pub raw: &'a [u8],
    /// What it is.
    pub call: Call<'a>,
}

/// One JSON-RPC call.
#[derive(Debug, PartialEq)]
pub enum Call<'a> {
    /// A broadcast: it belongs to the write lane.
    Write {
        /// To be echoed.
        id: RequestId<'a>,
        /// How it is broadcast.
        method: BroadcastMethod,
        /// The transaction, decoded, of a plain form; none in another form, for the node to judge.
        tx: Option<Bytes>,
    },
    /// Any other method, known or not, to be forwarded as it came.
    Read {
        /// To be echoed.
        id: RequestId<'a>,
        /// The method, without escapes; empty if there is none.
        method: Cow<'a, str>,
    },
    /// No id: the node neither executes nor answers it. A POST of nothing else gets an empty 200.
    Notification,
}

/// Reads the body of a POST to `/`.
///
/// # Errors
/// A refusal for nesting that is too deep ([`Reason::Parse`]) or a batch of too many elements
/// ([`Reason::Batch`], with the node's own text).
pub fn classify<'a>(body: &'a [u8], limits: &JsonLimits) -> Result<Classified<'a>, Refusal> {
    judged(envelope::body(body, limits), limits)
}

/// Reads a WebSocket message, text or binary: the node decodes the first JSON value in it and
/// ignores the rest.
///
/// # Errors
/// A refusal for nesting that is too deep ([`Reason::Parse`]).
pub fn classify_message<'a>(
    message: &'a [u8],
    limits: &JsonLimits,
) -> Result<Classified<'a>, Refusal> {
    judged(envelope::message(message, limits), limits)
}

fn judged<'a>(
    read: Result<Classified<'a>, envelope::Fault>,
    limits: &JsonLimits,
) -> Result<Classified<'a>, Refusal> {
    match read {
        Ok(classified) => Ok(classified),
        Err(envelope::Fault::Unparsable) => Ok(Classified::Unparsable),
        Err(envelope::Fault::Depth) => Err(Refusal::new(
            Reason::Parse,
            format!("JSON is nested deeper than {} levels", limits.depth),
        )),
        Err(envelope::Fault::Batch) => Err(Refusal::new(
            Reason::Batch,
            format!(
                "batch request exceeds maximum ({}) allowed number of requests",
                limits.batch
            ),
        )),
    }
}
