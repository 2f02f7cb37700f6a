//! Parcels and handshakes as bytes, in the three forms of the wire.
//!
//! An [`Encoder`] and a [`Decoder`] belong to one direction of one link: the gob streams of V9 and
//! V10 declare their types once.

mod decoder;
mod encoder;
mod gob;
mod v11;
mod v9;

pub use self::{
    decoder::{Decoder, Event},
    encoder::Encoder,
};
use crate::parcel::ParcelKind;

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
