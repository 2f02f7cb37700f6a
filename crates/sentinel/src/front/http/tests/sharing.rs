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
