//! From what a client sends to what is to be done about it, one frame after the other.

use std::task::{Context, Poll};

use bytes::Bytes;
use rpc::BroadcastMethod;
use wire::ws::frame::{FrameHead, Writer};
use wire::ws::{Event, FrameReader, Step, WsLimits, close_code};

use crate::access::Seen;
use crate::budget::Piece;
use crate::front::buffer::READ_BYTES;
use crate::front::socket::{Ended, Socket, Stream};
use crate::metrics::MethodClass;
use crate::refusal::Refusal;
use crate::respond::KeptId;
use crate::shadow::Shadow;
use crate::upstream::RelayMessage;
use wire::calls::{Call, Classified, JsonLimits, classify_message};

/// Reads the frames of one client.
pub(super) struct MessageReader {
    frames: FrameReader,
    json: JsonLimits,
    shadow: Shadow,
}

/// What the input came to.
pub(super) enum Input {
    /// A frame was taken which asks for this; the bytes of it, or of the message that it ends.
    Frame(Act, usize),
    /// More was read.
    Bytes,
    /// Nothing is there.
    Nothing,
}

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
        /// In shadow: what is to be sent to the node, while the write is judged.
        judged: Option<Question>,
    },
    /// To be sent to the node.
    Ask(Question),
    /// To be refused.
    Refuse(Refusal),
    /// To be answered with a pong of this payload.
    Pong(Bytes),
    /// The client closes the WebSocket, with that code if it gave one.
    Close(Option<u16>),
}

/// How a session ends.
#[derive(Debug)]
pub(super) enum End {
    /// With a close frame.
    Say(u16, String),
    /// With a close frame as empty as the client's.
    Echo,
    /// Without one: the client is gone, or was too slow.
    Gone,
}

impl From<Ended> for End {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::OverBudget => {
                Self::Say(close_code::TRY_AGAIN, "the buffers are full".to_owned())
            }
            Ended::Closed | Ended::Late => Self::Gone,
        }
    }
}

/// A call as it is counted, and written down.
pub(super) type Counted<'a> = (MethodClass, Option<&'a Seen>);

/// A message that is no write.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) class: MethodClass,
    /// What is written down of it, once it is passed on.
    pub(super) seen: Option<Box<Seen>>,
    pub(super) message: RelayMessage,
}

impl Question {
    pub(super) fn counted(&self) -> Counted<'_> {
        (self.class, self.seen.as_deref())
    }
}

/// Fragments of a message. Honest clients send few.
const FRAGMENTS: usize = 1_024;

impl MessageReader {
    /// Nothing was read yet. Messages have at most so many bytes.
    pub(super) fn new(message: usize, json: JsonLimits, shadow: Shadow) -> Self {
        let limits = WsLimits {
            message,
            fragments: FRAGMENTS,
        };
        Self {
            frames: FrameReader::new(limits),
            json,
            shadow,
        }
    }

    /// What the next frame costs, with the message that it ends; one that was not read completely costs little.
    pub(super) fn next_piece<IO: Stream>(&self, socket: &Socket<IO>) -> Piece {
        let input = socket.input.filled();
        let bytes = match FrameHead::parse(input, Writer::Client) {
            Ok(Ok(head)) if head.len + head.payload > input.len() => 0,
            Ok(Ok(head)) if head.fin && !head.is_control() => {
                head.payload + self.frames.held_bytes()
            }
            Ok(Ok(head)) => head.payload,
            _ => 0,
        };
        Piece::of(bytes)
    }

    /// Takes the next frame from what was read, or reads more.
    pub(super) fn next<IO: Stream>(
        &mut self,
        socket: &mut Socket<IO>,
        context: &mut Context<'_>,
    ) -> Result<Input, End> {
        let mut needed = 0;
        if !socket.input.is_empty() {
            let step = self.frames.next(socket.input.filled_mut());
            match step.map_err(|error| End::Say(error.close_code(), error.to_string()))? {
                Step::Incomplete { needed: more } => needed = more,
                Step::Event { used, event } => {
                    let act = act_on(&event, (&self.json, &self.shadow));
                    let bytes = match event {
                        Event::Text(message) | Event::Binary(message) => message.len(),
                        _ => used,
                    };
                    self.take(used, socket)?;
                    return Ok(Input::Frame(act, bytes));
                }
            }
        }
        if needed > READ_BYTES {
            socket.input.grow_towards(needed);
        }
        match socket.poll_read(context) {
            Poll::Ready(read) => Ok(read.map(|()| Input::Bytes)?),
            Poll::Pending => Ok(Input::Nothing),
        }
    }

    /// Takes a frame off the input; the fragments of a message that is not complete stay, and are charged.
    fn take<IO: Stream>(&mut self, used: usize, socket: &mut Socket<IO>) -> Result<(), Ended> {
        socket.input.consume(used);
        self.frames.release();
        let held = self.frames.held_bytes();
        let is_more = held > std::mem::replace(&mut socket.apart, held);
        if is_more && !socket.charge() {
            Err(Ended::OverBudget)
        } else {
            Ok(())
        }
    }
}

/// Decides. The node makes no difference between text and binary messages.
fn act_on(event: &Event<'_>, rules: (&JsonLimits, &Shadow)) -> Act {
    match event {
        Event::Text(message) | Event::Binary(message) => act_on_message(message, rules),
        Event::Fragment => Act::Part,
        Event::Pong => Act::Nothing,
        Event::Ping(payload) => Act::Pong(Bytes::copy_from_slice(payload)),
        Event::Close { code, .. } => Act::Close(*code),
    }
}

fn act_on_message(text: &[u8], (limits, shadow): (&JsonLimits, &Shadow)) -> Act {
    let question = |class, id, method| Question {
        class,
        seen: None,
        message: RelayMessage {
            text: Bytes::copy_from_slice(text),
            id,
            method,
        },
    };
    let ask = |class, id, method| Act::Ask(question(class, id, method));
    match classify_message(text, limits) {
        Ok(Classified::One(Call::Write { id, method, tx })) => {
            let id = KeptId::from(id.as_str());
            let class = MethodClass::of_broadcast(method);
            let judge = || question(class, Some(id.clone()), Some(method.name().into()));
            let judged = shadow.is_on().then(judge);
            Act::Write {
                id,
                method,
                tx,
                judged,
            }
        }
        Ok(Classified::One(Call::Read { id, method })) => {
            let class = MethodClass::of(&method);
            ask(class, Some(KeptId::from(id.as_str())), Some(method.into()))
        }
        Ok(Classified::One(Call::Notification)) => Act::Nothing,
        // A batch is nothing that the node reads here: it answers with a parse error.
        Ok(Classified::Batch(_) | Classified::Unparsable) => ask(MethodClass::Other, None, None),
        Err(over) => Act::Refuse(over.into()),
    }
}
