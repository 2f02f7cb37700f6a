//! The head of a response means the same however it arrives, and its parts lie inside it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::http::ReplyReader;

// Heads within the limit, so that a first part is never too large by itself.
const LIMIT: usize = 1 << 20;

fuzz_target!(|input: (Vec<u8>, u16)| {
    let (bytes, cut) = input;
    let cut = usize::from(cut).min(bytes.len());
    let whole = ReplyReader::default().read(&bytes, LIMIT);
    let mut reader = ReplyReader::default();
    let pieces = match reader.read(&bytes[..cut], LIMIT) {
        Ok(None) => reader.read(&bytes, LIMIT),
        done => done,
    };
    if let Ok(Some(head)) = whole {
        assert_eq!(pieces, whole);
        assert!(head.len <= bytes.len());
        assert!(head.reason(&bytes).len() <= head.len);
        assert!(head.fields(&bytes).iter().count() <= head.len);
    }
});
