//! Clients that others wrote work unchanged.

use std::path::Path;
use std::process::Command;

use testkit::{CometBft, CometOptions};

use crate::support::Proxy;

const SCRIPT: &str = include_str!("foreign/client.cjs");
/// The version the script is written for.
const PACKAGE: &str = "@cosmjs/tendermint-rpc@0.39.0";

/// Runs a program of Node.js in `folder` to its end; what it printed.
#[track_caller]
fn run(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap_or_else(|error| panic!("this test needs {program} (Node.js 20): {error}"));
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {arguments:?}:\n{out}\n{err}"
    );
    out
}

#[test]
#[ignore = "needs cometbft"]
fn a_javascript_client_works_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().to_str().unwrap();
    let install = [
        "install",
        "--no-audit",
        "--no-fund",
        "--prefix",
        prefix,
        PACKAGE,
    ];
    run(folder.path(), "npm", &install);
    std::fs::write(folder.path().join("client.cjs"), SCRIPT).unwrap();
    let node = CometBft::start(CometOptions::default()).unwrap();
    let proxy = Proxy::start(&node.rpc_url());
    let through = format!("http://{}", proxy.address);
    // What does not work on the node need not work here.
    for (url, name) in [(node.rpc_url(), "direct"), (through, "through")] {
        let said = run(folder.path(), "node", &["client.cjs", &url, name]);
        assert_eq!(said.trim(), "done", "{name}");
    }
    let accounts = proxy.stop();
    // Over HTTP and over the WebSocket: two syncs and the refused one, an async, a commit.
    assert_eq!((accounts.admitted, accounts.forwarded), (10, 10));
}
