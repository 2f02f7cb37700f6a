//! The state of a relay's connection, what can happen to it, and what a relay asks for itself.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::event::PastEvent;
use super::socket::NodeSocket;
use crate::upstream::UpstreamError;

/// Where the connection is.
pub(super) enum Link {
    /// Nobody needs one.
    Idle,
    /// It is to be tried (again) at this instant.
    Waiting(Instant),
    Connecting(QueryFuture<Box<NodeSocket>>),
    Open(Box<NodeSocket>),
}

/// An outage that subscriptions have lived through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outage {
    /// When it began.
    pub(super) since: Instant,
    /// The highest block whose events have surely been received.
    pub(super) height: u64,
}

/// What happened to a relay's connection, or because of the time.
pub(super) enum LinkEvent {
    Shutdown,
    /// A deadline has come, or the connection may be tried again.
    Due,
    Opened(Result<Box<NodeSocket>, UpstreamError>),
    Broken(String),
    Message(Bytes),
    Height(Result<u64, UpstreamError>),
    PastEvent(u64, Result<PastEvent, UpstreamError>),
}

/// The longest pause between attempts to connect.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(2);

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
