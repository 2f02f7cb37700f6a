//! Any bytes are JSON or refused; what is read comes back from every text, and the routes of the
//! schema agree on it.
#![no_main]

use std::sync::LazyLock;

use bigchain::json::{canonical, default_text, parse};
use bigchain::schema::{JsonSchema, accepts, explain};
use libfuzzer_sys::fuzz_target;

static SCHEMA: LazyLock<JsonSchema> = LazyLock::new(JsonSchema::new);

fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = parse(bytes) else { return };
    let text = canonical(&value);
    for text in [&text, &default_text(&value)] {
        let again = parse(text.as_bytes()).expect("what was written can be read");
        assert_eq!(canonical(&again), canonical(&value));
    }
    let accepted = accepts(&value);
    assert_eq!(SCHEMA.accepts(&value), accepted);
    assert_eq!(explain(&value).is_none(), accepted);
});
