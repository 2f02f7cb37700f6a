//! What a request asks for, once it was read: types that the planner fills in and the handlers serve.

use bytes::Bytes;
use fairq::ClientKey;
use hyper::header::{HeaderName, HeaderValue};
use rpc::BroadcastMethod;

use crate::access::{Ended, Seen};
use crate::budget::Held;
use crate::lane::WriteAnswer;
use crate::metrics::{MethodClass, Transport};
use crate::refusal::Refusal;
use crate::respond::{Form, KeptId};
use crate::upstream::ReadRequest;
use wire::jsonrpc::RequestId;
use wire::ws::HandshakeError;

/// What is to be done with a request.
pub(super) enum Plan {
    /// The common case: one broadcast in plain form.
    Broadcast(Broadcast),
    /// Something else.
    Other(Box<Other>),
}

/// A broadcast that was decoded.
pub(super) struct Broadcast {
    pub(super) call: CallInfo,
    pub(super) method: BroadcastMethod,
    pub(super) tx: Bytes,
}

/// A write of a batch, and what it came to, once that is known.
pub(super) struct BatchWrite {
    pub(super) call: CallInfo,
    /// Whether the lane took it.
    pub(super) was_queued: bool,
    pub(super) end: Option<WriteAnswer>,
}

/// Everything but the common case.
pub(super) enum Other {
    /// To be refused, and the connection closed.
    Deny(CallInfo, Refusal),
    /// To be refused.
    Refuse(CallInfo, Refusal),
    /// Nothing but notifications: the node does nothing and answers nothing.
    Notifications,
    /// To be forwarded.
    Forward(Forward),
    /// Several calls, writes among them.
    Batch(Batch),
    /// To become a WebSocket, with that key as the answer.
    Upgrade(String),
    /// No handshake.
    NotUpgraded(HandshakeError),
}

/// A read that goes to the node as it came.
pub(super) struct Forward {
    pub(super) call: CallInfo,
    pub(super) request: ReadRequest,
}

/// What a request holds until it is answered: its body, and its head twice, as it is kept and as it is written.
pub(super) fn held_bytes(request: &ReadRequest) -> usize {
    let field = |(name, value): (&HeaderName, &HeaderValue)| {
        2 * (name.as_str().len() + value.len()) + FIELD_OVERHEAD
    };
    let head: usize = request.headers.iter().map(field).sum();
    request.body.len() + 2 * request.target.len() + head
}

/// What a header costs beside its text: its places in a table that is half full.
const FIELD_OVERHEAD: usize = 256;

/// A batch that does not go to the node as a whole.
pub(super) struct Batch {
    /// The request that it came in.
    pub(super) request: ReadRequest,
    pub(super) elements: Vec<Element>,
}

/// One call of a batch.
pub(super) enum Element {
    Write(Broadcast),
    /// To be forwarded by itself.
    Forward {
        call: CallInfo,
        /// What it takes from the client's rate of reads.
        price: u32,
        /// Its method, if that changes something at the node.
        changing: Option<Box<str>>,
        raw: Bytes,
    },
    Refused {
        call: CallInfo,
        refusal: Refusal,
    },
    Notification,
}

impl Element {
    /// What it takes from the client's rate of reads where it goes to the node with others.
    pub(super) const fn price(&self) -> u32 {
        match self {
            Self::Forward { price, .. } => *price,
            _ => 0,
        }
    }

    pub(super) const fn joins_writes(&self) -> bool {
        matches!(self, Self::Write(_) | Self::Notification)
    }

    /// Whether the node may have it in a batch with others.
    pub(super) const fn is_read(&self) -> bool {
        matches!(
            self,
            Self::Forward { changing: None, .. } | Self::Notification
        )
    }
}

/// How a call came, how it is counted, and the id of its answer.
#[derive(Debug)]
pub(super) struct CallInfo {
    pub(super) transport: Transport,
    pub(super) class: MethodClass,
    id: Option<KeptId>,
}

impl CallInfo {
    /// A call in a body; its id, if it is known.
    pub(super) fn post(class: MethodClass, id: Option<&RequestId<'_>>) -> Self {
        Self {
            transport: Transport::Post,
            class,
            id: id.map(|id| id.as_str().into()),
        }
    }

    /// A call in a target.
    pub(super) fn uri(class: MethodClass) -> Self {
        Self {
            transport: Transport::Uri,
            class,
            id: Some(RequestId::NONE.as_str().into()),
        }
    }

    /// Its end as it is counted, and written down.
    pub(super) fn ended<'s>(&self, client: ClientKey, seen: Option<&'s Seen>) -> Ended<'s> {
        Ended {
            client,
            call: Some((self.transport, self.class)),
            seen,
        }
    }

    /// The id as it is echoed.
    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_ref().map(KeptId::as_str)
    }

    /// The form of its answer.
    pub(super) fn form(&self) -> Form<'_> {
        match self.transport {
            Transport::Uri => Form::Uri,
            _ => Form::Post(self.id()),
        }
    }
}

/// How the connection goes on after a request.
pub(super) enum Next {
    /// With the next request.
    Request,
    /// It is closed when everything is written.
    Close,
    /// As a WebSocket; its client was charged for it if it is behind a proxy.
    WebSocket(Option<Held>),
    /// In HTTP/2, with which the client has begun.
    Http2,
}

impl Next {
    /// After an answer that does or does not leave the connection open.
    pub(super) const fn after(keep_alive: bool) -> Self {
        if keep_alive {
            Self::Request
        } else {
            Self::Close
        }
    }
}
