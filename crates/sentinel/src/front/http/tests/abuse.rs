//! What is refused, bounded, or not believed.

use super::*;

#[tokio::test(start_paused = true)]
async fn http_28_slow_heads_bodies_and_idle_connections_end() {
    let bench = Bench::with(|config| {
        config.fixed.header_timeout = Duration::from_secs(10);
        config.fixed.body_timeout = Duration::from_secs(20);
        config.fixed.idle_timeout = Duration::from_secs(60);
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
                call(id, "status")
            } else {
                sync(id, "x")
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
            "{HANDSHAKE}GET /status HTTP/1.1\r\nHost: x\r\n\r\n"
        ))
        .await;
    assert_eq!(client.rest().await, "");
    assert!(bench.fake.state().forwarded.is_empty());
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
    // A client that has sent it already is not asked.
    client.send(head("100-continue") + &body).await;
    assert_eq!(client.status().await.0, 200);
    client.send(head("a-miracle")).await;
    assert_eq!(client.status().await.0, 417);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_fit_the_ledger_is_not_read_further() {
    let bench = Bench::with(|config| config.buffer.bytes = 100_000);
    let mut client = bench.connect();
    client
        .send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n")
        .await;
    client.send([b'x'; 100_000]).await;
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
async fn identity_34_only_a_trusted_proxy_speaks_for_others() {
    let bench = Bench::with(|config| {
        config.trust.proxies = vec!["10.0.0.0/8".parse().unwrap()];
        config.trust.deny = vec!["203.0.113.66/32".parse().unwrap()];
    });
    let send = async |client: &mut Client, from: &str| {
        let headers =
            format!("X-Forwarded-For: {from}\r\nX-Real-IP: 9.9.9.9\r\nForwarded: for=9.9.9.9\r\n");
        client.post_to("/", &headers, &sync("1", "a")).await;
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
