//! Any text is a condition URI, a fulfillment, a key, or refused.
#![no_main]

use bigchain::{Condition, Fulfillment, Id, PublicKey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(read) = Condition::from_uri(text) {
        assert_eq!(Condition::from_uri(&read.to_string()), Ok(read));
    }
    let _ = Fulfillment::from_uri(text);
    if let Ok(key) = text.parse::<PublicKey>() {
        assert_eq!(key.to_string(), text);
    }
    if let Ok(id) = text.parse::<Id>() {
        assert_eq!(id.to_string(), text);
    }
});
