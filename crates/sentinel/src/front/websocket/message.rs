//! From a client's frame to what is to be done about it.

use bytes::Bytes;
use rpc::BroadcastMethod;

use crate::jsonrpc::{Call, Classified, JsonLimits, KeptId, classify_message};
use crate::metrics::MethodClass;
use crate::refusal::Refusal;
use crate::upstream::RelayMessage;
use wire::ws::Event;

/// What is to be done about a frame.
pub(super) enum Act {
    /// Nothing: a part of a message, a notification, a sign of life.
    Nothing,
    /// To be put into the write lane.
    Write {
        id: KeptId,
        method: BroadcastMethod,
        tx: Bytes,
    },
    /// To be relayed when its turn as a write has come.
    Unusual {
        id: KeptId,
        method: BroadcastMethod,
        text: Bytes,
    },
    /// To be relayed.
    Relay(Read),
    /// To be refused.
    Refuse(Refusal),
    /// To be answered with a pong of this payload.
    Pong(Bytes),
    /// The client closes the WebSocket, with that code if it gave one.
    Close(Option<u16>),
}

/// A message that is no write.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) class: MethodClass,
    pub(super) message: RelayMessage,
}

/// Decides. The node makes no difference between text and binary messages.
pub(super) fn act_on(event: &Event<'_>, limits: &JsonLimits) -> Act {
    match event {
        Event::Text(message) | Event::Binary(message) => act_on_message(message, limits),
        Event::Fragment | Event::Pong => Act::Nothing,
        Event::Ping(payload) => Act::Pong(Bytes::copy_from_slice(payload)),
        Event::Close { code, .. } => Act::Close(*code),
    }
}

fn act_on_message(text: &[u8], limits: &JsonLimits) -> Act {
    let copy = || Bytes::copy_from_slice(text);
    match classify_message(text, limits) {
        Ok(Classified::One(Call::Write { id, method, tx })) => Act::Write {
            id: KeptId::from(&id),
            method,
            tx,
        },
        Ok(Classified::One(Call::UnusualWrite { id, method })) => Act::Unusual {
            id: KeptId::from(&id),
            method,
            text: copy(),
        },
        Ok(Classified::One(Call::Read { id, method })) => Act::Relay(Read {
            class: MethodClass::of(&method),
            message: RelayMessage {
                text: copy(),
                id: Some(KeptId::from(&id)),
                method: Some(method.into()),
                is_write: false,
            },
        }),
        Ok(Classified::One(Call::Notification)) => Act::Nothing,
        // A batch is nothing that the node reads here: it answers with a parse error.
        Ok(Classified::Batch(_) | Classified::Unparsable) => Act::Relay(Read {
            class: MethodClass::Other,
            message: RelayMessage {
                text: copy(),
                id: None,
                method: None,
                is_write: false,
            },
        }),
        Err(refusal) => Act::Refuse(refusal),
    }
}
