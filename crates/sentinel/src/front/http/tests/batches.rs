//! Batches, and broadcasts in disguise.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_batch_whose_client_hangs_up_are_counted() {
    let bench = Bench::new();
    bench.fake.state().hold = true;
    let mut client = bench.connect();
    let batch = format!("[{},{}]", sync("1", "a"), sync("2", "b"));
    client.post(&batch).await;
    settle().await;
    drop(client);
    settle().await;
    let series = "sentinel_requests_total{transport=\"post\",lane=\"write\",method_class=\"broadcast_sync\",outcome=\"cancelled\"}";
    assert_eq!(bench.metric(series), "2");
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

    // Writes together, then the reads one by one, and a write in another spelling.
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
            .extend([3, 4].map(|id| Ok(ReadAnswer::whole(200, &format!("{{\"id\":{id}}}\n")))));
    }
    client.post(&batch).await;
    let (status, body) = client.status().await;
    let expected = format!(
        "[{},{},{{\"id\":3}},{{\"id\":4}},{}]",
        answer_to("1", "a"),
        answer_to("2", "b"),
        answer_to("9", "a")
    );
    assert_eq!((status, body), (200, expected));
    let forwarded: Vec<_> = bench
        .fake
        .state()
        .forwarded
        .iter()
        .map(|f| f.2.clone())
        .collect();
    assert_eq!(forwarded, [call("3", "status"), call("4", "health")]);
    assert_eq!(bench.fake.state().txs, ["a", "b", "a"]);
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
    bench.will_answer(ReadAnswer::whole(500, "{\"id\":-1}"));
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
        r#"{"id":1e0,"method":"broadcast_tx_commit","params":["Y\u0051=\n="],"more":1}"#,
    ] {
        client.post(body).await;
        assert_eq!(client.status().await.0, 200);
    }
    client.get("/broadcast%5Ftx_sync?tx=\"\\u0061\"").await;
    assert_eq!(client.status().await.0, 200);
    assert_eq!(bench.fake.state().txs, ["a"; 5]);

    // What the node refuses is a read, for the node's words.
    for body in [
        r#"{"id":1e0,"method":"broadcast_tx_commit"}"#,
        r#"{"id":1,"method":"broadcast_tx_sync","params":["!"]}"#,
    ] {
        client.post(body).await;
        assert_eq!(client.status().await.0, 200);
    }
    client.get("/broadcast_tx_sync?tx=61").await;
    assert_eq!(client.status().await.0, 200);
    let forwarded = std::mem::take(&mut bench.fake.state().forwarded);
    assert_eq!(forwarded.len(), 3);

    // The node executes these whatever the HTTP method is.
    let body = sync("1", "z");
    for method in ["PUT", "OPTIONS"] {
        let len = body.len();
        let head = format!("{method} / HTTP/1.1\r\nHost: x\r\nContent-Length: {len}\r\n\r\n");
        client.send(head + &body).await;
        assert_eq!(client.status().await.0, 200);
        let get = format!("{method} /broadcast_tx_sync?tx=[122] HTTP/1.1\r\nHost: x\r\n\r\n");
        client.send(get).await;
        assert_eq!(client.status().await.0, 200);
    }
    assert_eq!(bench.fake.state().txs[5..], ["z"; 4]);

    // What the node may execute, or not, is refused.
    for request in [
        "GET //broadcast%5Ftx_sync?tx=[97] HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /broadcast_tx_sync HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\ntx=61",
        "OPTIONS /broadcast_tx_sync?tx=0x61 HTTP/1.1\r\nHost: x\r\nAccess-Control-Request-Method: GET\r\n\r\n",
    ] {
        client.send(request).await;
        assert_eq!(client.status().await.0, 400);
    }
    assert_eq!(bench.fake.state().txs.len(), 9);
    assert!(bench.fake.state().forwarded.is_empty());
}
