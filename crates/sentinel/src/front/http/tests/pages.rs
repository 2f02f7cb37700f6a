//! Writes of web pages of other origins.

use crate::front::testing::{Bench, Client, answer_to, sync};
use crate::refusal::{Reason, Refusal};

const ALLOWED: &str = "\r\nAccess-Control-Allow-Origin: https://a.example\r\n";

fn bench(origin: &str) -> Bench {
    Bench::with(|config| config.cors.origins = vec![origin.to_owned()])
}

async fn post(client: &mut Client, origin: &str, body: &str) -> (String, String) {
    let headers = format!("Origin: {origin}\r\n");
    client.post_to("/", &headers, body).await;
    client.answer().await
}

#[tokio::test(start_paused = true)]
async fn sharing_72_a_write_of_a_web_page_is_a_write_like_any_other() {
    let bench = bench("https://a.example");
    let mut client = bench.connect();
    for number in ["1", "2", "3"] {
        let (head, body) = post(&mut client, "https://a.example", &sync(number, "a=1")).await;
        assert!(head.contains(ALLOWED), "{head}");
        assert!(head.contains("\r\nVary: Origin\r\n"), "{head}");
        assert_eq!(body, answer_to(number, "a=1"));
    }
    // At d833505 each was forwarded by itself, as what only the node can answer.
    assert_eq!(bench.fake.state().txs, ["a=1"; 3]);
    assert!(bench.fake.state().forwarded.is_empty());
    // Another page is not this one, and a client that is no page gets no such header.
    let (head, _) = post(&mut client, "https://b.example", &sync("4", "a=1")).await;
    assert!(!head.contains("Access-Control"), "{head}");
    client.post(&sync("5", "a=1")).await;
    assert!(!client.answer().await.0.contains("Access-Control"));
}

#[tokio::test(start_paused = true)]
async fn sharing_72_refusals_can_be_read_by_the_page_that_they_are_for() {
    let bench = bench("https://a.example");
    let mut client = bench.connect();
    bench.fake.state().refusal = Some(Refusal::new(Reason::QueueFull, "full"));
    let batch = format!("[{},{}]", sync("1", "a=1"), sync("2", "a=1"));
    let unsafe_call = r#"{"jsonrpc":"2.0","id":1,"method":"unsafe_flush_mempool"}"#;
    let read = r#"{"jsonrpc":"2.0","id":1,"method":"status"}"#;
    let busy = Err(Refusal::new(Reason::Rate, "more reads than allowed"));
    bench.fake.state().answers.push_back(busy);
    for (body, status) in [
        (sync("1", "a=1").as_str(), 429),
        (&batch, 200),
        (unsafe_call, 403),
        (read, 429),
    ] {
        let (head, _) = post(&mut client, "https://a.example", body).await;
        let status = format!("HTTP/1.1 {status} ");
        assert!(
            head.starts_with(&status) && head.contains(ALLOWED),
            "{head}"
        );
    }
}

/// A page could not read why its request was not taken.
#[tokio::test(start_paused = true)]
async fn sharing_72_a_page_can_read_that_its_body_is_too_large() {
    let bench = Bench::with(|config| {
        config.cors.origins = vec!["https://a.example".to_owned()];
        config.limits.body_bytes = 1_000;
    });
    for (origin, may_read) in [("https://a.example", true), ("https://b.example", false)] {
        let (head, _) = post(&mut bench.connect(), origin, &"x".repeat(1_001)).await;
        assert!(head.starts_with("HTTP/1.1 413 "), "{head}");
        assert_eq!(head.contains(ALLOWED), may_read, "{head}");
    }
}

#[tokio::test(start_paused = true)]
async fn sharing_72_without_origins_no_page_may_read_and_with_a_star_every_page() {
    let closed = Bench::new();
    let (head, body) = post(
        &mut closed.connect(),
        "https://a.example",
        &sync("1", "a=1"),
    )
    .await;
    assert!(
        !head.contains("Access-Control") && !head.contains("Vary"),
        "{head}"
    );
    assert_eq!(body, answer_to("1", "a=1"));
    let open = bench("*");
    let (head, _) = post(&mut open.connect(), "https://b.example", &sync("1", "a=1")).await;
    assert!(
        head.contains("\r\nAccess-Control-Allow-Origin: *\r\n"),
        "{head}"
    );
}
