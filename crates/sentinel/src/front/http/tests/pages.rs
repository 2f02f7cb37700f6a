//! Writes of web pages of other origins.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::front::testing::{Bench, Client, answer_to, sync};
use crate::refusal::{Reason, Refusal};
use crate::upstream::ReadAnswer;

const ALLOWED: &str = "\r\nAccess-Control-Allow-Origin: https://a.example\r\n";

async fn post(client: &mut Client, origin: &str, body: &str) {
    let headers = format!("Origin: {origin}\r\n");
    client.post_to("/", &headers, body).await;
}

/// The node's next answer, with what lets a page of this origin read it.
fn allow(bench: &Bench, origin: &str) {
    let mut answer = ReadAnswer::whole(204, "");
    answer.headers = vec![
        (
            "Vary".into(),
            "Origin, Access-Control-Request-Method".into(),
        ),
        ("Access-Control-Allow-Methods".into(), "POST".into()),
        (
            "Access-Control-Allow-Origin".into(),
            origin.to_owned().into(),
        ),
    ];
    bench.will_answer(answer);
}

#[tokio::test(start_paused = true)]
async fn sharing_72_a_write_of_a_web_page_is_a_write_like_any_other() {
    let bench = Bench::new();
    let mut client = bench.connect();
    allow(&bench, "https://a.example");
    for number in ["1", "2", "3"] {
        post(&mut client, "https://a.example", &sync(number, "a=1")).await;
        let (head, body) = client.answer().await;
        assert!(head.contains(ALLOWED), "{head}");
        assert!(head.contains("\r\nVary: Origin\r\n"), "{head}");
        assert!(!head.contains("Allow-Methods"), "{head}");
        assert_eq!(body, answer_to(number, "a=1"));
    }
    // At d833505 each was forwarded by itself, as what only the node can answer. Now the node is
    // asked once what the page may read.
    assert_eq!(bench.fake.state().txs, ["a=1"; 3]);
    let forwarded = bench.fake.state().forwarded.clone();
    assert_eq!(forwarded.len(), 1);
    assert_eq!(forwarded[0].0, "OPTIONS");
    // Another page is not this one, and who is no page gets no such header.
    post(&mut client, "https://b.example", &sync("4", "a=1")).await;
    assert!(!client.answer().await.0.contains("Access-Control"));
    client.post(&sync("5", "a=1")).await;
    assert!(!client.answer().await.0.contains("Access-Control"));
}

/// At 2b52556 the answer to sentinel's own question was dropped, and with it a connection to the node.
#[tokio::test(start_paused = true)]
async fn case_90_what_the_node_says_to_a_question_about_a_page_is_read_to_its_end() {
    let bench = Bench::new();
    let mut client = bench.connect();
    let answer = ReadAnswer::pieces(200, &["no", "thing"]);
    let looks = Arc::clone(&answer.body.1);
    bench.will_answer(answer);
    post(&mut client, "https://a.example", &sync("1", "a=1")).await;
    client.answer().await;
    assert_eq!(looks.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn sharing_72_refusals_can_be_read_by_the_page_that_they_are_for() {
    let bench = Bench::new();
    let mut client = bench.connect();
    allow(&bench, "https://a.example");
    // The browser's own preflight request is answered by the node, and learnt from.
    client
        .send(
            "OPTIONS / HTTP/1.1\r\nHost: x\r\nOrigin: https://a.example\r\n\
             Access-Control-Request-Method: POST\r\n\r\n",
        )
        .await;
    let (head, _) = client.answer().await;
    assert!(
        head.starts_with("HTTP/1.1 204 ") && head.contains(ALLOWED),
        "{head}"
    );
    bench.fake.state().refusal = Some(Refusal::new(Reason::QueueFull, "full"));
    post(&mut client, "https://a.example", &sync("1", "a=1")).await;
    let (head, _) = client.answer().await;
    assert!(
        head.starts_with("HTTP/1.1 429 ") && head.contains(ALLOWED),
        "{head}"
    );
    let batch = format!("[{},{}]", sync("1", "a=1"), sync("2", "a=1"));
    post(&mut client, "https://a.example", &batch).await;
    assert!(client.answer().await.0.contains(ALLOWED));
    let refused = r#"{"jsonrpc":"2.0","id":1,"method":"unsafe_flush_mempool"}"#;
    post(&mut client, "https://a.example", refused).await;
    let (head, _) = client.answer().await;
    assert!(
        head.starts_with("HTTP/1.1 403 ") && head.contains(ALLOWED),
        "{head}"
    );
    // A read that is refused as well.
    let busy = Err(Refusal::new(Reason::Rate, "more reads than allowed"));
    bench.fake.state().answers.push_back(busy);
    let read = r#"{"jsonrpc":"2.0","id":1,"method":"status"}"#;
    post(&mut client, "https://a.example", read).await;
    let (head, _) = client.answer().await;
    assert!(
        head.starts_with("HTTP/1.1 429 ") && head.contains(ALLOWED),
        "{head}"
    );
    assert_eq!(bench.fake.state().forwarded.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn sharing_72_a_node_that_serves_no_pages_is_not_outbid() {
    let bench = Bench::new();
    let mut client = bench.connect();
    post(&mut client, "https://a.example", &sync("1", "a=1")).await;
    let (head, body) = client.answer().await;
    assert!(
        !head.contains("Access-Control") && !head.contains("Vary"),
        "{head}"
    );
    assert_eq!(body, answer_to("1", "a=1"));
    // Nor does a node that cannot be asked hold the write up.
    let gone = Err(Refusal::new(Reason::Upstream, "no node can be reached"));
    bench.fake.state().answers.push_back(gone);
    post(&mut client, "https://c.example", &sync("2", "a=1")).await;
    assert_eq!(client.answer().await.1, answer_to("2", "a=1"));
}
