//! Parcels and handshakes to bytes.

use super::{v9, v11};
use crate::parcel::{Handshake, Identity, Parcel, ParcelKind, Version};

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
