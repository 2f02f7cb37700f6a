//! Takes messages off a buffer; a message in one frame is not copied.

use super::WsError;
use super::frame::{BINARY, CLOSE, CONTINUATION, FrameHead, PING, PONG, TEXT, Writer, mask};

/// Bounds of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WsLimits {
    /// Bytes of a message, its fragments together.
    pub message: usize,
    /// Fragments of a message. Clients need few: a thousand is enough.
    pub fragments: usize,
}

/// What [`FrameReader::next`] found at the start of a buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'b> {
    /// A frame of `used` bytes was taken.
    Event {
        /// Bytes to leave behind before the next call.
        used: usize,
        /// What it was.
        event: Event<'b>,
    },
    /// The frame is incomplete. Its payload is asked for only if it is within the bounds.
    Incomplete {
        /// Bytes of the whole frame, or of its head when that is not complete.
        needed: usize,
    },
}

/// What a frame brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'b> {
    /// A whole text message. It is UTF-8 if a client wrote it; what a server writes is not checked,
    /// because the parser of its JSON does that.
    Text(&'b [u8]),
    /// A whole binary message.
    Binary(&'b [u8]),
    /// A part of a message, which is not complete yet.
    Fragment,
    /// To be answered with a pong of the same payload.
    Ping(&'b [u8]),
    /// The answer to a ping, or unsolicited.
    Pong,
    /// The other end closes the connection; nothing that follows counts. To be answered with a
    /// close frame.
    Close {
        /// Its code, if it gave one.
        code: Option<u16>,
        /// Its reason, often empty.
        reason: &'b str,
    },
}

/// Reads the frames of one connection.
#[derive(Debug)]
pub struct FrameReader {
    writer: Writer,
    limits: WsLimits,
    message: Vec<u8>,
    /// The message under way, if there is one.
    open: Option<Open>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    opcode: u8,
    fragments: usize,
}

/// Storage for fragments that is kept between messages.
const KEPT_BYTES: usize = 4 << 10;

impl FrameReader {
    /// Reads what a client writes, from the start of a connection.
    pub const fn new(limits: WsLimits) -> Self {
        Self::of(Writer::Client, limits)
    }

    /// Reads what a server writes, from the start of a connection.
    pub const fn of_server(limits: WsLimits) -> Self {
        Self::of(Writer::Server, limits)
    }

    const fn of(writer: Writer, limits: WsLimits) -> Self {
        Self {
            writer,
            limits,
            message: Vec::new(),
            open: None,
        }
    }

    /// Bytes of a message that has not come completely, apart from those in the caller's buffer.
    pub const fn held_bytes(&self) -> usize {
        self.message.capacity()
    }

    /// Gives the memory of a message back that was handed over.
    pub fn release(&mut self) {
        if self.open.is_none() {
            self.message = Vec::new();
        }
    }

    /// Whether a message has begun and is not complete.
    pub const fn is_mid_message(&self) -> bool {
        self.open.is_some()
    }

    /// Takes one frame off the start of `bytes`, which is unmasked where it lies. After an event
    /// the caller leaves `used` bytes behind; after an error nothing more can be read.
    ///
    /// # Errors
    /// [`WsError`] as soon as it is certain, before the payload has come if the head shows it.
    #[inline]
    pub fn next<'b>(&'b mut self, bytes: &'b mut [u8]) -> Result<Step<'b>, WsError> {
        let frame = match FrameHead::parse(bytes, self.writer)? {
            Ok(frame) => frame,
            Err(needed) => return Ok(Step::Incomplete { needed }),
        };
        self.admit(&frame)?;
        let used = frame.len + frame.payload;
        let Some(payload) = bytes.get_mut(frame.len..used) else {
            return Ok(Step::Incomplete { needed: used });
        };
        if self.writer == Writer::Client {
            mask(payload, frame.key);
        }
        let event = match frame.opcode {
            PING => Event::Ping(payload),
            PONG => Event::Pong,
            CLOSE => close(payload)?,
            TEXT | BINARY if frame.fin => whole(self.writer, frame.opcode, payload)?,
            _ => self.fragment(&frame, payload)?,
        };
        Ok(Step::Event { used, event })
    }

    /// Checks a frame by its head: whether it may come now, and within the limits.
    #[inline]
    fn admit(&self, frame: &FrameHead) -> Result<(), WsError> {
        match (frame.opcode, self.open) {
            (TEXT | BINARY, None) | (CONTINUATION, Some(_)) | (CLOSE | PING | PONG, _) => {}
            (CONTINUATION, None) => return Err(WsError::Protocol("a fragment continues nothing")),
            (TEXT | BINARY, Some(_)) => {
                return Err(WsError::Protocol("a message begins inside another"));
            }
            (opcode, _) => return Err(WsError::UnknownOpcode(opcode)),
        }
        if frame.is_control() {
            return Ok(());
        }
        // Without a message under way the storage still has the one that was handed over last.
        let held = self.open.map_or(0, |_| self.message.len());
        if frame.payload > self.limits.message.saturating_sub(held) {
            return Err(WsError::TooLarge(self.limits.message));
        }
        let fragments = self.open.map_or(0, |open| open.fragments);
        if fragments >= self.limits.fragments {
            return Err(WsError::TooManyFragments(self.limits.fragments));
        }
        Ok(())
    }

    fn fragment<'b>(&'b mut self, frame: &FrameHead, payload: &[u8]) -> Result<Event<'b>, WsError> {
        if self.open.is_none() {
            // The message before has been handed over.
            self.message.clear();
            self.message.shrink_to(KEPT_BYTES);
        }
        let open = self.open.take().unwrap_or(Open {
            opcode: frame.opcode,
            fragments: 0,
        });
        self.message.extend_from_slice(payload);
        if frame.fin {
            return whole(self.writer, open.opcode, &self.message);
        }
        self.open = Some(Open {
            fragments: open.fragments + 1,
            ..open
        });
        Ok(Event::Fragment)
    }
}

/// A message that is complete.
#[inline]
fn whole(writer: Writer, opcode: u8, message: &[u8]) -> Result<Event<'_>, WsError> {
    match (opcode, writer) {
        (TEXT, Writer::Client) if std::str::from_utf8(message).is_err() => Err(WsError::NotUtf8),
        (TEXT, _) => Ok(Event::Text(message)),
        _ => Ok(Event::Binary(message)),
    }
}

fn close(payload: &[u8]) -> Result<Event<'_>, WsError> {
    let Some((code, reason)) = payload.split_first_chunk::<2>() else {
        return if payload.is_empty() {
            Ok(Event::Close {
                code: None,
                reason: "",
            })
        } else {
            Err(WsError::Protocol("a close code is cut off"))
        };
    };
    let code = u16::from_be_bytes(*code);
    // RFC 6455, section 7.4, and the registry of codes made since.
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(WsError::Protocol("a close code must not be sent"));
    }
    let reason = std::str::from_utf8(reason).map_err(|_| WsError::NotUtf8)?;
    Ok(Event::Close {
        code: Some(code),
        reason,
    })
}

#[cfg(test)]
mod tests;
