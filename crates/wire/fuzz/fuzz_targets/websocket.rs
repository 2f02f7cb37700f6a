//! A stream of frames means the same however it is cut, and messages keep their bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::ws::{Event, FrameReader, Step, WsError, WsLimits};

const LIMITS: WsLimits = WsLimits {
    message: 512,
    fragments: 4,
};

fn read(mut reader: FrameReader, bytes: &[u8], cut: usize) -> (Vec<String>, Option<WsError>) {
    let (mut buffer, mut events) = (Vec::new(), Vec::new());
    for piece in [&bytes[..cut], &bytes[cut..]] {
        buffer.extend_from_slice(piece);
        let mut at = 0;
        loop {
            match reader.next(&mut buffer[at..]) {
                Ok(Step::Event { used, event }) => {
                    match &event {
                        Event::Text(message) | Event::Binary(message) => {
                            assert!(message.len() <= LIMITS.message);
                        }
                        // RFC 6455, section 5.5.
                        Event::Ping(payload) => assert!(payload.len() <= 125),
                        Event::Close { reason, .. } => assert!(reason.len() <= 123),
                        Event::Fragment | Event::Pong => {}
                    }
                    events.push(format!("{event:?}"));
                    at += used;
                }
                Ok(Step::Incomplete { needed }) => {
                    assert!(needed > buffer.len() - at);
                    break;
                }
                Err(error) => return (events, Some(error)),
            }
        }
        buffer.drain(..at);
    }
    (events, None)
}

fuzz_target!(|input: (Vec<u8>, u16)| {
    let (bytes, cut) = input;
    let cut = usize::from(cut).min(bytes.len());
    for reader in [FrameReader::new, FrameReader::of_server] {
        assert_eq!(
            read(reader(LIMITS), &bytes, 0),
            read(reader(LIMITS), &bytes, cut)
        );
    }
});
