//! Frames of a server: not masked, one for each message.

use super::frame::{CLOSE, MAX_CONTROL, PING, PONG, TEXT, write_head};

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
