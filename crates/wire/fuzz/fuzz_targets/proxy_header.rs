//! Reading as much as is asked for never reads past the header, and ends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::proxy::{MAX_HEADER_BYTES, ProxyHeader, read_proxy_header};

fuzz_target!(|bytes: &[u8]| {
    let mut taken = 0;
    let end = loop {
        match read_proxy_header(&bytes[..taken]) {
            Ok(ProxyHeader::More(more)) => {
                assert!(more > 0);
                taken += more;
                assert!(taken <= MAX_HEADER_BYTES);
                if taken > bytes.len() {
                    break None;
                }
            }
            end => break Some(end),
        }
    };
    // What follows changes nothing.
    if let Some(Ok(header)) = end {
        assert_eq!(read_proxy_header(bytes), Ok(header));
    }
});
