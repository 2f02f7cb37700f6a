//! Connections whose clients do not heed refusals.

use super::*;

fn full() -> Refusal {
    Refusal::new(Reason::QueueFull, "full").retry_after(Duration::from_secs(2))
}

/// Milliseconds that so many requests take, one after the other.
async fn duration_of(client: &mut Client, requests: usize) -> u128 {
    let start = Instant::now();
    for _ in 0..requests {
        client.post(&sync("1", "a")).await;
        client.status().await;
    }
    start.elapsed().as_millis()
}

#[tokio::test(start_paused = true)]
async fn who_asks_on_and_on_is_answered_more_and_more_slowly() {
    let bench = Bench::new();
    let mut client = bench.connect();
    bench.fake.state().refusal = Some(full());
    // Nobody waits for the first two answers; from then on 1 + 2 + 4 + … + 128 ms.
    assert_eq!(duration_of(&mut client, 2).await, 0);
    assert_eq!(duration_of(&mut client, 8).await, 255);
    assert_eq!(duration_of(&mut client, 4).await, 1_000);
    // Another connection is not concerned.
    assert_eq!(duration_of(&mut bench.connect(), 2).await, 0);
    // The first request that is served still waits for its turn; then it gets better.
    bench.fake.state().refusal = None;
    assert_eq!(duration_of(&mut client, 1).await, 250);
    assert_eq!(duration_of(&mut client, 20).await, 0);
    assert_eq!(
        bench.metric(r#"sentinel_rejected_total{reason="queue_full"}"#),
        "16"
    );
    settle().await;
    assert_eq!(bench.shared.ledger.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_waits_as_told_never_notices() {
    let bench = Bench::new();
    let mut client = bench.connect();
    bench.fake.state().refusal = Some(full());
    for _ in 0..20 {
        assert_eq!(duration_of(&mut client, 1).await, 0);
        sleep(Duration::from_secs(2)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_counts_once_and_a_trusted_proxy_never_rests() {
    let bench = Bench::with(|config| {
        config.trust.proxies = vec!["10.0.0.0/8".parse().unwrap()];
    });
    bench.fake.state().refusal = Some(full());
    let mut client = bench.connect();
    let batch = format!("[{}]", vec![sync("1", "a"); 10].join(","));
    let start = Instant::now();
    for _ in 0..3 {
        client.post(&batch).await;
        client.status().await;
    }
    assert_eq!(start.elapsed(), Duration::from_millis(1));
    let mut proxy = bench.connect_from([10, 0, 0, 1]);
    assert_eq!(duration_of(&mut proxy, 50).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_rest_ends_with_its_client_and_with_the_program() {
    let bench = Bench::new();
    bench.fake.state().refusal = Some(full());
    let mut gone = bench.connect();
    let mut stays = bench.connect();
    duration_of(&mut gone, 20).await;
    duration_of(&mut stays, 20).await;
    let start = Instant::now();
    drop(gone);
    settle().await;
    assert_eq!(bench.shared.slots.total(), 1);
    bench.stop.cancel();
    assert_eq!(stays.rest().await, "");
    assert!(start.elapsed() < Duration::from_millis(10));
}
