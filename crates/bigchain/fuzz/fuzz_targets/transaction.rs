//! Any body gets a verdict; one that is given its right id gets further.
#![no_main]

use bigchain::json::{Value, parse};
use bigchain::{Id, MemoryLedger, Transaction};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut body) = parse(bytes) else { return };
    if let Value::Object(object) = &mut body {
        let id = Id::of(object);
        object.insert("id", id.to_string());
    }
    if let Ok(transaction) = Transaction::from_value(body) {
        let _ = transaction.validate(&MemoryLedger::default());
        assert!(Transaction::from_text(transaction.text().as_bytes()).is_ok());
    }
});
