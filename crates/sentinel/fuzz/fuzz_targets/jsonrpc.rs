//! What is taken apart fits together again: elements lie in the body, and an id is JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::calls::{Call, Classified, JsonLimits, classify, classify_message};

const LIMITS: JsonLimits = JsonLimits {
    depth: 64,
    batch: 10,
};

fn check(call: &Call<'_>) {
    match call {
        Call::Write { id, .. } | Call::Read { id, .. } => {
            let id = id.as_str();
            assert!(id.starts_with('"') && id.ends_with('"') || id.parse::<i64>().is_ok());
        }
        Call::Notification => {}
    }
}

fuzz_target!(|bytes: &[u8]| {
    match classify(bytes, &LIMITS) {
        Ok(Classified::One(call)) => {
            check(&call);
            // What a POST takes, a WebSocket takes in the same way.
            let message = classify_message(bytes, &LIMITS).expect("no deeper than before");
            assert_eq!(message, Classified::One(call));
        }
        Ok(Classified::Batch(elements)) => {
            assert!(elements.len() <= LIMITS.batch);
            for element in &elements {
                check(&element.call);
                let alone = classify_message(element.raw, &LIMITS).expect("no deeper than before");
                assert!(matches!(alone, Classified::One(call) if call == element.call));
            }
        }
        Ok(Classified::Unparsable) | Err(_) => {}
    }
    let _ = classify_message(bytes, &LIMITS);
});
