//! What both ends of a WebSocket need to frame messages (RFC 6455).

use sha1::{Digest, Sha1};

/// A fragment of a message that has begun.
pub const CONTINUATION: u8 = 0;
/// A text.
pub const TEXT: u8 = 1;
/// Bytes.
pub const BINARY: u8 = 2;
/// The end; this opcode and those above are control frames.
pub const CLOSE: u8 = 8;
/// Asks for a pong.
pub const PING: u8 = 9;
/// Answers a ping.
pub const PONG: u8 = 10;

/// In the first byte: the last frame of its message.
pub const FIN: u8 = 0x80;
/// In the first byte: bits of extensions.
pub const RESERVED: u8 = 0x70;
/// In the first byte: the opcode.
pub const OPCODE: u8 = 0x0f;
/// In the second byte: a key follows, and the payload is masked with it.
pub const MASKED: u8 = 0x80;

/// Longest payload of a control frame, in bytes.
pub const MAX_CONTROL: usize = 125;

/// Appends the head of an unfragmented frame with a payload of `len` bytes; with a key, which the
/// payload must be masked with, when a client writes it.
#[inline]
pub fn write_head(out: &mut Vec<u8>, opcode: u8, len: usize, key: Option<[u8; 4]>) {
    let masked = if key.is_some() { MASKED } else { 0 };
    let mut head = [0; 14];
    head[0] = FIN | opcode;
    let mut used = match len {
        0..=MAX_CONTROL => {
            head[1] = masked | len as u8;
            2
        }
        126..=0xffff => {
            head[1] = masked | 126;
            head[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            4
        }
        _ => {
            head[1] = masked | 127;
            head[2..10].copy_from_slice(&(len as u64).to_be_bytes());
            10
        }
    };
    if let Some(key) = key {
        head[used..used + 4].copy_from_slice(&key);
        used += 4;
    }
    out.extend_from_slice(&head[..used]);
}

/// XORs the key over the payload, eight bytes at a step; the same again undoes it.
#[inline]
pub fn mask(payload: &mut [u8], key: [u8; 4]) {
    let word = u64::from(u32::from_le_bytes(key)) * 0x1_0000_0001;
    let (words, rest) = payload.as_chunks_mut::<8>();
    for bytes in words {
        *bytes = (u64::from_le_bytes(*bytes) ^ word).to_le_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(word.to_le_bytes()) {
        *byte ^= key;
    }
}

/// The `Sec-WebSocket-Accept` that a server answers to a `Sec-WebSocket-Key`.
pub fn accept_key(key: &str) -> String {
    let digest = Sha1::new().chain_update(key).chain_update(GUID).finalize();
    base64_simd::STANDARD.encode_to_string(digest)
}

/// RFC 6455, section 1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_the_rfc() {
        assert_eq!(
            accept_key("dGhlIHNhbXBsZSBub25jZQ=="),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }

    proptest! {
        #[test]
        fn masking_is_what_the_rfc_says(payload: Vec<u8>, key: [u8; 4]) {
            let mut masked = payload.clone();
            mask(&mut masked, key);
            let expected: Vec<u8> =
                payload.iter().enumerate().map(|(at, byte)| byte ^ key[at % 4]).collect();
            prop_assert_eq!(masked, expected);
        }
    }
}
