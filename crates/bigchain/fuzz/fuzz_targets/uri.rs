//! Any text is a condition URI, a fulfillment, a key, or refused.
#![no_main]

use bigchain::{Condition, Fulfillment, Id, Mode, PublicKey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(read) = Condition::from_uri(text, Mode::Strict) {
        assert_eq!(read.to_string(), text);
    }
    if let Ok(read) = Condition::from_uri(text, Mode::Compatible) {
        assert_eq!(
            Condition::from_uri(&read.to_string(), Mode::Strict),
            Ok(read)
        );
    }
    if let Ok(read) = Fulfillment::from_uri(text, Mode::Strict) {
        assert_eq!(read.to_uri(), text);
    }
    if let Ok(key) = text.parse::<PublicKey>() {
        assert_eq!(key.to_string(), text);
    }
    if let Ok(id) = text.parse::<Id>() {
        assert_eq!(id.to_string(), text);
    }
});
