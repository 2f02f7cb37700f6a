//! Parcels and handshakes as bytes, in the three forms of the wire.
//!
//! An [`Encoder`] and a [`Decoder`] belong to one direction of one link: the gob streams of V9 and
//! V10 declare their types once.

mod decoder;
mod gob;
mod v11;
mod v9;

pub use self::decoder::{Decoder, Event};

use crate::parcel::{Handshake, Identity, Parcel, ParcelKind, Version};

/// Why bytes are no parcel; the link that they came from is of no further use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// It is not read, whatever follows.
    #[error("a parcel of {length} bytes is longer than the limit of {limit} bytes")]
    TooLong {
        /// What the peer announced, in bytes.
        length: u64,
        /// What this node accepts, in bytes.
        limit: usize,
    },
    /// The gob stream is malformed, or declares what no parcel has.
    #[error("the gob stream is malformed: {0}")]
    Gob(&'static str),
    /// The protobuf message is malformed.
    #[error("the protobuf message is malformed: {0}")]
    Protobuf(&'static str),
    /// There are ten types, 0 to 9.
    #[error("parcel type {0} is unknown")]
    UnknownKind(u64),
    /// Every parcel has a payload.
    #[error("a parcel of type {} has no payload", .0.code())]
    Empty(ParcelKind),
    /// V9 states the payload's length in its header.
    #[error("the header announces {announced} bytes of payload, but there are {actual}")]
    Length {
        /// From the header.
        announced: u64,
        /// The payload's.
        actual: usize,
    },
    /// V9 states the payload's CRC-32 in its header.
    #[error("the header's checksum is {announced:08x}, the payload's {actual:08x}")]
    Checksum {
        /// From the header.
        announced: u32,
        /// The payload's.
        actual: u32,
    },
    /// 9, 10 and 11 are known.
    #[error("protocol version {0} is unknown; this node speaks 9, 10 and 11")]
    UnknownVersion(u64),
    /// A handshake names the sender's port.
    #[error("the handshake's port {0:?} is not a number of 1 to 65535")]
    Port(String),
}

/// One direction of a link, as its sender sees it.
///
/// A gob stream declares a type once, so an encoder lives as long as its link: the dialler's, which
/// has written a handshake, goes on after the peer has chosen the version ([`Encoder::speak`]).
#[derive(Debug)]
pub struct Encoder {
    version: Version,
    identity: Identity,
    port: String,
    /// Whether V9's types are declared, and V10's.
    declared: [bool; 2],
    /// Scratch space for V9's header.
    header: Vec<u8>,
}

impl Encoder {
    /// A link that has written nothing.
    pub fn new(version: Version, identity: Identity) -> Self {
        Self {
            version,
            identity,
            port: identity.listen_port.to_string(),
            declared: [false; 2],
            header: Vec::new(),
        }
    }

    /// The version of the parcels to come.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// From here on in this version: what the peer's handshake agreed to.
    pub const fn speak(&mut self, version: Version) {
        self.version = version;
    }

    /// Appends the handshake. In V9 it is a peer request, unless it refuses.
    pub fn handshake(&mut self, handshake: &Handshake, out: &mut Vec<u8>) {
        if self.version == Version::V11 {
            return v11::put_handshake(out, handshake);
        }
        let kind = match (self.version, handshake.kind) {
            (Version::V9, ParcelKind::Handshake) => ParcelKind::PeerRequest,
            (_, kind) => kind,
        };
        // The nonce with its lowest byte first.
        let payload = handshake.nonce.to_le_bytes();
        self.message(handshake.version, &Parcel::new(kind, &payload), out);
    }

    /// Appends the parcel, whose payload is not empty.
    pub fn parcel(&mut self, parcel: &Parcel<'_>, out: &mut Vec<u8>) {
        match self.version {
            Version::V9 => self.message(Version::V9, parcel, out),
            Version::V10 => {
                self.declare(1, v9::SLIM_TYPE, out);
                v9::put_slim(out, parcel);
            }
            Version::V11 => v11::put_parcel(out, parcel),
        }
    }

    fn message(&mut self, version: Version, parcel: &Parcel<'_>, out: &mut Vec<u8>) {
        self.declare(0, v9::MESSAGE_TYPES, out);
        let sender = v9::Sender {
            identity: self.identity,
            port: &self.port,
            version,
        };
        v9::put_message(out, &mut self.header, &sender, parcel);
    }

    fn declare(&mut self, which: usize, declaration: &[u8], out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.declared[which], true) {
            out.extend_from_slice(declaration);
        }
    }
}
