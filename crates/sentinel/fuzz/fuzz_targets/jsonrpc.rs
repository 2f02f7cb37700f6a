//! What is taken apart fits together again: elements lie in the body, what the node executes is JSON, and so is an id.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::calls::{Call, Classified, JsonLimits, classify, classify_message};
use wire::json;

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
            assert!(json::check(bytes).is_ok());
            // What a POST takes, a WebSocket takes in the same way.
            let message = classify_message(bytes, &LIMITS).expect("no deeper than before");
            assert_eq!(message, Classified::One(call));
        }
        Ok(Classified::Batch(elements)) => {
            assert!(elements.len() <= LIMITS.batch);
            for element in &elements {
                check(&element.call);
                assert_eq!(json::check(element.raw), Ok(element.raw));
                let alone = classify_message(element.raw, &LIMITS).expect("no deeper than before");
                assert!(matches!(alone, Classified::One(call) if call == element.call));
            }
        }
        Ok(Classified::Unparsable) | Err(_) => {}
    }
    if let Ok(Classified::One(call)) = classify_message(bytes, &LIMITS) {
        check(&call);
        assert!(json::first(bytes).is_ok());
    }
});
