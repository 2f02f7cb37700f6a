//! Routes of other versions of the node, and routes that only an operator may use.

use super::*;

#[tokio::test(start_paused = true)]
async fn versions_57_no_route_of_cometbft_1_passes_the_write_lane_or_the_refusals() {
    let bench = Bench::new();
    let mut client = bench.connect();
    for target in ["/v1", "/v1/"] {
        client.post_to(target, "", &sync("1", "a=1")).await;
        assert_eq!(
            client.status().await,
            (200, answer_to("1", "a=1")),
            "{target}"
        );
        let refused = call("2", "unsafe_flush_mempool");
        client.post_to(target, "", &refused).await;
        assert_eq!(client.status().await.0, 403, "{target}");
    }
    client.get("/v1/broadcast_tx_sync?tx=\"b=2\"").await;
    assert_eq!(client.status().await, (200, answer_to("-1", "b=2")));
    client.get("/v1/unsafe_flush_mempool").await;
    assert_eq!(client.status().await.0, 403);
    assert_eq!(bench.fake.state().txs, ["a=1", "a=1", "b=2"]);
    assert_eq!(bench.fake.state().forwarded, []);
    let handshake = HANDSHAKE.replace("/websocket", "/v1/websocket");
    client.send(handshake).await;
    let (head, _) = client.answer().await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
}

#[tokio::test(start_paused = true)]
async fn versions_57_a_node_without_these_routes_says_so_itself() {
    let bench = Bench::new();
    bench.fake.state().without_v1 = true;
    let mut client = bench.connect();
    let body = sync("1", "a=1");
    client.post_to("/v1", "", &body).await;
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
    client.get("/broadcast_tx_sync?tx=\"a\"").await;
    assert_eq!(client.status().await.0, 403);
    // Without a transaction.
    client.get("/broadcast_tx_sync").await;
    assert_eq!(client.status().await.0, 403);
    client
        .post(&format!("[{},{}]", sync("1", "a"), call("2", "status")))
        .await;
    let (status, body) = client.status().await;
    assert_eq!(status, 200);
    assert!(body.contains(r#""id":1,"error":{"code":-32601,"#), "{body}");
    assert_eq!(bench.fake.state().txs, [""; 0]);
}
