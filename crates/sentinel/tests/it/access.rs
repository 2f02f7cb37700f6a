//! The access log of a whole proxy.

use std::fs;
use std::net::SocketAddr;

use rpc::BroadcastMethod;
use serde_json::Value;
use testkit::free_port;
use tokio::net::TcpListener;

use crate::doors::{BROADCAST, call_with, local};
use crate::support::load::wait_for;
use crate::support::websocket::WebSocket;
use crate::support::{Node, Proxy, broadcast, runtime};

#[test]
fn each_request_has_one_line_whatever_becomes_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.jsonl");
    let node = Node::start();
    let proxy = Proxy::with(&node.url(), |config| {
        config.log.access = Some(path.display().to_string());
    });
    let http = proxy.http();
    let named = [("X-Request-Id", "r-1")];
    http.request("GET", "/status", &named, b"").unwrap();
    http.post("/", &broadcast(1, BroadcastMethod::Sync, b"a=1"))
        .unwrap();
    http.get("/unsafe_flush_mempool").unwrap();
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"health"},{"jsonrpc":"2.0","id":2,"method":"dial_seeds"}]"#;
    http.post("/", batch.as_bytes()).unwrap();
    let mut socket = WebSocket::connect(proxy.address);
    let call = |method: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":2,"method":"{method}","params":{{}}}}"#).into_bytes()
    };
    for text in [
        broadcast(1, BroadcastMethod::Sync, b"b=1"),
        call("status"),
        call("unsafe_flush_mempool"),
    ] {
        socket.send(&text);
        socket.text();
    }
    http.request("BAD", "/ /", &[], b"").ok();
    proxy.stop();
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let shown = |line: &Value| {
        ["class", "outcome", "reason", "id"]
            .map(|name| line[name].as_str().unwrap_or("").to_owned())
    };
    let shown: Vec<_> = lines.iter().map(shown).collect();
    let expected = [
        ["status", "forwarded", "", "r-1"],
        ["broadcast_sync", "forwarded", "", ""],
        ["other", "rejected", "method", ""],
        ["status", "forwarded", "", ""],
        ["other", "rejected", "method", ""],
        ["broadcast_sync", "forwarded", "", ""],
        ["status", "forwarded", "", ""],
        ["other", "rejected", "method", ""],
        ["", "rejected", "parse", ""],
    ];
    assert_eq!(shown, expected, "{text}");
    for line in &lines {
        assert_eq!(line["client"], "127.0.0.1", "{text}");
        assert!(
            line["took_ms"].is_f64() || line["reason"] == "parse",
            "{text}"
        );
    }
}

/// A call of gRPC that a server of gRPC refuses in its own words, and not for a reason of sentinel's, had no line.
#[test]
fn a_call_that_is_no_broadcast_has_a_line_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.jsonl");
    let (node, grpc) = (Node::start(), local(free_port()));
    let proxy = Proxy::with(&node.url(), |config| {
        config.log.access = Some(path.display().to_string());
        config.grpc.listen = Some(grpc);
    });
    let called = call_with(grpc, BROADCAST, b"\xff", ("te", "trailers"));
    assert_eq!(runtime().block_on(called).0, "3");
    let metrics = proxy.admin().get("/metrics").unwrap().text();
    proxy.stop();
    let line = fs::read_to_string(&path).unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    let shown = ["transport", "class", "outcome", "reason"];
    let shown = shown.map(|name| line[name].as_str().unwrap_or("").to_owned());
    assert_eq!(shown, ["grpc", "broadcast_sync", "rejected", ""]);
    assert!(metrics.contains("method_class=\"broadcast_sync\",outcome=\"rejected\"} 1\n"));
}

const READ: &str = "/cosmos.bank.v1beta1.Query/Params";

/// A call of gRPC to a node that takes connections and answers nothing ends so: its outcome is counted, and has a line.
/// What the call returns, as its connection to the node, lives until then.
#[track_caller]
fn ends_unanswered<T>(outcome: &str, call: impl AsyncFnOnce(SocketAddr, TcpListener) -> T) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.jsonl");
    let (node, grpc, runtime) = (Node::start(), local(free_port()), runtime());
    let silent = runtime.block_on(TcpListener::bind(local(0))).unwrap();
    let proxy = Proxy::with(&node.url(), |config| {
        config.log.access = Some(path.display().to_string());
        config.grpc.listen = Some(grpc);
        let behind = silent.local_addr().unwrap();
        config.grpc.node = vec![format!("http://{behind}").parse().unwrap()];
    });
    let _kept = runtime.block_on(call(grpc, silent));
    let counted = format!("method_class=\"other\",outcome=\"{outcome}\"}} 1\n");
    wait_for("the end of the call", || {
        let metrics = proxy.admin().get("/metrics").unwrap().text();
        metrics.contains(&counted)
    });
    proxy.stop();
    let line = fs::read_to_string(&path).unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    let shown = ["transport", "outcome"].map(|name| line[name].as_str().unwrap().to_owned());
    assert_eq!(shown, ["grpc", outcome]);
}

/// A call that its client gave up had none either.
#[test]
fn a_call_that_is_given_up_has_a_line_too() {
    ends_unanswered("cancelled", async |grpc, silent| {
        tokio::select! {
            answer = call_with(grpc, READ, b"", ("te", "trailers")) => panic!("{answer:?}"),
            reached = silent.accept() => reached.unwrap(),
        }
    });
}

#[test]
fn a_call_whose_time_is_over_has_a_line_too() {
    ends_unanswered("expired", async |grpc, _silent| {
        let called = call_with(grpc, READ, b"", ("grpc-timeout", "200m")).await;
        assert_eq!(called.0, "4");
    });
}
