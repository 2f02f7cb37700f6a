//! Bytes to parcels and handshakes.

use std::ops::Range;

use super::{
    CodecError,
    gob::{self, Types},
    v9, v11,
};
use crate::parcel::{Handshake, Parcel, ParcelKind, Version};

/// What was read from a link.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Once, before all parcels.
    Handshake(Handshake),
    /// Its payload lies in the decoder's buffer.
    Parcel(Parcel<'a>),
}

/// One direction of a link, as its receiver sees it.
///
/// Give it bytes as they arrive ([`Decoder::push`]) and take what they complete
/// ([`Decoder::next`]). The first four bytes show the form of the stream. The buffer holds
/// what has arrived and is not yet taken: a length is believed only as its bytes arrive.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Where the bytes begin that are not yet taken.
    start: usize,
    limit: usize,
    stream: Stream,
}

#[derive(Debug)]
enum Stream {
    /// Fewer than four bytes have arrived.
    Unknown,
    Protobuf {
        greeted: bool,
    },
    Gob {
        types: Types,
        /// The version of the parcels, once there was a handshake.
        version: Option<Version>,
    },
}

/// What a complete frame is, with its payload's place in the buffer.
enum Found {
    Handshake(Handshake),
    Parcel {
        kind: ParcelKind,
        target: Range<usize>,
        payload: Range<usize>,
    },
}

/// A buffer that a large parcel has left behind is given back above this size, in bytes.
const KEPT: usize = 256 << 10;
/// What a gob message may have beside its payload, in bytes.
const GOB_HEADER: usize = 4 << 10;

impl Decoder {
    /// A link that has read nothing, and refuses parcels whose payload is longer than `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            limit,
            stream: Stream::Unknown,
        }
    }

    /// Takes bytes that have arrived. Take all events before the next call: then the buffer holds
    /// less than one parcel and the bytes of one call.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
            if self.buffer.is_empty() && self.buffer.capacity() > KEPT {
                self.buffer = Vec::new();
            }
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The bytes that have arrived and are part of nothing complete yet.
    pub fn waiting(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Whether the stream is V11's; none before four bytes have arrived.
    pub const fn is_protobuf(&self) -> Option<bool> {
        match self.stream {
            Stream::Unknown => None,
            Stream::Protobuf { .. } => Some(true),
            Stream::Gob { .. } => Some(false),
        }
    }

    /// From here on parcels are in this version: what the handshakes agreed to. It changes nothing in
    /// a V11 stream.
    pub const fn speak(&mut self, agreed: Version) {
        if let Stream::Gob { version, .. } = &mut self.stream {
            *version = Some(agreed);
        }
    }

    /// The next handshake or parcel, or none before more bytes arrive.
    ///
    /// # Errors
    /// The bytes are no parcel; nothing more can be read from this link.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator cannot lend its buffer"
    )]
    pub fn next(&mut self) -> Result<Option<Event<'_>>, CodecError> {
        let Some(found) = self.find()? else {
            return Ok(None);
        };
        Ok(Some(match found {
            Found::Handshake(handshake) => Event::Handshake(handshake),
            Found::Parcel {
                kind,
                target,
                payload,
            } => {
                if payload.is_empty() {
                    return Err(CodecError::Empty(kind));
                }
                Event::Parcel(Parcel {
                    kind,
                    target: v9::text(&self.buffer[target])?,
                    payload: &self.buffer[payload],
                })
            }
        }))
    }

    fn find(&mut self) -> Result<Option<Found>, CodecError> {
        if matches!(self.stream, Stream::Unknown) && !self.detect() {
            return Ok(None);
        }
        match self.stream {
            Stream::Unknown => Ok(None),
            Stream::Protobuf { greeted } => self.find_protobuf(greeted),
            Stream::Gob { .. } => self.find_gob(),
        }
    }

    /// factom-p2p, controller_connections.go: what does not begin with V11's signature is gob.
    fn detect(&mut self) -> bool {
        let Some(first) = self.buffer[self.start..].first_chunk() else {
            return false;
        };
        if *first == v11::SIGNATURE {
            self.start += v11::SIGNATURE.len();
            self.stream = Stream::Protobuf { greeted: false };
        } else {
            self.stream = Stream::Gob {
                types: Types::default(),
                version: None,
            };
        }
        true
    }

    fn find_protobuf(&mut self, greeted: bool) -> Result<Option<Found>, CodecError> {
        let Some(prefix) = self.buffer[self.start..].first_chunk() else {
            return Ok(None);
        };
        let length = v11::length(*prefix);
        let Some(frame) = self.frame(v11::PREFIX, length, v11::HEADER)? else {
            return Ok(None);
        };
        let message = &self.buffer[frame.clone()];
        if !greeted {
            let handshake = v11::handshake(message)?;
            self.stream = Stream::Protobuf { greeted: true };
            return Ok(Some(Found::Handshake(handshake)));
        }
        let (kind, payload) = v11::parcel(message)?;
        let payload = place(&self.buffer, payload);
        Ok(Some(Found::Parcel {
            kind,
            target: 0..0,
            payload,
        }))
    }

    fn find_gob(&mut self) -> Result<Option<Found>, CodecError> {
        loop {
            let Some((length, prefix)) = gob::uint(&self.buffer[self.start..])? else {
                return Ok(None);
            };
            let Some(frame) = self.frame(prefix, length, GOB_HEADER)? else {
                return Ok(None);
            };
            let Stream::Gob { types, version } = &mut self.stream else {
                return Ok(None);
            };
            let Some(message) = types.read(&self.buffer[frame])? else {
                continue; // a declaration
            };
            return Ok(Some(match version {
                None => Found::Handshake(greeting(&message)?),
                Some(version) => gob_parcel(&self.buffer, *version, &message)?,
            }));
        }
    }

    /// The place of a frame's content, when all of it has arrived; then it is taken.
    fn frame(
        &mut self,
        prefix: usize,
        length: u64,
        header: usize,
    ) -> Result<Option<Range<usize>>, CodecError> {
        let longest = self.limit.saturating_add(header);
        let content = match usize::try_from(length) {
            Ok(content) if content <= longest => content,
            _ => {
                return Err(CodecError::TooLong {
                    length,
                    limit: self.limit,
                });
            }
        };
        let begin = self.start + prefix;
        if self.buffer.len() < begin + content {
            return Ok(None);
        }
        self.start = begin + content;
        Ok(Some(begin..begin + content))
    }
}

fn greeting(message: &gob::Message<'_>) -> Result<Handshake, CodecError> {
    if !message.has_header {
        return Err(CodecError::Gob("a stream that begins without a handshake"));
    }
    v9::handshake(message)
}

fn gob_parcel(
    buffer: &[u8],
    version: Version,
    message: &gob::Message<'_>,
) -> Result<Found, CodecError> {
    if message.has_header != (version == Version::V9) {
        return Err(CodecError::Gob("a parcel of another version"));
    }
    let kind = ParcelKind::from_code(message.kind).ok_or(CodecError::UnknownKind(message.kind))?;
    if message.has_header {
        v9::check(message)?;
    }
    Ok(Found::Parcel {
        kind,
        target: place(buffer, message.target),
        payload: place(buffer, message.payload),
    })
}

/// Where in `buffer` a part of it lies; nowhere for an empty one.
fn place(buffer: &[u8], part: &[u8]) -> Range<usize> {
    if part.is_empty() {
        return 0..0;
    }
    let start = part.as_ptr().addr() - buffer.as_ptr().addr();
    start..start + part.len()
}
