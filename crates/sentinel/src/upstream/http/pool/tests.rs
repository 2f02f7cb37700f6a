//! Connections that are kept, opened, given up and handed on.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinHandle;

use super::super::testing::{dialer_to, options, request};
use super::*;

const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

/// A pool, and the node's end of its connections.
async fn pool() -> (Pool, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dialer = dialer_to(&format!("http://{}", listener.local_addr().unwrap()));
    (Pool::new(dialer, "", options()).unwrap(), listener)
}

async fn accept(listener: &TcpListener) -> TcpStream {
    listener.accept().await.unwrap().0
}

type Asked = JoinHandle<Result<Response<PooledBody>, UpstreamError>>;

fn ask(pool: &Pool, repeat: Repeat) -> Asked {
    let pool = pool.clone();
    tokio::spawn(async move { pool.send(&request(repeat)).await })
}

/// The body of an answer, read to its end.
async fn body(asked: Asked) -> Vec<u8> {
    let mut answer = asked.await.unwrap().unwrap().into_body();
    let mut body = Vec::new();
    while let Some(piece) = answer.next().await {
        body.extend_from_slice(&piece.unwrap());
    }
    body
}

/// Reads one request at the node's end.
async fn read_request(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// Answers one request at the node's end.
async fn serve(stream: &mut TcpStream) {
    read_request(stream).await;
    stream.write_all(ANSWER.as_bytes()).await.unwrap();
}

/// A pool with one kept connection.
async fn kept() -> (Pool, TcpListener, TcpStream) {
    let (pool, listener) = pool().await;
    let first = ask(&pool, Repeat::Always);
    let mut stream = accept(&listener).await;
    serve(&mut stream).await;
    assert_eq!(body(first).await, b"{}");
    (pool, listener, stream)
}

#[tokio::test]
async fn a_kept_connection_is_used_again() {
    let (pool, _listener, mut stream) = kept().await;
    let second = ask(&pool, Repeat::Always);
    serve(&mut stream).await;
    assert_eq!(body(second).await, b"{}");
}

/// A node that serves so many connections and counts them. It answers about its health at once, and everything else when
/// so many others wait.
fn serve_all(listener: TcpListener, most: usize, together: usize) -> Arc<AtomicUsize> {
    let served = Arc::new(AtomicUsize::new(0));
    let (counted, together) = (served.clone(), Arc::new(Barrier::new(together)));
    tokio::spawn(async move {
        for _ in 0..most {
            let mut stream = accept(&listener).await;
            counted.fetch_add(1, Ordering::Relaxed);
            let together = together.clone();
            tokio::spawn(async move {
                loop {
                    if !read_request(&mut stream).await.starts_with("GET /health ") {
                        together.wait().await;
                    }
                    stream.write_all(ANSWER.as_bytes()).await.unwrap();
                }
            });
        }
        // What else connects stays in its backlog.
        pending::<()>().await;
    });
    served
}

async fn ask_at_once(pool: &Pool, count: usize) {
    let asked: Vec<Asked> = (0..count).map(|_| ask(pool, Repeat::Always)).collect();
    for asked in asked {
        assert_eq!(body(asked).await, b"{}");
    }
}

/// Of those in use at once 32 were kept, so that 512 WebSockets that asked once a second closed 96 connections at the
/// node each time.
#[tokio::test]
async fn as_many_connections_are_kept_as_were_in_use_at_once() {
    let (pool, listener) = pool().await;
    let served = serve_all(listener, 1_000, 100);
    for _ in 0..3 {
        ask_at_once(&pool, 100).await;
        assert_eq!(served.load(Ordering::Relaxed), 100);
    }
}

/// Each of the others had a connection of its own that nothing read, until its time was over.
#[tokio::test]
async fn resources_112_a_node_that_serves_few_connections_answers_all_requests() {
    for most in [1, 2, 7] {
        let (pool, listener) = pool().await;
        serve_all(listener, most, 1);
        ask_at_once(&pool, 50).await;
    }
}

#[tokio::test]
async fn a_node_that_closes_each_connection_after_its_answer_answers_all_requests() {
    let (pool, listener) = pool().await;
    tokio::spawn(async move {
        loop {
            let mut stream = accept(&listener).await;
            tokio::spawn(async move { serve(&mut stream).await });
        }
    });
    for _ in 0..20 {
        ask_at_once(&pool, 50).await;
    }
}

#[tokio::test]
async fn a_place_is_given_to_others_at_once_or_after_the_answer_under_way() {
    for in_use in [false, true] {
        let (pool, _listener, mut stream) = kept().await;
        let asked = in_use.then(|| ask(&pool, Repeat::Always));
        if let Some(asked) = asked {
            read_request(&mut stream).await;
            pool.give_way();
            stream.write_all(ANSWER.as_bytes()).await.unwrap();
            assert_eq!(body(asked).await, b"{}");
        } else {
            pool.give_way();
        }
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn connections_are_opened_again_after_a_node_ended_under_all_of_them() {
    let (pool, listener) = pool().await;
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        let mut streams = Vec::new();
        for _ in 0..3 {
            streams.push(accept(&listener).await);
        }
        drop(listener);
    });
    let asked: Vec<Asked> = (0..20).map(|_| ask(&pool, Repeat::Always)).collect();
    served.await.unwrap();
    for asked in asked {
        asked.await.unwrap().unwrap_err();
    }
    let served = serve_all(TcpListener::bind(address).await.unwrap(), 20, 20);
    ask_at_once(&pool, 20).await;
    assert_eq!(served.load(Ordering::Relaxed), 20);
}

#[tokio::test]
async fn the_second_attempt_goes_over_a_new_connection_and_is_the_last() {
    for is_answered in [true, false] {
        let (pool, listener, mut stream) = kept().await;
        let second = ask(&pool, Repeat::Always);
        read_request(&mut stream).await;
        drop(stream);
        let mut stream = accept(&listener).await;
        if is_answered {
            serve(&mut stream).await;
            assert_eq!(body(second).await, b"{}");
        } else {
            read_request(&mut stream).await;
            drop(stream);
            let failed = second.await.unwrap().map(|_| ()).unwrap_err();
            assert!(matches!(failed, UpstreamError::Broken(..)), "{failed:?}");
        }
    }
}

#[tokio::test]
async fn what_may_have_been_written_is_not_written_twice_unless_its_caller_says_so() {
    let (pool, _listener, mut stream) = kept().await;
    let second = ask(&pool, Repeat::IfUnwritten);
    read_request(&mut stream).await;
    drop(stream);
    let failed = second.await.unwrap().map(|_| ()).unwrap_err();
    assert!(matches!(failed, UpstreamError::Broken(..)), "{failed:?}");
}

#[tokio::test]
async fn an_answer_that_nobody_takes_closes_its_connection() {
    let (pool, listener) = pool().await;
    let asked = ask(&pool, Repeat::Always);
    let mut stream = accept(&listener).await;
    read_request(&mut stream).await;
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{";
    stream.write_all(half.as_bytes()).await.unwrap();
    drop(asked.await.unwrap().unwrap());
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    // So does a request that is given up before its answer begins.
    let asked = ask(&pool, Repeat::Always);
    let mut stream = accept(&listener).await;
    read_request(&mut stream).await;
    asked.abort();
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}
