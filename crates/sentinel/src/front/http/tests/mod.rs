//! HTTP connections in memory: what comes back, when, and what it costs.

mod abuse;
mod batches;
mod encrypted;
mod keys;
mod lifecycle;
mod named;
mod pages;
mod proxied;
mod shadow;
mod sharing;
mod streams;
mod versions;
mod work;

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::front::testing::{Bench, Client, HANDSHAKE, answer_to, call, settle, sync};
use crate::refusal::{Reason, Refusal};
use crate::upstream::ReadAnswer;

#[tokio::test(start_paused = true)]
async fn a_write_gets_the_nodes_answer_and_the_connection_stays() {
    let bench = Bench::new();
    let mut client = bench.connect();
    for id in ["1", "\"a b\"", "-7"] {
        client.post(&sync(id, "a=1")).await;
        let (head, body) = client.answer().await;
        assert!(
            head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"),
            "{head}"
        );
        assert!(head.contains("\r\nX-Server-Time: "), "{head}");
        assert!(!head.contains("Connection"), "{head}");
        assert_eq!(body, answer_to(id, "a=1"));
    }
    assert_eq!(bench.fake.state().txs, ["a=1"; 3]);
    assert_eq!(
        bench.metric(
            r#"sentinel_requests_total{transport="post",lane="write",method_class="broadcast_sync",outcome="forwarded"}"#
        ),
        "3"
    );
    settle().await;
    assert_eq!(bench.shared.ledger.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_write_in_the_target_has_the_id_of_uris_and_a_status_for_errors() {
    let bench = Bench::new();
    let mut client = bench.connect();
    client.get("/broadcast_tx_commit?tx=\"a=1\"").await;
    assert_eq!(client.status().await, (200, answer_to("-1", "a=1")));
    bench.fake.state().refusal =
        Some(Refusal::new(Reason::QueueFull, "full").retry_after(Duration::from_millis(1_500)));
    client.get("/broadcast_tx_sync?tx=0x61").await;
    let (head, body) = client.answer().await;
    assert!(head.starts_with("HTTP/1.1 429 "), "{head}");
    assert!(head.contains("\r\nRetry-After: 2\r\n"), "{head}");
    assert!(
        body.contains(r#""id":-1,"error":{"code":-32603,"#),
        "{body}"
    );
    assert_eq!(
        bench.metric(r#"sentinel_rejected_total{reason="queue_full"}"#),
        "1"
    );
}

#[tokio::test(start_paused = true)]
async fn reads_are_forwarded_as_they_came_and_their_answers_as_they_are() {
    let bench = Bench::new();
    let mut client = bench.connect();
    client.post(&call("5", "status")).await;
    assert_eq!(client.status().await.0, 200);
    client.send("GET http://x/block?height=\"5\" HTTP/1.1\r\nHost: x\r\nConnection: X-Secret\r\nX-Secret: y\r\n\r\n").await;
    client.answer().await;
    let forwarded = bench.fake.state().forwarded.clone();
    assert_eq!(
        forwarded[0],
        ("POST".to_owned(), "/".to_owned(), call("5", "status"))
    );
    assert_eq!(forwarded[1].1, "/block?height=\"5\"");

    bench.will_answer(ReadAnswer::pieces(500, &["ab", "c"]));
    client.post("{").await;
    let (head, body) = client.answer().await;
    assert!(head.starts_with("HTTP/1.1 500 "), "{head}");
    assert!(head.contains("Transfer-Encoding: chunked\r\n"), "{head}");
    assert_eq!(body, "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n");
    // Without chunks the end of the connection is the end of the answer.
    bench.will_answer(ReadAnswer::pieces(200, &["ab", "c"]));
    client
        .send("GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        .await;
    assert!(client.rest().await.ends_with("\r\n\r\nabc"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_breaks_the_connection_off() {
    let bench = Bench::new();
    let mut client = bench.connect();
    bench.will_answer(ReadAnswer::pieces(200, &["", "x"]));
    client.post(&call("5", "status")).await;
    let (status, body) = client.status().await;
    assert_eq!(status, 503);
    assert!(body.contains("the node broke off"), "{body}");
    bench.will_answer(ReadAnswer::pieces(200, &["x", "", "y"]));
    client.post(&call("5", "status")).await;
    let rest = client.rest().await;
    assert!(rest.ends_with("1\r\nx\r\n"), "{rest}");
}

#[tokio::test(start_paused = true)]
async fn a_head_request_has_the_length_and_no_body() {
    let bench = Bench::new();
    let mut client = bench.connect();
    client
        .send("HEAD /status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await;
    let rest = client.rest().await;
    assert!(rest.contains("Content-Length: 10\r\n"), "{rest}");
    assert!(rest.ends_with("\r\n\r\n"), "{rest}");
}

#[tokio::test(start_paused = true)]
async fn the_reservation_of_a_write_lives_as_long_as_the_write() {
    let bench = Bench::new();
    bench.fake.state().hold = true;
    let mut client = bench.connect();
    client.post(&sync("1", "a=1")).await;
    settle().await;
    assert_eq!(
        bench.shared.ledger.used(),
        3 + super::super::backend::WRITE_OVERHEAD
    );
    bench.fake.release();
    assert_eq!(client.status().await.0, 200);
    settle().await;
    assert_eq!(bench.shared.ledger.used(), 0);
}
