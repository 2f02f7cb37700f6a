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
    /// Nothing: a notification, a sign of life.
    Nothing,
    /// Nothing yet: a part of a message.
    Part,
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
    Relay(Question),
    /// To be refused.
    Refuse(Refusal),
    /// To be answered with a pong of this payload.
    Pong(Bytes),
    /// The client closes the WebSocket, with that code if it gave one.
    Close(Option<u16>),
}

/// A message that is no write.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) class: MethodClass,
    pub(super) message: RelayMessage,
}

/// Decides. The node makes no difference between text and binary messages.
pub(super) fn act_on(event: &Event<'_>, limits: &JsonLimits) -> Act {
    match event {
        Event::Text(message) | Event::Binary(message) => act_on_message(message, limits),
        Event::Fragment => Act::Part,
        Event::Pong => Act::Nothing,
        Event::Ping(payload) => Act::Pong(Bytes::copy_from_slice(payload)),
        Event::Close { code, .. } => Act::Close(*code),
    }
}

fn act_on_message(text: &[u8], limits: &JsonLimits) -> Act {
    let relay = |class, id, method| {
        Act::Relay(Question {
            class,
            message: RelayMessage {
                text: Bytes::copy_from_slice(text),
                id,
                method,
                is_write: false,
            },
        })
    };
    match classify_message(text, limits) {
        Ok(Classified::One(Call::Write { id, method, tx })) => {
            let id = KeptId::from(&id);
            match tx {
                Some(tx) => Act::Write { id, method, tx },
                None => Act::Unusual {
                    id,
                    method,
                    text: Bytes::copy_from_slice(text),
                },
            }
        }
        Ok(Classified::One(Call::Read { id, method })) => {
            let class = MethodClass::of(&method);
            relay(class, Some(KeptId::from(&id)), Some(method.into()))
        }
        Ok(Classified::One(Call::Notification)) => Act::Nothing,
        // A batch is nothing that the node reads here: it answers with a parse error.
        Ok(Classified::Batch(_) | Classified::Unparsable) => relay(MethodClass::Other, None, None),
        Err(refusal) => Act::Refuse(refusal),
    }
}
