//! BigchainDB's own Python driver against `txgen devnode --app bigchaindb`.

use std::process::Command;

use crate::support::{Place, wait_until};

/// The Python of `.ci/bigchaindb-driver`.
const PYTHON: &str = "BIGCHAINDB_DRIVER_PYTHON";

#[test]
#[ignore = "needs bigchaindb_driver"]
fn the_python_driver_creates_transfers_fetches_and_listens() {
    let python = std::env::var(PYTHON).unwrap_or_else(|_| {
        panic!("set {PYTHON} to what .ci/bigchaindb-driver prints");
    });
    let place = Place::new();
    let node = place.start(
        "devnode --app bigchaindb --listen 127.0.0.1:0 --api 127.0.0.1:0 --events 127.0.0.1:0 \
         --set block_interval=50ms",
    );
    // The last line that it prints.
    wait_until("the node listens", || {
        let out = node.out_so_far();
        out.contains("events ") && out.ends_with('\n')
    });
    let out = node.out_so_far();
    let url = |name: &str| {
        let line = out.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/driver/flow.py");
    let flow = Command::new(python)
        .args([script, &url("api"), &url("events")])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&flow.stdout);
    let error = String::from_utf8_lossy(&flow.stderr);
    assert!(flow.status.success(), "{text}\n{error}");
    assert_eq!(text.trim(), "ok");
}
