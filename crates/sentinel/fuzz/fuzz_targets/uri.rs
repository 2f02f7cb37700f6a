//! No spelling of a path that decodes to a broadcast is a read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::calls::{UriRoute, classify_uri};

fuzz_target!(|bytes: &[u8]| {
    let target = classify_uri(bytes);
    if target.method.contains("broadcast_tx_sync") {
        assert!(matches!(target.kind, UriRoute::Write { .. }));
    }
});
