//! HTTP connections in memory: what comes back, when, and what it costs.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::front::backend::Answer;
use crate::front::testing::{Bench, Client};
use crate::refusal::{Reason, Refusal};

/// `broadcast_tx_sync` of a transaction, in base64.
fn sync(id: &str, tx: &str) -> String {
    let tx = base64_simd::STANDARD.encode_to_string(tx);
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"broadcast_tx_sync","params":{{"tx":"{tx}"}}}}"#
    )
}

fn answer_to(id: &str, tx: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"log":"{tx}"}}}}"#)
}

fn call(id: &str, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{}}}}"#)
}

/// Lets everything run that can.
async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

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
    client
        .send("GET /broadcast_tx_commit?tx=\"a=1\" HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    assert_eq!(client.status().await, (200, answer_to("-1", "a=1")));
    bench.fake.state().refusal =
        Some(Refusal::new(Reason::QueueFull, "full").retry_after(Duration::from_millis(1_500)));
    client
        .send("GET /broadcast_tx_sync?tx=0x61 HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
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

    bench
        .fake
        .state()
        .answers
        .push_back(Ok(Answer::pieces(500, &["ab", "c"])));
    client.post("{").await;
    let (head, body) = client.answer().await;
    assert!(head.starts_with("HTTP/1.1 500 "), "{head}");
    assert!(head.contains("Transfer-Encoding: chunked\r\n"), "{head}");
    assert_eq!(body, "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n");
    // Without chunks the end of the connection is the end of the answer.
    bench
        .fake
        .state()
        .answers
        .push_back(Ok(Answer::pieces(200, &["ab", "c"])));
    client
        .send("GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        .await;
    assert!(client.rest().await.ends_with("\r\n\r\nabc"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_breaks_the_connection_off() {
    let bench = Bench::new();
    let mut client = bench.connect();
    bench
        .fake
        .state()
        .answers
        .push_back(Ok(Answer::pieces(200, &["", "x"])));
    client.post(&call("5", "status")).await;
    let (status, body) = client.status().await;
    assert_eq!(status, 503);
    assert!(body.contains("the node broke off"), "{body}");
    bench
        .fake
        .state()
        .answers
        .push_back(Ok(Answer::pieces(200, &["x", "", "y"])));
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
async fn http_28_slow_heads_bodies_and_idle_connections_end() {
    let bench = Bench::with(|config| {
        config.limits.header_timeout = Duration::from_secs(10);
        config.limits.body_timeout = Duration::from_secs(20);
        config.limits.idle_timeout = Duration::from_secs(60);
    });
    let start = Instant::now();
    let mut idle = bench.connect();
    assert_eq!(idle.rest().await, "");
    assert_eq!(start.elapsed(), Duration::from_secs(60));

    let start = Instant::now();
    let mut slow_head = bench.connect();
    for _ in 0..9 {
        slow_head.send("G").await;
        sleep(Duration::from_secs(1)).await;
    }
    assert!(slow_head.rest().await.starts_with("HTTP/1.1 408 "));
    assert!(
        start.elapsed() < Duration::from_secs(11),
        "{:?}",
        start.elapsed()
    );

    let start = Instant::now();
    let mut slow_body = bench.connect();
    slow_body
        .send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
        .await;
    for _ in 0..19 {
        slow_body.send(" ").await;
        sleep(Duration::from_secs(1)).await;
    }
    assert!(slow_body.rest().await.starts_with("HTTP/1.1 408 "));
    assert!(
        start.elapsed() < Duration::from_secs(21),
        "{:?}",
        start.elapsed()
    );

    // One that uses its time is not idle.
    let mut busy = bench.connect();
    for _ in 0..3 {
        sleep(Duration::from_secs(59)).await;
        busy.post(&sync("1", "a")).await;
        assert_eq!(busy.status().await.0, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn http_29_what_two_readers_could_read_differently_is_refused() {
    let bench = Bench::new();
    for request in [
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\nHost: x\n\n",
        "GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n",
    ] {
        let mut client = bench.connect();
        client.send(request).await;
        let rest = client.rest().await;
        assert!(rest.starts_with("HTTP/1.1 400 "), "{request:?} {rest:?}");
        assert!(rest.contains("\r\nConnection: close\r\n"), "{rest:?}");
        assert_eq!(rest.matches("HTTP/1.1").count(), 1, "{rest:?}");
    }
    assert!(bench.fake.state().forwarded.is_empty());
    assert!(bench.fake.state().txs.is_empty());
}

#[tokio::test(start_paused = true)]
async fn http_29_a_thousand_pipelined_requests_are_answered_in_order() {
    let bench = Bench::new();
    let client = bench.connect();
    let (reader, mut writer) = tokio::io::split(client.0);
    let send = async {
        use tokio::io::AsyncWriteExt;
        for id in 0..1_000 {
            let body = if id % 10 == 9 {
                call(&id.to_string(), "status")
            } else {
                sync(&id.to_string(), "x")
            };
            let len = body.len();
            let request =
                format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {len}\r\n\r\n{body}\r\n");
            writer.write_all(request.as_bytes()).await.unwrap();
        }
        writer.shutdown().await.unwrap();
    };
    let receive = async {
        use tokio::io::AsyncReadExt;
        let mut text = String::new();
        let mut reader = reader;
        reader.read_to_string(&mut text).await.unwrap();
        text
    };
    let ((), text) = tokio::join!(send, receive);
    let ids: Vec<_> = text
        .match_indices("\"id\":")
        .map(|(at, _)| {
            text[at + 5..]
                .split(',')
                .next()
                .unwrap()
                .parse::<u32>()
                .unwrap()
        })
        .collect();
    let expected: Vec<_> = (0..1_000).filter(|id| id % 10 != 9).collect();
    assert_eq!(ids, expected);
    assert_eq!(text.matches("{\"echo\":").count(), 100);
}

#[tokio::test(start_paused = true)]
async fn http_29_bytes_behind_an_upgrade_reach_nobody() {
    let bench = Bench::new();
    let mut client = bench.connect();
    client
        .send(format!(
            "{}GET /status HTTP/1.1\r\nHost: x\r\n\r\n",
            handshake()
        ))
        .await;
    assert_eq!(client.rest().await, "");
    assert!(bench.fake.state().forwarded.is_empty());
}

fn handshake() -> &'static str {
    "GET /websocket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
}

#[tokio::test(start_paused = true)]
async fn http_30_sizes_have_bounds_and_statuses() {
    let bench = Bench::new();
    let many = "A: b\r\n".repeat(100);
    let long = "x".repeat(64 << 10);
    for (request, status) in [
        (format!("GET / HTTP/1.1\r\nHost: x\r\n{many}\r\n"), 431),
        (
            format!("GET / HTTP/1.1\r\nHost: x\r\nA: {long}\r\n\r\n"),
            431,
        ),
        (format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n"), 414),
    ] {
        let mut client = bench.connect();
        client.send(request).await;
        assert_eq!(client.status().await.0, status);
    }
    for framing in [
        "Content-Length: 1000001",
        "Content-Length: 99999999999999999999999",
    ] {
        let mut client = bench.connect();
        client
            .send(format!("POST / HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n"))
            .await;
        let (status, body) = client.status().await;
        assert!(matches!(status, 400 | 413), "{status} {body}");
        assert!(
            body.contains("too large") || body.contains("larger"),
            "{body}"
        );
    }
    let mut chunked = bench.connect();
    chunked
        .send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nf4241\r\n")
        .await;
    assert!(matches!(chunked.status().await.0, 400 | 413));
    assert_eq!(bench.fake.state().forwarded.len(), 0);
    settle().await;
    assert_eq!(bench.shared.ledger.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn http_30_a_megabyte_comes_through_in_one_piece_or_in_chunks() {
    let bench = Bench::new();
    let mut client = bench.connect();
    let mut body = call("1", "status");
    body.push_str(&" ".repeat(1_000_000 - body.len()));
    client.post(&body).await;
    assert_eq!(client.status().await.1, r#"{"echo":1000000}"#);
    client
        .send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    for piece in body.as_bytes().chunks(100_000) {
        client.send(format!("{:x}\r\n", piece.len())).await;
        client.send(piece).await;
        client.send("\r\n").await;
    }
    client.send("0\r\n\r\n").await;
    assert_eq!(client.status().await.1, r#"{"echo":1000000}"#);
    client.post(&sync("1", &"t".repeat(700_000))).await;
    assert_eq!(client.status().await.0, 200);
    settle().await;
    assert_eq!(bench.shared.ledger.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn http_31_the_body_is_asked_for() {
    let bench = Bench::new();
    let mut client = bench.connect();
    let body = sync("1", "a=1");
    let head = |expect: &str| {
        format!(
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\nExpect: {expect}\r\n\r\n",
            body.len()
        )
    };
    client.send(head("100-continue")).await;
    assert_eq!(client.answer().await.0, "HTTP/1.1 100 Continue\r\n\r\n");
    client.send(&body).await;
    assert_eq!(client.status().await.0, 200);
    // Who has sent it already is not asked.
    client.send(head("100-continue") + &body).await;
    assert_eq!(client.status().await.0, 200);
    client.send(head("a-miracle")).await;
    assert_eq!(client.status().await.0, 417);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_fit_the_ledger_is_not_read() {
    let bench = Bench::with(|config| config.buffer.bytes = 100_000);
    let mut client = bench.connect();
    client
        .send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n")
        .await;
    let (head, body) = client.answer().await;
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    assert!(head.contains("\r\nRetry-After: "), "{head}");
    assert!(body.contains("the buffers are full"), "{body}");
    assert_eq!(
        bench.metric(r#"sentinel_rejected_total{reason="bytes"}"#),
        "1"
    );
    drop(client);
    settle().await;
    assert_eq!(bench.shared.ledger.used(), 0);
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
        3 + super::super::queue::WRITE_OVERHEAD
    );
    bench.fake.release();
    assert_eq!(client.status().await.0, 200);
    settle().await;
    assert_eq!(bench.shared.ledger.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn identity_34_only_a_trusted_proxy_speaks_for_others() {
    let bench = Bench::with(|config| {
        config.trust.proxies = vec!["10.0.0.0/8".parse().unwrap()];
        config.trust.deny = vec!["203.0.113.66/32".parse().unwrap()];
    });
    let send = async |client: &mut Client, from: &str| {
        let body = sync("1", "a");
        let len = body.len();
        client
            .send(format!(
                "POST / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {from}\r\nX-Real-IP: 9.9.9.9\r\n\
                 Forwarded: for=9.9.9.9\r\nContent-Length: {len}\r\n\r\n{body}"
            ))
            .await;
        client.status().await.0
    };
    let mut outsider = bench.connect();
    assert_eq!(send(&mut outsider, "203.0.113.9").await, 200);
    let mut proxy = bench.connect_from([10, 0, 0, 1]);
    assert_eq!(send(&mut proxy, "8.8.8.8, 203.0.113.9").await, 200);
    assert_eq!(send(&mut proxy, "203.0.113.10:99").await, 200);
    assert_eq!(
        bench.fake.state().clients,
        ["192.0.2.1", "203.0.113.9", "203.0.113.10"]
    );
    assert_eq!(send(&mut proxy, "203.0.113.66").await, 403);
    assert_eq!(bench.fake.state().txs.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn json_39_a_batch_of_reads_goes_whole_and_one_with_writes_in_parts() {
    let bench = Bench::new();
    let mut client = bench.connect();
    let reads = format!("[{},{}]", call("1", "status"), call("2", "health"));
    client.post(&reads).await;
    client.answer().await;
    assert_eq!(
        bench.fake.state().forwarded,
        [("POST".to_owned(), "/".to_owned(), reads)]
    );

    // Writes together, then the reads together, then a write in a form of its own.
    let odd = r#"{"jsonrpc":"2.0","id":9.0,"method":"broadcast_tx_sync","params":["YQ=="]}"#;
    let note = r#"{"jsonrpc":"2.0","method":"status"}"#;
    let batch = format!(
        "[{},{note},{},{}, {},{odd}]",
        sync("1", "a"),
        sync("2", "b"),
        call("3", "status"),
        call("4", "health"),
    );
    {
        let mut state = bench.fake.state();
        state.forwarded.clear();
        state
            .answers
            .push_back(Ok(Answer::whole(200, "[{\"id\":3},{\"id\":4}]\n")));
        state
            .answers
            .push_back(Ok(Answer::whole(200, "{\"id\":9}")));
    }
    client.post(&batch).await;
    let (status, body) = client.status().await;
    let expected = format!(
        "[{},{},{{\"id\":3}},{{\"id\":4}},{{\"id\":9}}]",
        answer_to("1", "a"),
        answer_to("2", "b")
    );
    assert_eq!((status, body), (200, expected));
    let forwarded: Vec<_> = bench
        .fake
        .state()
        .forwarded
        .iter()
        .map(|f| f.2.clone())
        .collect();
    assert_eq!(
        forwarded,
        [
            format!("[{},{}]", call("3", "status"), call("4", "health")),
            odd.to_owned()
        ]
    );
    assert_eq!(bench.fake.state().txs, ["a", "b", "?"]);
    assert_eq!(bench.fake.state().permits, 0);
    settle().await;
    assert_eq!(bench.shared.ledger.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn json_39_one_answer_is_bare_and_none_is_nothing() {
    let bench = Bench::new();
    let mut client = bench.connect();
    client.post(&format!("[{}]", sync("1", "a"))).await;
    assert_eq!(client.status().await.1, answer_to("1", "a"));
    let note = r#"{"jsonrpc":"2.0","method":"broadcast_tx_sync","params":{"tx":"YQ=="}}"#;
    client.post(&format!("[{note},{}]", sync("1", "b"))).await;
    assert_eq!(client.status().await.1, answer_to("1", "b"));
    client.post(note).await;
    let (head, body) = client.answer().await;
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\nX-Server-Time"),
        "{head}"
    );
    assert!(body.is_empty());
    assert_eq!(bench.fake.state().txs, ["a", "b"]);

    let eleven = vec![sync("1", "c"); 11].join(",");
    client.post(&format!("[{eleven}]")).await;
    let (status, body) = client.status().await;
    assert_eq!(status, 200);
    assert!(
        body.contains("-32600") && body.contains("batch request exceeds maximum (10)"),
        "{body}"
    );
    assert_eq!(bench.fake.state().txs.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn json_39_answers_in_any_order_and_refusals_find_their_calls() {
    let bench = Bench::new();
    bench.fake.state().hold = true;
    let mut client = bench.connect();
    let batch = format!(
        "[{},{},{}]",
        sync("1", "a"),
        sync("2", "b"),
        call("3", "unsafe_x")
    );
    client.post(&batch).await;
    settle().await;
    // The fake answers the last first.
    bench.fake.release();
    let (status, body) = client.status().await;
    assert_eq!(status, 200);
    let start = format!("[{},{},{{", answer_to("1", "a"), answer_to("2", "b"));
    assert!(body.starts_with(&start), "{body}");
    assert!(
        body[start.len()..].starts_with(r#""jsonrpc":"2.0","id":3,"error""#),
        "{body}"
    );
}

#[tokio::test(start_paused = true)]
async fn json_39_a_call_that_breaks_the_batch_on_the_node_breaks_it_here() {
    let bench = Bench::new();
    let mut client = bench.connect();
    bench
        .fake
        .state()
        .answers
        .push_back(Ok(Answer::whole(500, "{\"id\":-1}")));
    let batch = format!(
        "[{},{},{}]",
        sync("1", "a"),
        call("2", "block"),
        sync("3", "b")
    );
    client.post(&batch).await;
    assert_eq!(client.status().await, (500, "{\"id\":-1}".to_owned()));
    assert_eq!(bench.fake.state().txs, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn json_41_no_spelling_takes_a_broadcast_past_the_write_lane() {
    let bench = Bench::new();
    let mut client = bench.connect();
    for body in [
        r#"{"id":1,"method":"broadcast_tx_\u0073ync","params":{"tx":"YQ=="}}"#,
        r#"{"id":1,"METHOD":"broadcast_tx_sync","params":{"tx":"YQ=="}}"#,
        r#"{"id":1,"method":"status","method":"broadcast_tx_async","params":["YQ=="]}"#,
        r#"{"id":1e0,"method":"broadcast_tx_commit"}"#,
    ] {
        client.post(body).await;
        assert_eq!(client.status().await.0, 200);
    }
    for request in [
        "GET /broadcast%5Ftx_sync?tx=%22a%22 HTTP/1.1\r\nHost: x\r\nOrigin: http://a\r\n\r\n",
        "OPTIONS /broadcast_tx_sync?tx=0x61 HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /broadcast_tx_sync?tx=61 HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /broadcast_tx_sync HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\ntx=61",
    ] {
        client.send(request).await;
        assert_eq!(client.status().await.0, 200);
    }
    // A body is read whatever the method says.
    let body = sync("1", "z");
    let len = body.len();
    client
        .send(format!(
            "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: {len}\r\n\r\n{body}"
        ))
        .await;
    client.answer().await;
    assert_eq!(bench.fake.state().txs, ["?"; 9]);
    assert_eq!(bench.fake.state().forwarded.len(), 9);
    assert_eq!(bench.fake.state().permits, 0);
}

#[tokio::test(start_paused = true)]
async fn lifecycle_52_who_hangs_up_is_not_waited_for() {
    let bench = Bench::new();
    bench.fake.state().hold = true;
    let mut client = bench.connect();
    client.post(&sync("1", "a=1")).await;
    settle().await;
    assert_eq!(bench.fake.state().queue.len(), 1);
    let number = bench.fake.state().queue[0].connection;
    drop(client);
    settle().await;
    assert_eq!(bench.fake.state().disconnected, [number]);
    assert!(bench.fake.state().queue[0].outbox.is_closed());
    assert_eq!(bench.shared.slots.total(), 0);
    assert_eq!(
        bench.metric(
            r#"sentinel_requests_total{transport="post",lane="write",method_class="broadcast_sync",outcome="cancelled"}"#
        ),
        "1"
    );
}

#[tokio::test(start_paused = true)]
async fn connections_beyond_the_bounds_are_told_so() {
    let bench = Bench::with(|config| config.limits.connections_per_client = 2);
    let _one = bench.connect();
    let _two = bench.connect();
    let mut three = bench.connect();
    three.post(&sync("1", "a")).await;
    let (head, body) = three.answer().await;
    assert!(head.starts_with("HTTP/1.1 429 "), "{head}");
    assert!(body.contains("too many connections"), "{body}");
    assert_eq!(three.rest().await, "");
    let mut other = bench.connect_from([192, 0, 2, 2]);
    other.post(&sync("1", "a")).await;
    assert_eq!(other.status().await.0, 200);
    assert_eq!(bench.fake.state().txs, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn lifecycle_50_on_the_order_to_stop_what_is_under_way_is_finished() {
    let bench = Bench::new();
    bench.fake.state().hold = true;
    let mut idle = bench.connect();
    let mut busy = bench.connect();
    busy.post(&sync("1", "a")).await;
    settle().await;
    bench.stop.cancel();
    let start = Instant::now();
    assert_eq!(idle.rest().await, "");
    assert_eq!(start.elapsed(), Duration::ZERO);
    bench.fake.release();
    assert_eq!(busy.status().await.1, answer_to("1", "a"));
    assert_eq!(busy.rest().await, "");
    let cut_off = timeout(Duration::from_secs(1), bench.serving)
        .await
        .unwrap();
    assert_eq!(cut_off.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn lifecycle_50_what_is_not_finished_in_the_budget_is_cut_off() {
    let bench = Bench::with(|config| config.shutdown.drain = Duration::from_secs(5));
    bench.fake.state().hold = true;
    let mut stuck = bench.connect();
    stuck.post(&sync("1", "a")).await;
    settle().await;
    bench.stop.cancel();
    let start = Instant::now();
    assert_eq!(bench.serving.await.unwrap(), 1);
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!(bench.fake.state().disconnected.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn resources_44_an_idle_connection_is_small() {
    let bench = Bench::new();
    let peer = super::Peer {
        address: [192, 0, 2, 1].into(),
        identity: bench.shared.identities.of_peer([192, 0, 2, 1].into()),
        is_proxy: false,
    };
    let slot = bench.shared.slots.enter_proxy().unwrap();
    let (_, io) = tokio::io::duplex(1);
    let connection = super::Connection::new(bench.shared.clone(), io, peer, slot);
    // All that a task of its own holds beside the runtime's part, whatever it is doing; what is
    // done seldom is on the heap while it is done. Buffers are not held: `Socket` shows that.
    let parts = (size_of_val(&connection), size_of_val(&connection.run()));
    assert!(parts.0 <= 512 && parts.1 <= 1_152, "{parts:?}");
}
