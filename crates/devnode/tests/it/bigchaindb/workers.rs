//! The synchronous workers of the original's HTTP server.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use devnode::Validation;

use super::client::{api, config};
use crate::support::{Running, start};

async fn one_worker() -> Running {
    let mut config = config(Validation::Parallel);
    config.bigchaindb.server_workers = 1;
    start(config).await
}

/// The first connection never sends anything, so the second is not even accepted; each query of the
/// RPC below is a chance to answer it, were there another worker.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_silent_connection_blocks_a_worker_until_it_is_closed() {
    let running = one_worker().await;
    let address = running.node.api_address().unwrap();
    let silent = TcpStream::connect(address).unwrap();
    while running.node.snapshot().open_connections == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut asking = TcpStream::connect(address).unwrap();
    asking
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    for _ in 0..20 {
        running.get("/status").await;
    }
    asking.set_nonblocking(true).unwrap();
    let unanswered = asking.read(&mut [0; 1]).unwrap_err();
    assert_eq!(unanswered.kind(), std::io::ErrorKind::WouldBlock);
    drop(silent);
    asking.set_nonblocking(false).unwrap();
    let mut answer = String::new();
    asking.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_worker_serves_one_connection_after_the_other() {
    let running = one_worker().await;
    for _ in 0..3 {
        assert_eq!(api(&running, "GET", "/api/v1/", b"").await.status, 200);
    }
    assert_eq!(running.node.snapshot().connections, 3);
    running.stop().await;
}
