//! What a relay asks a node for itself, to make up for what its client missed.

use std::pin::Pin;

use bytes::Bytes;

use super::event::PastEvent;
use crate::upstream::UpstreamError;

/// Events of past blocks that are to be given to subscriptions.
pub(super) struct Replay {
    /// The last height.
    pub(super) to: u64,
    /// The only subscription concerned; else all.
    pub(super) only: Option<u64>,
    /// The event that showed the gap.
    pub(super) held: Option<Bytes>,
}

/// A question of the relay's own that is under way; meanwhile nothing is read from the node.
pub(super) enum OwnQuery {
    /// The node's height.
    Height(QueryFuture<u64>),
    /// The event of a past block for this subscription.
    Event(u64, QueryFuture<PastEvent>),
}

pub(super) type QueryFuture<T> = Pin<Box<dyn Future<Output = Result<T, UpstreamError>> + Send>>;
