//! WebSocket: whole text frames in, whole text frames out.

use std::io;

use super::{Step, message};

/// Appends the answer to an upgrade.
pub(super) fn upgrade(key: &[u8], out: &mut Vec<u8>) {
    let accept = tokio_tungstenite::tungstenite::handshake::derive_accept_key(key);
    out.extend_from_slice(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ");
    out.extend_from_slice(accept.as_bytes());
    out.extend_from_slice(b"\r\n\r\n");
}

/// Answers one frame of the input; unmasks it in place.
pub(super) fn answer(input: &mut [u8], out: &mut Vec<u8>) -> io::Result<Step> {
    let Some((start, length)) = frame(input) else {
        return Ok(Step::Incomplete);
    };
    let end = start + length;
    if input.len() < end {
        return Ok(Step::Incomplete);
    }
    let kind = input[0] & 0x0f;
    match kind {
        TEXT | PING => {}
        CLOSE => return Err(io::ErrorKind::ConnectionAborted.into()),
        _ => return Ok(Step::Skipped(end)),
    }
    let mask = [
        input[start - 4],
        input[start - 3],
        input[start - 2],
        input[start - 1],
    ];
    let payload = &mut input[start..end];
    for (byte, key) in payload.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
    }
    if kind == PING {
        // The length of a control frame is one byte, at most 125.
        out.extend_from_slice(&[0x80 | PONG, length as u8]);
        out.extend_from_slice(payload);
        return Ok(Step::Skipped(end));
    }
    // All answers fit the two-byte length form, which leaves four bytes of frame header.
    let header_at = out.len();
    out.extend_from_slice(&[0x80 | TEXT, LENGTH_16, 0, 0]);
    let request = message::answer(payload, out);
    let length = (out.len() - header_at - 4) as u16;
    out[header_at + 2..header_at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(Step::answered(request, end))
}

/// Where the payload of the first frame begins and how long it is; clients always mask.
fn frame(input: &[u8]) -> Option<(usize, usize)> {
    let short = usize::from(input.get(1)? & 0x7f);
    match short {
        126 => {
            let bytes = input.get(2..4)?.try_into().ok()?;
            Some((8, usize::from(u16::from_be_bytes(bytes))))
        }
        127 => {
            let bytes = input.get(2..10)?.try_into().ok()?;
            Some((14, usize::try_from(u64::from_be_bytes(bytes)).ok()?))
        }
        short => Some((6, short)),
    }
}

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const LENGTH_16: u8 = 126;

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(kind: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let mut frame = vec![0x80 | kind, 0x80 | payload.len() as u8];
        frame.extend_from_slice(&mask);
        frame.extend(
            payload
                .iter()
                .zip(mask.iter().cycle())
                .map(|(byte, key)| byte ^ key),
        );
        frame
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
