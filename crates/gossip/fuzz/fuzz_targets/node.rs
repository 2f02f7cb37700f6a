//! A node survives whatever two peers send it, and its counters add up.
#![no_main]

use gossip::{Node, Origin, Output, PeerId, Settings};
use libfuzzer_sys::fuzz_target;
use pacing::Nanos;

fuzz_target!(|input: (Vec<(bool, Vec<u8>, u16)>, bool)| {
    let (steps, announce) = input;
    let settings = Settings {
        announce,
        ..Settings::default()
    };
    let mut node = Node::new(settings, 1);
    let mut now = Nanos::ZERO;
    for peer in 0..2 {
        node.on_connected(now, PeerId(peer), Origin::Accepted("10.0.0.1".to_owned()));
    }
    for (which, bytes, wait_ms) in steps {
        node.on_bytes(now, PeerId(u64::from(which)), &bytes);
        now = now.saturating_add(Nanos::from_millis(u64::from(wait_ms)));
        if node.next_timeout() <= now {
            node.on_timeout(now);
        }
        while let Some(output) = node.poll_output() {
            if let Output::Write { peer, bytes, .. } = output {
                assert!(!bytes.is_empty());
                node.on_writable(now, peer);
            }
        }
    }
    let counts = node.counts();
    assert_eq!(counts.received, counts.first_seen + counts.duplicates);
});
