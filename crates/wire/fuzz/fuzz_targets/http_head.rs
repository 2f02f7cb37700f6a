//! A head means the same however it arrives, and its parts lie inside it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::http::{HeadLimits, HeadReader};

const LIMITS: HeadLimits = HeadLimits {
    bytes: 4096,
    fields: 16,
    target: 256,
};

fuzz_target!(|input: (Vec<u8>, u16)| {
    let (bytes, cut) = input;
    let cut = usize::from(cut).min(bytes.len());
    let whole = HeadReader::new().read(&bytes, &LIMITS);
    let mut reader = HeadReader::new();
    let early = reader.read(&bytes[..cut], &LIMITS);
    let pieces = match early {
        Ok(None) => reader.read(&bytes, &LIMITS),
        done => done,
    };
    // What is too large in all may have been refused for its first part already, and a first part
    // that ends in time may be followed by anything.
    if bytes.len() < LIMITS.bytes {
        assert_eq!(whole, pieces);
    }
    if let Ok(Some(head)) = whole {
        assert!(head.len <= bytes.len());
        let view = head.view(&bytes);
        assert!(view.end_to_end().count() <= view.fields().count());
        assert!(view.fields().count() <= LIMITS.fields);
    }
});
