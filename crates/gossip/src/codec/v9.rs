//! V9 and V10: gob streams. Both begin with V9's message, which is the handshake.

use crc::{Algorithm, Crc, Table};

use super::{
    CodecError,
    gob::{Message, StructWriter, put_uint, uint_length},
};
use crate::parcel::{Handshake, Identity, Parcel, ParcelKind, Version};

/// CRC-32 with Koopman's polynomial, as Go's `crc32.Koopman` (factom-p2p, parcel.go).
static CHECKSUM: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&Algorithm {
    width: 32,
    // 0xEB31D82E with its bits in reverse: `crc` takes the polynomial unreflected.
    poly: 0x741b_8cd7,
    init: u32::MAX,
    refin: true,
    refout: true,
    xorout: u32::MAX,
    check: 0x2d3d_d0ae,
    residue: 0,
});

pub(super) fn checksum(bytes: &[u8]) -> u32 {
    CHECKSUM.checksum(bytes)
}

/// The declarations of `V9Msg` (type 64) and `V9Header` (type 65), as Go writes them.
pub(super) const MESSAGE_TYPES: &[u8] = b"\
\x2a\x7f\x03\x01\x01\x05V9Msg\x01\xff\x80\x00\x01\x02\x01\x06Header\x01\xff\x82\x00\
\x01\x07Payload\x01\x0a\x00\x00\x00\
\xff\xb5\xff\x81\x03\x01\x01\x08V9Header\x01\xff\x82\x00\x01\x0d\
\x01\x07Network\x01\x06\x00\x01\x07Version\x01\x06\x00\x01\x04Type\x01\x06\x00\
\x01\x06Length\x01\x06\x00\x01\x0aTargetPeer\x01\x0c\x00\x01\x05Crc32\x01\x06\x00\
\x01\x06PartNo\x01\x06\x00\x01\x0aPartsTotal\x01\x06\x00\x01\x06NodeID\x01\x06\x00\
\x01\x0bPeerAddress\x01\x0c\x00\x01\x08PeerPort\x01\x0c\x00\x01\x07AppHash\x01\x0c\x00\
\x01\x07AppType\x01\x0c\x00\x00\x00";

/// The declaration of `V10Msg` (type 66), as Go writes it.
pub(super) const SLIM_TYPE: &[u8] = b"\
\x29\xff\x83\x03\x01\x01\x06V10Msg\x01\xff\x84\x00\x01\x02\x01\x04Type\x01\x06\x00\
\x01\x07Payload\x01\x0a\x00\x00\x00";

const MESSAGE_ID: u64 = 128;
const SLIM_ID: u64 = 132;

/// The sender of a V9 message, as its header names it.
pub(super) struct Sender<'a> {
    pub(super) identity: Identity,
    /// The identity's listen port as text.
    pub(super) port: &'a str,
    pub(super) version: Version,
}

/// `header` is scratch space.
pub(super) fn put_message(
    out: &mut Vec<u8>,
    header: &mut Vec<u8>,
    sender: &Sender<'_>,
    parcel: &Parcel<'_>,
) {
    header.clear();
    let mut fields = StructWriter::new(header);
    fields.number(u64::from(sender.identity.network));
    fields.number(u64::from(sender.version.number()));
    fields.number(u64::from(parcel.kind.code()));
    fields.number(parcel.payload.len() as u64);
    fields.bytes(parcel.target.as_bytes());
    fields.number(u64::from(checksum(parcel.payload)));
    // PartNo and PartsTotal: parcels are never divided any more.
    fields.number(0);
    fields.number(0);
    fields.number(u64::from(sender.identity.node_id));
    // PeerAddress: the receiver knows it.
    fields.number(0);
    fields.bytes(sender.port.as_bytes());
    fields.bytes(b"NetworkMessage");
    fields.bytes(b"Network");
    fields.end();

    let length = header.len() + payload_length(parcel.payload);
    put_uint(out, (uint_length(MESSAGE_ID) + 1 + length + 1) as u64);
    put_uint(out, MESSAGE_ID);
    out.push(1);
    out.extend_from_slice(header);
    let mut fields = StructWriter::new(out);
    fields.bytes(parcel.payload);
    fields.end();
}

/// A V10 parcel: type and payload.
pub(super) fn put_slim(out: &mut Vec<u8>, parcel: &Parcel<'_>) {
    let kind = u64::from(parcel.kind.code());
    let kind_length = if kind == 0 { 0 } else { 2 };
    let length = uint_length(SLIM_ID) + kind_length + payload_length(parcel.payload) + 1;
    put_uint(out, length as u64);
    put_uint(out, SLIM_ID);
    let mut fields = StructWriter::new(out);
    fields.number(kind);
    fields.bytes(parcel.payload);
    fields.end();
}

/// The bytes of a payload with its delta and its length.
const fn payload_length(payload: &[u8]) -> usize {
    if payload.is_empty() {
        0
    } else {
        1 + uint_length(payload.len() as u64) + payload.len()
    }
}

pub(super) fn handshake(message: &Message<'_>) -> Result<Handshake, CodecError> {
    let kind = ParcelKind::from_code(message.kind).ok_or(CodecError::UnknownKind(message.kind))?;
    // A refusal may have a list of endpoints in its place.
    let nonce = <[u8; 8]>::try_from(message.payload).map_or(0, u64::from_le_bytes);
    Ok(Handshake {
        kind,
        identity: Identity {
            network: u32::try_from(message.network)
                .map_err(|_| CodecError::Gob("a network of more than 32 bits"))?,
            // As Go, which keeps the lower half.
            node_id: message.node_id as u32,
            listen_port: port(text(message.port)?)?,
        },
        version: version(message.version)?,
        nonce,
        features: 0,
    })
}

/// Checks the length and the checksum in V9's header.
pub(super) fn check(message: &Message<'_>) -> Result<(), CodecError> {
    if message.version != u64::from(Version::V9.number()) {
        return Err(CodecError::UnknownVersion(message.version));
    }
    if message.length != message.payload.len() as u64 {
        return Err(CodecError::Length {
            announced: message.length,
            actual: message.payload.len(),
        });
    }
    let actual = checksum(message.payload);
    match u32::try_from(message.crc32) {
        Ok(announced) if announced == actual => Ok(()),
        announced => Err(CodecError::Checksum {
            announced: announced.unwrap_or(u32::MAX),
            actual,
        }),
    }
}

pub(super) fn text(bytes: &[u8]) -> Result<&str, CodecError> {
    std::str::from_utf8(bytes).map_err(|_| CodecError::Gob("a text is not UTF-8"))
}

pub(super) fn port(text: &str) -> Result<u16, CodecError> {
    match text.parse() {
        Ok(port) if port != 0 => Ok(port),
        _ => Err(CodecError::Port(text.chars().take(16).collect())),
    }
}

pub(super) fn version(number: u64) -> Result<Version, CodecError> {
    u16::try_from(number)
        .ok()
        .and_then(Version::from_number)
        .ok_or(CodecError::UnknownVersion(number))
}
