//! What encoding and decoding costs, measured on some of the messages of the run.

use std::time::Instant;

use gossip::codec::{Decoder, Encoder};
use gossip::{Handshake, Identity, Parcel, ParcelKind, Version};

use crate::control::CodecTime;

/// A link of its own that leads nowhere.
pub(super) struct CodecTimer {
    encoder: Encoder,
    decoder: Decoder,
    bytes: Vec<u8>,
    seen: u64,
}

impl CodecTimer {
    pub(super) fn new(version: Version, identity: Identity, max_parcel: usize) -> Self {
        let mut timer = Self {
            encoder: Encoder::new(version, identity),
            decoder: Decoder::new(max_parcel),
            bytes: Vec::new(),
            seen: 0,
        };
        let handshake = Handshake {
            kind: ParcelKind::Handshake,
            identity,
            version,
            nonce: 1,
            alternatives: Vec::new(),
            features: 0,
        };
        timer.encoder.handshake(&handshake, &mut timer.bytes);
        timer.decoder.push(&timer.bytes);
        // Our own handshake is well-formed; were it not, every time below would be that of an error.
        let _ = timer.decoder.next();
        timer.decoder.speak(version);
        timer
    }

    /// Times one in [`ONE_IN`] messages.
    pub(super) fn message(&mut self, message: &[u8], time: &mut CodecTime) {
        self.seen += 1;
        if !self.seen.is_multiple_of(ONE_IN) {
            return;
        }
        let parcel = Parcel {
            kind: ParcelKind::Message,
            target: "<BROADCAST>",
            payload: message,
        };
        self.bytes.clear();
        let start = Instant::now();
        self.encoder.parcel(&parcel, &mut self.bytes);
        let encoded = Instant::now();
        self.decoder.push(&self.bytes);
        let is_whole = matches!(self.decoder.next(), Ok(Some(_)));
        let decoded = Instant::now();
        if is_whole {
            time.parcels += 1;
            time.encode_ns += (encoded - start).as_nanos() as u64;
            time.decode_ns += (decoded - encoded).as_nanos() as u64;
        }
    }
}

/// Two looks at the clock cost as much as the coding itself.
const ONE_IN: u64 = 256;
