//! Any bytes are JSON or refused; what is read comes back from every text, and the schema admits it or not.
#![no_main]

use bigchain::json::{canonical, default_text, parse};
use bigchain::schema::accepts;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = parse(bytes) else { return };
    let text = canonical(&value);
    for text in [&text, &default_text(&value)] {
        let again = parse(text.as_bytes()).expect("what was written can be read");
        assert_eq!(canonical(&again), canonical(&value));
    }
    let _ = accepts(&value);
});
