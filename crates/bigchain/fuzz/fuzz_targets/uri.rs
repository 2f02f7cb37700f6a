//! Any text is a fulfillment, a key, or refused.
#![no_main]

use bigchain::{Fulfillment, Id, PublicKey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = Fulfillment::from_uri(text);
    if let Ok(key) = text.parse::<PublicKey>() {
        assert_eq!(key.to_string(), text);
    }
    if let Ok(id) = text.parse::<Id>() {
        assert_eq!(id.to_string(), text);
    }
});
