//! What one client may take from the others.

use super::*;

const MIB: usize = 1 << 20;

#[tokio::test(start_paused = true)]
async fn sharing_61_bodies_that_are_only_announced_cost_nothing() {
    let bench = Bench::with(|config| config.buffer.bytes = 64 * MIB);
    let mut silent = Vec::new();
    for _ in 0..300 {
        let mut client = bench.connect();
        client
            .send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 990000\r\n\r\n")
            .await;
        silent.push(client);
    }
    settle().await;
    // At d833505 the first 67 of them had reserved everything.
    assert_eq!(bench.shared.ledger.used(), 300 * (16 << 10));
    let mut other = bench.connect_from([192, 0, 2, 2]);
    other.post(&sync("1", "a=1")).await;
    assert_eq!(other.status().await, (200, answer_to("1", "a=1")));
}

#[tokio::test(start_paused = true)]
async fn sharing_61_what_comes_is_charged_within_a_share() {
    let bench = Bench::with(|config| config.buffer.bytes = 8 * MIB);
    let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 990000\r\n\r\n";
    let mut greedy = Vec::new();
    for _ in 0..16 {
        let mut client = bench.connect();
        client.send(head).await;
        client.send(vec![b'x'; 900_000]).await;
        greedy.push(client);
    }
    settle().await;
    let held = bench.shared.ledger.used();
    assert!((2 * MIB..=4 * MIB).contains(&held), "{held}");
    let mut other = bench.connect_from([192, 0, 2, 2]);
    let body = sync("1", &"b".repeat(500_000));
    other.post(&body).await;
    assert_eq!(other.status().await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn sharing_63_a_body_in_chunks_is_in_the_account_as_it_comes() {
    let bench = Bench::new();
    let mut client = bench.connect();
    client
        .send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    client.send(format!("{:x}\r\n", 200_000)).await;
    client.send(vec![b'x'; 150_000]).await;
    settle().await;
    let held = bench.shared.ledger.used();
    assert!((150_000..400_000).contains(&held), "{held}");
    drop(client);
    settle().await;
    assert_eq!(bench.shared.ledger.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn sharing_64_a_denied_network_gets_neither_slot_nor_buffer() {
    let bench = Bench::with(|config| {
        config.limits.connections = 4;
        config.trust.deny = vec!["203.0.113.0/24".parse().unwrap()];
    });
    let mut denied: Vec<_> = (0..10)
        .map(|_| bench.connect_from([203, 0, 113, 9]))
        .collect();
    settle().await;
    assert_eq!(bench.shared.slots.total(), 0);
    let mut allowed = bench.connect();
    allowed.post(&sync("1", "a=1")).await;
    assert_eq!(allowed.status().await.0, 200);
    let first = &mut denied[0];
    first.post(&sync("2", "b=2")).await;
    assert_eq!(first.status().await.0, 403);
    assert_eq!(bench.fake.state().txs, ["a=1"]);
}

/// An answer of 400 kB, and what it was admitted with.
fn long_answer() -> (ReadAnswer<crate::front::testing::Body>, std::sync::Weak<()>) {
    let piece = "x".repeat(10_000);
    let answer = ReadAnswer::pieces(200, &[piece.as_str(); 40]);
    let place = std::sync::Arc::downgrade(&answer.body.1);
    (answer, place)
}

#[tokio::test(start_paused = true)]
async fn sharing_65_a_slow_reader_holds_its_own_bytes_and_no_place() {
    let bench = Bench::new();
    let (answer, place) = long_answer();
    bench.fake.state().answers.push_back(Ok(answer));
    let mut client = bench.connect();
    client.post(&call("1", "genesis")).await;
    settle().await;
    // At d833505 the place was held until the client had taken the last byte.
    assert!(place.upgrade().is_none());
    assert!(bench.shared.ledger.used() > 300_000);
    let (_, body) = client.answer().await;
    assert!(body.len() > 400_000 && body.ends_with("x\r\n0\r\n\r\n"));
    settle().await;
    assert_eq!(bench.shared.ledger.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn sharing_65_beyond_its_share_a_slow_reader_holds_the_node_back() {
    let bench = Bench::with(|config| {
        config.buffer.bytes = 1 << 20;
        config.reads.window_bytes = 64 << 10;
    });
    let (first, place) = long_answer();
    bench.fake.state().answers.push_back(Ok(first));
    let mut client = bench.connect();
    client.post(&call("1", "genesis")).await;
    settle().await;
    assert!(place.upgrade().is_some());
    assert!(bench.shared.ledger.used() <= 512 << 10);
    let (_, body) = client.answer().await;
    assert!(body.len() > 400_000);
    assert!(place.upgrade().is_none());
}
