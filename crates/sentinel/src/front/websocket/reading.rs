//! From what a client sends to messages, one frame after the other.

use std::task::{Context, Poll};

use wire::ws::{Event, FrameReader, Step, WsLimits};

use super::End;
use super::message::{Act, act_on};
use crate::front::buffer::READ_BYTES;
use crate::front::socket::{Ended, Socket, Stream};
use crate::jsonrpc::JsonLimits;

/// Reads the frames of one client.
pub(super) struct MessageReader {
    frames: FrameReader,
    json: JsonLimits,
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

/// Fragments of a message. Honest clients send few.
const FRAGMENTS: usize = 1_024;

impl MessageReader {
    /// Nothing was read yet. Messages have at most so many bytes.
    pub(super) fn new(message: usize, json: JsonLimits) -> Self {
        let limits = WsLimits {
            message,
            fragments: FRAGMENTS,
        };
        Self {
            frames: FrameReader::new(limits),
            json,
        }
    }

    /// Takes the next frame from what was read, or reads more.
    pub(super) fn next<IO: Stream>(
        &mut self,
        socket: &mut Socket<IO>,
        context: &mut Context<'_>,
    ) -> Result<Input, End> {
        if socket.input.is_empty() {
            return self.read(socket, 0, context);
        }
        let step = self.frames.next(socket.input.filled_mut());
        let step = step.map_err(|error| End::Say(error.close_code(), error.to_string()))?;
        match step {
            Step::Incomplete { needed } => self.read(socket, needed, context),
            Step::Event { used, event } => {
                let act = act_on(&event, &self.json);
                let bytes = match event {
                    Event::Text(message) | Event::Binary(message) => message.len(),
                    _ => used,
                };
                socket.input.consume(used);
                self.frames.release();
                let held = self.frames.held_bytes();
                let is_more = held > std::mem::replace(&mut socket.apart, held);
                if is_more && !socket.charge() {
                    return Err(Ended::Full.into());
                }
                Ok(Input::Frame(act, bytes))
            }
        }
    }

    /// Reads more of a frame that needs so many bytes in all.
    fn read<IO: Stream>(
        &self,
        socket: &mut Socket<IO>,
        needed: usize,
        context: &mut Context<'_>,
    ) -> Result<Input, End> {
        if needed > READ_BYTES {
            socket.input.grow_towards(needed);
        }
        match socket.poll_read(context) {
            Poll::Ready(Ok(())) => Ok(Input::Bytes),
            Poll::Ready(Err(ended)) => Err(ended.into()),
            Poll::Pending => Ok(Input::Nothing),
        }
    }
}
