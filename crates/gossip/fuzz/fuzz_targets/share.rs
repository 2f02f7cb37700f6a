//! A list of endpoints that is read is written and read again as the same list.
#![no_main]

use gossip::{
    Version,
    codec::{decode_share, encode_share},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    for version in [Version::V9, Version::V10, Version::V11] {
        if let Ok(share) = decode_share(version, input) {
            let again = encode_share(version, 7, &share);
            assert_eq!(decode_share(version, &again), Ok(share));
        }
    }
});
