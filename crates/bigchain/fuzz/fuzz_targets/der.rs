//! Any bytes are a fulfillment or refused; strict mode reads only what is written the same.
#![no_main]

use bigchain::{Condition, Fulfillment, Mode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(read) = Fulfillment::from_der(bytes, Mode::Strict) {
        assert_eq!(read.to_der(), bytes);
    }
    if let Ok(read) = Condition::from_der(bytes, Mode::Strict) {
        assert_eq!(read.to_der(), bytes);
    }
    if let Ok(read) = Fulfillment::from_der(bytes, Mode::Compatible) {
        let again = Fulfillment::from_der(&read.to_der(), Mode::Strict);
        assert_eq!(
            again.expect("what was written can be read").condition(),
            read.condition()
        );
        let _ = read.verify(b"message");
    }
    let _ = Condition::from_der(bytes, Mode::Compatible);
});
