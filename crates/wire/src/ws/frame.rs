//! The frames of both ends of a WebSocket (RFC 6455, section 5).

use super::WsError;

/// A further fragment of a message.
pub const CONTINUATION: u8 = 0;
/// A text message.
pub const TEXT: u8 = 1;
/// A message of bytes.
pub const BINARY: u8 = 2;
/// The end of the connection; this opcode and those above are control frames.
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

/// Which end of a connection writes a frame. Clients mask their frames, servers do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The end that opened the connection.
    Client,
    /// The end that accepted it.
    Server,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// The kind of the frame.
    pub opcode: u8,
    /// Whether the message ends with it.
    pub fin: bool,
    /// Bytes of the head.
    pub len: usize,
    /// Bytes of the payload.
    pub payload: usize,
    /// What the payload is masked with; zeros in a server's frame.
    pub key: [u8; 4],
}

impl FrameHead {
    /// Reads the head at the start of `bytes`. The inner `Err` holds the number of bytes that an incomplete head
    /// needs.
    ///
    /// Payload lengths need not be written in the fewest bytes, although RFC 6455, section 5.2,
    /// says so: CometBFT's server accepts them, and it is the stream's only reader.
    ///
    /// # Errors
    /// [`WsError::Protocol`] for reserved bits, a wrong mask bit and malformed control frames.
    #[inline]
    pub fn parse(bytes: &[u8], writer: Writer) -> Result<Result<Self, usize>, WsError> {
        let Some(([first, second], rest)) = bytes.split_first_chunk::<2>() else {
            return Ok(Err(2));
        };
        if first & RESERVED != 0 {
            return Err(WsError::Protocol(
                "a reserved bit is set, and no extension was agreed on",
            ));
        }
        let key_len = match (writer, second & MASKED != 0) {
            (Writer::Client, true) => 4,
            (Writer::Server, false) => 0,
            (Writer::Client, false) => return Err(WsError::Protocol("a frame is not masked")),
            (Writer::Server, true) => {
                return Err(WsError::Protocol("a frame from the server is masked"));
            }
        };
        let (opcode, fin, short) = (first & OPCODE, first & FIN != 0, second & !MASKED);
        if opcode >= CLOSE && (usize::from(short) > MAX_CONTROL || !fin) {
            return Err(WsError::Protocol(
                "a control frame is too long or in fragments",
            ));
        }
        let (extended, payload) = match short {
            126 => match rest.first_chunk() {
                Some(len) => (2, u64::from(u16::from_be_bytes(*len))),
                None => return Ok(Err(4 + key_len)),
            },
            127 => match rest.first_chunk() {
                Some(len) => (8, u64::from_be_bytes(*len)),
                None => return Ok(Err(10 + key_len)),
            },
            len => (0, u64::from(len)),
        };
        if payload >> 63 != 0 {
            return Err(WsError::Protocol("a length has its first bit set"));
        }
        let len = 2 + extended + key_len;
        let key = match writer {
            Writer::Server => [0; 4],
            Writer::Client => match rest.get(extended..).and_then(<[u8]>::first_chunk) {
                Some(key) => *key,
                None => return Ok(Err(len)),
            },
        };
        Ok(Ok(Self {
            opcode,
            fin,
            len,
            // A length beyond any bound stays beyond it, and adding the head cannot overflow.
            payload: usize::try_from(payload)
                .unwrap_or(usize::MAX)
                .min(usize::MAX / 2),
            key,
        }))
    }

    /// Whether it is a close, a ping or a pong, or an opcode kept for further ones.
    pub const fn is_control(&self) -> bool {
        self.opcode >= CLOSE
    }
}

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

/// Masking keys. They keep hostile scripts in browsers from choosing the bytes on the wire (RFC
/// 6455, section 10.3). No such script uses this crate, so a small generator that the caller
/// seeds once is enough.
#[derive(Clone, Debug)]
pub struct MaskKeys(u64);

impl MaskKeys {
    /// Keys from a seed, which should differ from connection to connection.
    pub const fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// The next 64 bits (xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift
    /// generators, scrambled", 2016).
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// The key of the next frame.
    #[inline]
    pub const fn key(&mut self) -> [u8; 4] {
        ((self.bits() >> 32) as u32).to_le_bytes()
    }
}

/// Appends a client's frame whose payload of exactly `len` bytes is what `write` appends.
#[inline]
pub fn write_masked(
    out: &mut Vec<u8>,
    opcode: u8,
    key: [u8; 4],
    len: usize,
    write: impl FnOnce(&mut Vec<u8>),
) {
    write_head(out, opcode, len, Some(key));
    let start = out.len();
    write(out);
    debug_assert_eq!(
        out.len() - start,
        len,
        "the frame's head states the payload's length"
    );
    mask(&mut out[start..], key);
}

/// Appends a text message.
pub fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    write_text_head(out, text.len());
    out.extend_from_slice(text);
}

/// Appends the head of a text message of `len` bytes, which the caller appends.
pub fn write_text_head(out: &mut Vec<u8>, len: usize) {
    write_head(out, TEXT, len, None);
}

/// Appends an empty ping.
pub fn write_ping(out: &mut Vec<u8>) {
    write_head(out, PING, 0, None);
}

/// Appends the answer to a ping with that payload.
pub fn write_pong(out: &mut Vec<u8>, payload: &[u8]) {
    write_control(out, PONG, payload);
}

/// Appends a close frame; what is too long of the reason is left out.
pub fn write_close(out: &mut Vec<u8>, code: u16, reason: &str) {
    let mut room = (MAX_CONTROL - 2).min(reason.len());
    while !reason.is_char_boundary(room) {
        room -= 1;
    }
    let payload = [&code.to_be_bytes(), &reason.as_bytes()[..room]].concat();
    write_control(out, CLOSE, &payload);
}

fn write_control(out: &mut Vec<u8>, opcode: u8, payload: &[u8]) {
    let payload = &payload[..payload.len().min(MAX_CONTROL)];
    write_head(out, opcode, payload.len(), None);
    out.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_differ() {
        let mut keys = MaskKeys::new(7);
        let keys: std::collections::HashSet<_> = (0..1000).map(|_| keys.key()).collect();
        assert!(keys.len() > 990);
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

        #[test]
        fn frames_state_their_length(
            len in prop_oneof![0_usize..300, 65_500_usize..65_600],
            key: [u8; 4],
        ) {
            let mut out = Vec::new();
            write_masked(&mut out, TEXT, key, len, |out| out.resize(out.len() + len, 0));
            let head = FrameHead::parse(&out, Writer::Client).unwrap().unwrap();
            prop_assert_eq!((head.payload, head.len + len), (len, out.len()));
            prop_assert!(head.fin && head.opcode == TEXT && head.key == key);
            // The same as a server writes it.
            out.clear();
            write_head(&mut out, TEXT, len, None);
            let head = FrameHead::parse(&out, Writer::Server).unwrap().unwrap();
            prop_assert_eq!((head.payload, head.len), (len, out.len()));
        }
    }

    #[test]
    fn frames_are_as_the_rfc_shows_them() {
        let mut out = Vec::new();
        write_text(&mut out, b"Hello");
        write_pong(&mut out, b"Hello");
        write_ping(&mut out);
        write_close(&mut out, 1000, "");
        assert_eq!(out, b"\x81\x05Hello\x8a\x05Hello\x89\x00\x88\x02\x03\xe8");
        out.clear();
        write_text_head(&mut out, 256);
        write_text_head(&mut out, 65536);
        assert_eq!(out, b"\x81\x7e\x01\x00\x81\x7f\0\0\0\0\0\x01\0\0");
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let mut out = Vec::new();
        write_close(&mut out, 1008, &"é".repeat(100));
        assert_eq!(out.len(), 2 + 2 + 122);
        assert!(std::str::from_utf8(&out[4..]).is_ok());
    }
}
