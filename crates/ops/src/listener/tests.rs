//! The listener through real sockets.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Bounds, serve};
use crate::page;

struct Served {
    address: SocketAddr,
    shutdown: CancellationToken,
    serving: JoinHandle<()>,
}

const PATIENT: Bounds = Bounds {
    connections: 8,
    header: Duration::from_secs(60),
    life: Duration::from_secs(60),
    posts: &["/order"],
};

async fn serve_with(bounds: Bounds) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let pages = |request: &hyper::Request<hyper::body::Incoming>| match request.uri().path() {
        "/metrics" => page::metrics("sentinel 1\n".repeat(4_000)),
        "/order" | "/healthz" => page::text(StatusCode::OK, "healthy\n".into()),
        _ => page::not_found("/metrics\n"),
    };
    Served {
        address,
        shutdown: shutdown.clone(),
        serving: tokio::spawn(serve(listener, bounds, pages, shutdown)),
    }
}

impl Served {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The whole answer to a request of this method, target and further header lines.
    async fn ask(&self, method: &str, target: &str, headers: &str) -> String {
        let mut stream = self.connect().await;
        let request =
            format!("{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        rest(&mut stream).await
    }

    async fn get(&self, target: &str) -> (u16, String) {
        let answer = self.ask("GET", target, "").await;
        let status = answer[9..12].parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
        (status, body)
    }
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn nothing_can_be_changed_but_by_post_where_that_is_named() {
    let served = serve_with(PATIENT).await;
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let answer = served.ask(method, "/metrics", "").await;
        assert!(answer.starts_with("HTTP/1.1 405 "), "{method}: {answer}");
        assert!(answer.contains("allow: GET, HEAD\r\n"), "{answer}");
    }
    for method in ["GET", "HEAD", "PUT", "DELETE"] {
        let answer = served.ask(method, "/order", "").await;
        assert!(answer.starts_with("HTTP/1.1 405 "), "{method}: {answer}");
        assert!(answer.contains("allow: POST\r\n"), "{answer}");
    }
    let order = served.ask("POST", "/order", "").await;
    assert!(order.starts_with("HTTP/1.1 200 "), "{order}");
    let head = served.ask("HEAD", "/healthz", "").await;
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    assert_eq!(served.get("/nothing").await.0, 404);
}

#[tokio::test]
async fn a_slow_head_and_an_idle_connection_are_cut_off() {
    let served = serve_with(Bounds {
        header: Duration::from_millis(50),
        ..PATIENT
    })
    .await;
    let mut slow = served.connect().await;
    slow.write_all(b"GET /metrics HTTP/1.1\r\nHost:")
        .await
        .unwrap();
    rest(&mut slow).await;
    let mut silent = served.connect().await;
    assert_eq!(rest(&mut silent).await, "");
    let mut idle = served.connect().await;
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    assert!(rest(&mut idle).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_cut_off() {
    let served = serve_with(Bounds {
        connections: 1,
        life: Duration::from_millis(100),
        ..PATIENT
    })
    .await;
    let mut greedy = served.connect().await;
    let request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(500);
    // It may be cut off while it still writes.
    let _ = greedy.write_all(request.as_bytes()).await;
    // The only place is free again, so the next one is served.
    assert_eq!(served.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn connections_past_the_limit_wait_for_a_place() {
    let served = serve_with(Bounds {
        connections: 2,
        ..PATIENT
    })
    .await;
    let first = served.connect().await;
    let mut second = served.connect().await;
    let ask = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    second.write_all(ask).await.unwrap();
    let mut byte = [0];
    second.read_exact(&mut byte).await.unwrap();
    let waiting = served.get("/healthz");
    tokio::pin!(waiting);
    // Both places are taken for as long as nobody leaves.
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("a third place"),
        () = tokio::task::yield_now() => {}
    }
    drop(first);
    assert_eq!(waiting.await.0, 200);
}

#[tokio::test]
async fn the_end_closes_idle_connections_and_the_listener() {
    let served = serve_with(PATIENT).await;
    let mut kept = served.connect().await;
    kept.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let mut byte = [0];
    kept.read_exact(&mut byte).await.unwrap();
    served.shutdown.cancel();
    served.serving.await.unwrap();
    rest(&mut kept).await;
    assert!(TcpStream::connect(served.address).await.is_err());
}

#[tokio::test]
async fn what_is_no_http_does_no_harm() {
    let served = serve_with(PATIENT).await;
    for garbage in ["\0\0\0\0\r\n\r\n", "GET\r\n\r\n", "GET /x HTTP/9.9\r\n\r\n"] {
        let mut stream = served.connect().await;
        stream.write_all(garbage.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        rest(&mut stream).await;
    }
    let long = format!("X: {}\r\n", "x".repeat(64 << 10));
    let mut stream = served.connect().await;
    let _ = stream
        .write_all(format!("GET / HTTP/1.1\r\n{long}\r\n").as_bytes())
        .await;
    let mut taken = Vec::new();
    // The connection may be reset, since not everything was read.
    let _ = stream.read_to_end(&mut taken).await;
    assert!(!taken.starts_with(b"HTTP/1.1 200"));
    assert_eq!(served.get("/healthz").await.0, 200);
}
