//! Any bytes are a fulfillment or refused; what is read can be written and read again.
#![no_main]

use bigchain::Fulfillment;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(read) = Fulfillment::from_der(bytes) {
        let again = Fulfillment::from_der(&read.to_der());
        assert_eq!(
            again.expect("what was written can be read").condition(),
            read.condition()
        );
        let _ = read.verify(b"message");
    }
});
