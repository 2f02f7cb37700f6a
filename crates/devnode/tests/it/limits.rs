//! Bounds: of history, connections, subscriptions, and bodies.

use std::time::{Duration, Instant};

use devnode::{Config, DevNode, DevNodeError, RpcConfig};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use crate::{quick, start};

#[tokio::test(flavor = "multi_thread")]
async fn pruned_heights_are_answered_as_a_pruned_node_does() {
    let running = start(Config {
        retain_blocks: 3,
        ..quick()
    })
    .await;
    while running.node.snapshot().height < 10 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    running.node.faults().halt();
    let answer = running.get("/block?height=1").await;
    let snapshot = running.node.snapshot();
    let data = answer["error"]["data"].as_str().unwrap();
    assert!(
        data.starts_with("height 1 is not available, lowest height is "),
        "{data}"
    );
    assert_eq!(snapshot.height - snapshot.base, 2);
    let earliest =
        running.get("/status").await["result"]["sync_info"]["earliest_block_height"].to_string();
    assert!(earliest.trim_matches('"').parse::<u64>().unwrap() > 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_past_the_limit_wait_in_the_backlog() {
    let rpc = RpcConfig {
        max_open_connections: 1,
        ..RpcConfig::default()
    };
    let running = start(Config { rpc, ..quick() }).await;
    let request = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut first = TcpStream::connect(running.node.rpc_address())
        .await
        .unwrap();
    first.write_all(request).await.unwrap();
    let mut buffer = [0; 512];
    assert!(first.read(&mut buffer).await.unwrap() > 0);
    let mut second = TcpStream::connect(running.node.rpc_address())
        .await
        .unwrap();
    second.write_all(request).await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(200), second.read(&mut buffer)).await;
    assert!(early.is_err(), "the second connection is served too early");
    drop(first);
    assert!(second.read(&mut buffer).await.unwrap() > 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_are_closed() {
    let rpc = RpcConfig {
        idle_timeout: Duration::from_millis(200),
        ..RpcConfig::default()
    };
    let running = start(Config { rpc, ..quick() }).await;
    let begin = Instant::now();
    let mut stream = TcpStream::connect(running.node.rpc_address())
        .await
        .unwrap();
    assert_eq!(stream.read(&mut [0; 16]).await.unwrap(), 0);
    assert!(begin.elapsed() >= Duration::from_millis(190));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_answered_in_order() {
    let running = start(quick()).await;
    let mut stream = TcpStream::connect(running.node.rpc_address())
        .await
        .unwrap();
    let mut requests = String::new();
    for id in 0..3 {
        let body = format!(r#"{{"id":{id},"method":"health"}}"#);
        requests.push_str(&format!(
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
    }
    requests.push_str(
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
         c\r\n{\"id\":3,\"met\r\ne\r\nhod\":\"health\"}\r\n0\r\n\r\n",
    );
    stream.write_all(requests.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let places: Vec<usize> = (0..4)
        .map(|id| text.find(&format!("\"id\":{id},")).unwrap())
        .collect();
    assert!(places.is_sorted(), "{text}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_large_ends_the_websocket() {
    let rpc = RpcConfig {
        max_body_bytes: 1000,
        ..RpcConfig::default()
    };
    let running = start(Config { rpc, ..quick() }).await;
    let (mut socket, _) = tokio_tungstenite::connect_async(running.node.ws_url())
        .await
        .unwrap();
    socket.send(Message::text("x".repeat(2000))).await.unwrap();
    assert!(!matches!(socket.next().await, Some(Ok(Message::Text(_)))));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_call_ends_with_its_client() {
    let rpc = RpcConfig {
        max_subscription_clients: 1,
        ..RpcConfig::default()
    };
    let running = start(Config { rpc, ..quick() }).await;
    running.node.faults().halt();
    let mut stream = TcpStream::connect(running.node.rpc_address())
        .await
        .unwrap();
    stream
        .write_all(b"GET /broadcast_tx_commit?tx=\"a=1\" HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    while running.node.snapshot().mempool_txs == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let full = running.get("/broadcast_tx_commit?tx=\"b=1\"").await;
    assert_eq!(full["error"]["data"], "max_subscription_clients 1 reached");
    drop(stream);
    while running.node.snapshot().open_connections > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    running.node.faults().resume();
    assert_eq!(
        running.get("/broadcast_tx_commit?tx=\"c=1\"").await["result"]["check_tx"]["code"],
        0
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_is_named() {
    let running = start(quick()).await;
    let listen = running.node.rpc_address();
    let error = DevNode::bind(Config { listen, ..quick() })
        .await
        .err()
        .unwrap();
    assert!(matches!(&error, DevNodeError::Listen { address, .. } if *address == listen));
    assert!(error.to_string().contains("port 0"));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_handle_ends_the_worker() {
    let (node, worker) = DevNode::bind(quick()).await.unwrap();
    let worker = tokio::spawn(worker);
    drop(node);
    tokio::time::timeout(Duration::from_secs(5), worker)
        .await
        .unwrap()
        .unwrap();
}
