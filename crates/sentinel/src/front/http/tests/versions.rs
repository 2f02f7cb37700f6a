//! Routes of other versions of the node, and routes that only an operator may use.

use super::*;

#[tokio::test(start_paused = true)]
async fn versions_57_no_route_of_cometbft_1_passes_the_write_lane_or_the_refusals() {
    let bench = Bench::new();
    let mut client = bench.connect();
    for target in ["/v1", "/v1/"] {
        let body = sync("1", "a=1");
        let len = body.len();
        let head = format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len}\r\n\r\n");
        client.send(head + &body).await;
        assert_eq!(
            client.status().await,
            (200, answer_to("1", "a=1")),
            "{target}"
        );
        let body = call("2", "unsafe_flush_mempool");
        let len = body.len();
        let head = format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len}\r\n\r\n");
        client.send(head + &body).await;
        assert_eq!(client.status().await.0, 403, "{target}");
    }
    client
        .send("GET /v1/broadcast_tx_sync?tx=\"b=2\" HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    assert_eq!(client.status().await, (200, answer_to("-1", "b=2")));
    client
        .send("GET /v1/unsafe_flush_mempool HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    assert_eq!(client.status().await.0, 403);
    assert_eq!(bench.fake.state().txs, ["a=1", "a=1", "b=2"]);
    assert_eq!(bench.fake.state().forwarded, []);
    client
        .send(
            "GET /v1/websocket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
        .await;
    let (head, _) = client.answer().await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
}

#[tokio::test(start_paused = true)]
async fn versions_57_a_node_without_these_routes_says_so_itself() {
    let bench = Bench::new();
    bench.fake.state().without_v1 = true;
    let mut client = bench.connect();
    let body = sync("1", "a=1");
    let len = body.len();
    let head = format!("POST /v1 HTTP/1.1\r\nHost: x\r\nContent-Length: {len}\r\n\r\n");
    client.send(head + &body).await;
    client.answer().await;
    let state = bench.fake.state();
    assert_eq!(state.txs, [""; 0]);
    assert_eq!(
        state.forwarded,
        [("POST".to_owned(), "/v1".to_owned(), body)]
    );
}

#[tokio::test(start_paused = true)]
async fn refused_60_writes_can_be_refused_in_every_form() {
    let bench = Bench::new();
    bench.fake.state().refused = vec!["broadcast_tx_sync"];
    let mut client = bench.connect();
    client.post(&sync("1", "a=1")).await;
    assert_eq!(client.status().await.0, 403);
    client
        .send("GET /broadcast_tx_sync?tx=\"a\" HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    assert_eq!(client.status().await.0, 403);
    // In a form that only the node can judge.
    client
        .send("GET /broadcast_tx_sync HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    assert_eq!(client.status().await.0, 403);
    client
        .post(&format!("[{},{}]", sync("1", "a"), call("2", "status")))
        .await;
    let (status, body) = client.status().await;
    assert_eq!(status, 200);
    assert!(body.contains(r#""id":1,"error":{"code":-32601,"#), "{body}");
    assert_eq!(bench.fake.state().txs, [""; 0]);
}
