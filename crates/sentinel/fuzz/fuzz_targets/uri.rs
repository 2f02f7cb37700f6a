//! What decodes to a broadcast is a write, unless it is one by its exact name whose transaction the node refuses; and
//! nothing else is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::calls::{UriRoute, classify_uri};
use wire::jsonrpc::BroadcastMethod;

fuzz_target!(|bytes: &[u8]| {
    let target = classify_uri(bytes);
    let is_named = BroadcastMethod::of(target.method.as_bytes()).is_some();
    let has_name =
        (BroadcastMethod::ALL.iter()).any(|method| target.method.contains(method.name()));
    match target.kind {
        UriRoute::Write { method, tx } => {
            assert!(target.method.contains(method.name()));
            assert!(is_named || tx.is_none());
        }
        UriRoute::Read => assert!(is_named || !has_name),
        UriRoute::Root => assert!(target.method.is_empty()),
        UriRoute::WebSocket => assert_eq!(target.method, "websocket"),
    }
    // With a transaction that the node takes the exact name is a write as well.
    let path = bytes.split(|&byte| byte == b'?').next().unwrap_or(b"");
    let with_tx = [path, b"?tx=0x00"].concat();
    let taken = classify_uri(&with_tx);
    assert_eq!(taken.method, target.method);
    assert_eq!(matches!(taken.kind, UriRoute::Write { .. }), has_name);
});
