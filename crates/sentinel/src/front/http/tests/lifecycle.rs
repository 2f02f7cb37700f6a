//! Connections: how many, how small, and how they end.

use super::*;

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
    assert_eq!(bench.shared.budget.connections(), 0);
    assert_eq!(
        bench.metric(
            r#"sentinel_requests_total{transport="post",lane="write",method_class="broadcast_sync",outcome="cancelled"}"#
        ),
        "1"
    );
}

#[tokio::test(start_paused = true)]
async fn connections_beyond_the_bounds_are_told_so() {
    let bench = Bench::with(|config| config.fixed.most_connections = 4);
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

/// Another process serves: a listener without clients does not end those of another one.
#[tokio::test(start_paused = true)]
async fn lifecycle_51_clients_of_one_listener_are_served_when_another_has_none() {
    let bench = Bench::new();
    let door = bench.serve_door();
    let mut client = bench.connect();
    settle().await;
    bench.shared.leave.cancel();
    sleep(Duration::from_secs(9)).await;
    client.post(&sync("1", "a")).await;
    let (head, body) = client.answer().await;
    assert!(head.contains("Connection: close"), "{head}");
    assert_eq!(body, answer_to("1", "a"));
    drop(client);
    // When the last one has gone, nothing is waited for.
    let start = Instant::now();
    assert_eq!(bench.serving.await.unwrap() + door.await.unwrap(), 0);
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(bench.stop.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn lifecycle_50_what_is_not_finished_in_the_budget_is_cut_off() {
    let mut bench = Bench::with(|config| config.shutdown.drain = Duration::from_secs(5));
    bench.fake.state().hold = true;
    bench.fake.state().hold_reads = true;
    let stuck = [sync("1", "a"), call("2", "status")].map(|body| async {
        let (mut client, body) = (bench.connect(), body);
        client.post(&body).await;
        client
    });
    let _stuck = futures_util::future::join_all(stuck).await;
    settle().await;
    bench.stop.cancel();
    let start = Instant::now();
    assert_eq!((&mut bench.serving).await.unwrap(), 2);
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!(bench.fake.state().disconnected.len(), 1);
    for (lane, class) in [("write", "broadcast_sync"), ("read", "status")] {
        let call = format!("transport=\"post\",lane=\"{lane}\",method_class=\"{class}\"");
        let lost = format!("sentinel_requests_total{{{call},outcome=\"lost\"}}");
        assert_eq!(bench.metric(&lost), "1");
    }
}

#[tokio::test(start_paused = true)]
async fn resources_44_an_idle_connection_is_small() {
    let bench = Bench::new();
    let peer = crate::front::http::Peer {
        identity: bench
            .shared
            .identities
            .load()
            .of_peer([192, 0, 2, 1].into()),
        is_proxy: false,
    };
    let slot = bench.shared.budget.connect_proxy().unwrap();
    let (_, io) = tokio::io::duplex(1);
    let connection = crate::front::http::Connection::new(bench.shared.clone(), io, peer, slot);
    // All that a task of its own holds beside the runtime's part, whatever it is doing; what is
    // done seldom is on the heap while it is done. Buffers are not held: `Socket` shows that.
    let parts = (size_of_val(&connection), size_of_val(&connection.run()));
    assert!(parts.0 <= 512 && parts.1 <= 1_216, "{parts:?}");
}
