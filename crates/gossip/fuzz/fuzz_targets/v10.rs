//! Streams of V10.
#![no_main]

use gossip::Version;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<u8>, u16, bool)| gossip_fuzz::stream(Version::V10, input));
