//! The head of a Bitcoin node's message means the same however much of the stream is there, and announces no more
//! than the limit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::p2p::{HEAD_BYTES, Head};

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
const LIMIT: usize = 4096;

fuzz_target!(|input: (Vec<u8>, bool, u8)| {
    let (rest, is_ours, cut) = input;
    let mut bytes = if is_ours { MAGIC.to_vec() } else { Vec::new() };
    bytes.extend(rest);
    let whole = Head::read(&bytes, MAGIC, LIMIT);
    let cut = usize::from(cut).min(bytes.len());
    match Head::read(&bytes[..cut], MAGIC, LIMIT) {
        Ok(None) => assert!(cut < HEAD_BYTES),
        early => assert_eq!(early, whole),
    }
    if let Ok(Some(head)) = whole {
        assert!((HEAD_BYTES..=HEAD_BYTES + LIMIT).contains(&head.bytes));
        assert!(head.command().len() <= 12);
    }
});
