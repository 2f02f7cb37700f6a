//! V11: a length of four bytes, then a protobuf message (factom-p2p, protocolV11.proto).

use wire::proto::{Fields, Malformed, Value, number, varint};

use super::CodecError;
use crate::parcel::{Handshake, Identity, Parcel, ParcelKind};

/// What a V11 stream begins with.
pub(super) const SIGNATURE: [u8; 4] = *b"pbuf";
/// What a message may have beside its payload, in bytes: tags, lengths, a handshake.
pub(super) const HEADER: usize = 4 << 10;
/// The bytes of a length.
pub(super) const PREFIX: usize = 4;

pub(super) fn put_parcel(out: &mut Vec<u8>, parcel: &Parcel<'_>) {
    framed(out, |out| {
        number(out, 1, u64::from(parcel.kind.code()));
        put_bytes(out, 2, parcel.payload);
    });
}

pub(super) fn put_handshake(out: &mut Vec<u8>, handshake: &Handshake) {
    out.extend_from_slice(&SIGNATURE);
    framed(out, |out| {
        number(out, 1, u64::from(handshake.kind.code()));
        number(out, 2, u64::from(handshake.identity.network));
        number(out, 3, u64::from(handshake.version.number()));
        number(out, 4, u64::from(handshake.identity.node_id));
        let port = handshake.identity.listen_port.to_string();
        put_bytes(out, 5, port.as_bytes());
        number(out, 6, handshake.nonce);
        number(out, FEATURES, u64::from(handshake.features));
    });
}

/// Our own field of the handshake; factom-p2p skips fields that it does not know.
const FEATURES: u8 = 15;

/// A message behind its length, which is written last.
fn framed(out: &mut Vec<u8>, message: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX]);
    message(out);
    let length = out.len() - start - PREFIX;
    // A payload is at most 128 MiB, its message a few bytes more.
    out[start..start + PREFIX].copy_from_slice(&(length as u32).to_be_bytes());
}

/// A parcel's kind and its payload.
pub(super) fn parcel(message: &[u8]) -> Result<(ParcelKind, &[u8]), CodecError> {
    let (mut code, mut payload) = (0, &[][..]);
    for field in Fields::of(message, "a parcel") {
        match field? {
            (1, Value::Number(number)) => code = number,
            (2, Value::Bytes(bytes)) => payload = bytes,
            (1 | 2, _) => return Err(CodecError::Protobuf("a field of another type")),
            _ => {}
        }
    }
    let kind = ParcelKind::from_code(code).ok_or(CodecError::UnknownKind(code))?;
    Ok((kind, payload))
}

pub(super) fn handshake(message: &[u8]) -> Result<Handshake, CodecError> {
    let (mut numbers, mut port) = ([0; 16], "");
    for field in Fields::of(message, "a handshake") {
        match field? {
            (number @ (1..=4 | 6 | 15), Value::Number(value)) => numbers[number as usize] = value,
            (5, port_text) => port = port_text.text("the port of a handshake")?,
            // 7 is the list of endpoints of a refusal.
            (1..=6, _) => return Err(CodecError::Protobuf("a field of another type")),
            _ => {}
        }
    }
    let narrow = |number: u64| {
        u32::try_from(number).map_err(|_| CodecError::Protobuf("a number of more than 32 bits"))
    };
    Ok(Handshake {
        kind: ParcelKind::from_code(numbers[1]).ok_or(CodecError::UnknownKind(numbers[1]))?,
        identity: Identity {
            network: narrow(numbers[2])?,
            node_id: narrow(numbers[4])?,
            listen_port: super::v9::port(port)?,
        },
        version: super::v9::version(numbers[3])?,
        nonce: numbers[6],
        // Whatever a stranger means by it, it is not ours.
        features: u32::try_from(numbers[usize::from(FEATURES)]).unwrap_or(0),
    })
}

/// Appends a bytes field, which is copied once whatever its length.
fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

impl From<Malformed> for CodecError {
    fn from(Malformed(what): Malformed) -> Self {
        Self::Protobuf(what)
    }
}

/// The length at the beginning of a frame.
pub(super) fn length(prefix: [u8; PREFIX]) -> u64 {
    u64::from(u32::from_be_bytes(prefix))
}
