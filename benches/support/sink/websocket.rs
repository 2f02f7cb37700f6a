//! WebSocket: whole text frames in, whole text frames out.

use std::io;

use wire::http::{BodyLength, ResponseHead, Version};
use wire::ws::frame::{CLOSE, FrameHead, PING, TEXT, Writer, mask, write_head};
use wire::ws::{accept_key, write_pong};

use super::Step;
use super::message::{self, Request};

/// Appends the answer to an upgrade.
pub(super) fn upgrade(key: &str, out: &mut Vec<u8>) {
    ResponseHead::start(out, Version::Http11, 101)
        .field("Upgrade", b"websocket")
        .field("Connection", b"Upgrade")
        .field("Sec-WebSocket-Accept", accept_key(key).as_bytes())
        .finish(BodyLength::Nothing, true);
}

/// Answers one frame of the input; unmasks it in place.
pub(super) fn answer(input: &mut [u8], out: &mut Vec<u8>) -> io::Result<Step> {
    let Ok(head) = FrameHead::parse(input, Writer::Client).map_err(io::Error::other)? else {
        return Ok(Step::Incomplete);
    };
    let end = head.len + head.payload;
    let Some(payload) = input.get_mut(head.len..end) else {
        return Ok(Step::Incomplete);
    };
    match head.opcode {
        TEXT => {
            mask(payload, head.key);
            Ok(Step::answered(write_answer(payload, out), end))
        }
        PING => {
            mask(payload, head.key);
            write_pong(out, payload);
            Ok(Step::Skipped(end))
        }
        CLOSE => Err(io::ErrorKind::ConnectionAborted.into()),
        _ => Ok(Step::Skipped(end)),
    }
}

/// The length stands in the two-byte form, which every answer fits, so that it can be filled in
/// once the answer is made.
fn write_answer(payload: &[u8], out: &mut Vec<u8>) -> Request {
    write_head(out, TEXT, LONGEST_ANSWER, None);
    let start = out.len();
    let request = message::answer(payload, out);
    let len = (out.len() - start) as u16;
    out[start - 2..start].copy_from_slice(&len.to_be_bytes());
    request
}

/// The longest payload of the two-byte form.
const LONGEST_ANSWER: usize = 0xffff;

#[cfg(test)]
mod tests {
    use wire::ws::frame::write_masked;

    use super::*;

    fn masked(opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_masked(&mut out, opcode, [1, 2, 3, 4], payload.len(), |out| {
            out.extend_from_slice(payload);
        });
        out
    }

    #[test]
    fn a_ping_is_answered() {
        let mut frame = masked(PING, b"are you there");
        let length = frame.len();
        let mut out = Vec::new();
        assert_eq!(answer(&mut frame, &mut out).unwrap(), Step::Skipped(length));
        assert_eq!(out, [&[0x8a, 13], b"are you there".as_slice()].concat());
    }

    #[test]
    fn a_masked_frame_is_answered() {
        let text = br#"{"id":9,"method":"broadcast_tx_sync"}"#;
        let mut frame = masked(TEXT, text);
        let mut out = Vec::new();
        assert_eq!(
            answer(&mut frame.clone()[..10], &mut out).unwrap(),
            Step::Incomplete
        );
        let length = frame.len();
        assert_eq!(
            answer(&mut frame, &mut out).unwrap(),
            Step::Answered(length)
        );
        assert_eq!(
            usize::from(u16::from_be_bytes([out[2], out[3]])),
            out.len() - 4
        );
        assert!(String::from_utf8_lossy(&out[4..]).contains("\"id\":9"));
    }
}
