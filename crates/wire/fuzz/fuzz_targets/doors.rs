//! A plain path asks for what its detours ask for, a broadcast is a part of its body, and no deadline comes early.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::doors::{
    DoorRoute, GrpcWeb, decode_pieces, grpc_broadcast, grpc_timeout, plain_path, read_grpc_timeout,
    rest_broadcast, route,
};
use wire::json;

fuzz_target!(|bytes: &[u8]| {
    let mut lines = bytes.splitn(2, |byte| *byte == b'\n');
    let (path, rest) = (
        lines.next().unwrap_or_default(),
        lines.next().unwrap_or_default(),
    );
    if let Ok(path) = std::str::from_utf8(path) {
        let plain = plain_path(path);
        // What was an escaped percent sign is read once, as Go's routers do.
        if !plain.contains('%') {
            assert_eq!(plain_path(&plain), plain);
            assert_eq!(route(true, path, rest), route(true, &plain, rest));
        }
        if route(true, path, rest) == DoorRoute::GrpcWrite {
            assert!(rest.starts_with(b"application/grpc"));
        }
    }
    if GrpcWeb::of(rest).is_some() {
        assert!(rest.starts_with(b"application/grpc-web"));
    }
    if let Ok((_, tx)) = grpc_broadcast(bytes) {
        assert!(!tx.is_empty() && bytes.as_ptr_range().contains(&tx.as_ptr()));
    }
    if let Ok((_, tx)) = rest_broadcast(bytes) {
        assert!(!tx.is_empty() && json::check(bytes).is_ok());
    }
    if let Some(left) = read_grpc_timeout(bytes) {
        let again =
            read_grpc_timeout(grpc_timeout(left).as_bytes()).expect("what is written is read");
        assert!(again >= left);
    }
    if let Some(decoded) = decode_pieces(bytes) {
        assert!(decoded.len() <= bytes.len() / 4 * 3);
    }
});
