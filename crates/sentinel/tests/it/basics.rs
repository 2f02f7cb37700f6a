//! Every kind of request gets its answer.

use rpc::BroadcastMethod;

use crate::support::{Node, Proxy, broadcast};

#[test]
fn writes_and_reads_are_answered_by_the_node() {
    let node = Node::start();
    let proxy = Proxy::start(&node.url());
    let http = proxy.http();
    let sync = http
        .post("/", &broadcast(7, BroadcastMethod::Sync, b"a=1"))
        .unwrap();
    assert_eq!(sync.status, 200);
    assert!(
        sync.text()
            .starts_with(r#"{"jsonrpc":"2.0","id":7,"result":{"code":0,"#),
        "{}",
        sync.text()
    );
    let done = http
        .post("/", &broadcast(8, BroadcastMethod::Commit, b"b=2"))
        .unwrap();
    assert!(done.text().contains(r#""height":""#), "{}", done.text());
    assert!(!done.text().contains(r#""height":"0""#), "{}", done.text());
    let ack = http
        .post("/", &broadcast(9, BroadcastMethod::Async, b"c=3"))
        .unwrap();
    assert!(ack.text().contains(r#""hash":""#), "{}", ack.text());
    let status = http.get("/status").unwrap();
    assert!(
        status.text().contains("latest_block_height"),
        "{}",
        status.text()
    );
    let uri = http.get("/broadcast_tx_sync?tx=\"d=4\"").unwrap();
    assert!(
        uri.text().contains(r#""id":-1,"result":{"code":0"#),
        "{}",
        uri.text()
    );
    let accounts = proxy.stop();
    assert_eq!(accounts.admitted, 4);
    assert_eq!(accounts.forwarded, 4);
}

#[test]
fn explain_70_while_no_node_takes_writes_the_operator_is_told_so() {
    let proxy = Proxy::start("http://127.0.0.1:1");
    let asked = proxy
        .admin()
        .request("GET", "/explain?ip=127.0.0.1", &[], b"");
    let told = asked.unwrap().text();
    // At d833505: "limited by nothing", and a wait of some milliseconds.
    assert!(told.contains("no node takes writes"), "{told}");
    assert!(told.contains(r#""estimated_wait_ms": null"#), "{told}");
    proxy.stop();
}
