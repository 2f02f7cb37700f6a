//! Whatever is JSON comes apart without a panic, and its strings survive being written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::json::{self, Kind};
use wire::jsonrpc::{PlainBroadcast, Request};

fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = json::first(bytes) else {
        assert!(json::check(bytes).is_err() && broadcast(bytes).is_none());
        return;
    };
    match Kind::of(value) {
        Kind::Array => assert!(json::elements(value).all(|element| json::check(element).is_ok())),
        Kind::Object => assert!(json::members(value).all(|(_, value)| json::check(value).is_ok())),
        Kind::String => {
            let (text, mut out) = (json::unquote(value), Vec::new());
            json::quote(&mut out, &text);
            assert_eq!(json::unquote(&out), text);
        }
        _ => {}
    }
    let request = Request::decode(value);
    if let Some(found) = broadcast(bytes) {
        let request = request.expect("a broadcast is a request");
        assert_eq!(Some(found.id), request.id);
        assert_eq!(found.method.name(), request.method.as_ref());
    } else if let Err(fault) = request {
        assert!(!fault.to_string().is_empty());
    }
});

/// A broadcast at the start of a text, if its transaction is base64.
fn broadcast(text: &[u8]) -> Option<PlainBroadcast<'_>> {
    let (found, _) = PlainBroadcast::first(text)?;
    found.transaction().map(|_| found)
}
