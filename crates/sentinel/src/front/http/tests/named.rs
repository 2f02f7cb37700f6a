//! Connections that a proxy in TCP mode passes on: the PROXY header names their clients.

use super::*;

fn bench(change: impl FnOnce(&mut crate::config::Config)) -> Bench {
    Bench::with(|config| {
        config.trust.proxies = vec!["10.0.0.0/8 proxy-protocol".parse().unwrap()];
        change(config);
    })
}

/// A header of version 2 that names an IPv4 client.
fn v2(client: [u8; 4]) -> Vec<u8> {
    let signature = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c";
    [&signature[..], &client, &[10, 0, 0, 1, 1, 2, 3, 4]].concat()
}

#[tokio::test(start_paused = true)]
async fn the_named_client_is_who_is_served() {
    let bench = bench(|_| {});
    let v1 = b"PROXY TCP4 203.0.113.9 10.0.0.1 4711 26680\r\n".to_vec();
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".to_vec();
    for (header, expected) in [
        (v1, "203.0.113.9"),
        (v2([203, 0, 113, 10]), "203.0.113.10"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "10.0.0.7"),
        (local, "10.0.0.7"),
    ] {
        let mut client = bench.connect_from([10, 0, 0, 7]);
        for byte in header {
            client.send([byte]).await;
            settle().await;
        }
        for id in 1..=2 {
            client.post(&sync(id, "a=1")).await;
            assert_eq!(client.status().await, (200, answer_to(id, "a=1")));
            assert_eq!(bench.fake.state().clients.pop().unwrap(), expected);
        }
        drop(client);
        settle().await;
    }
    assert_eq!(bench.shared.budget.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn without_a_header_there_is_no_connection() {
    let bench = bench(|_| {});
    for start in [
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "PROXY TCP4 x\r\n\r\n",
        "PROXY UNK",
    ] {
        let mut client = bench.connect_from([10, 0, 0, 7]);
        client.send(start).await;
        assert_eq!(client.rest().await, "", "{start:?}");
    }
    assert_eq!(
        bench.metric(r#"sentinel_rejected_total{reason="parse"}"#),
        "3"
    );
    // A proxy's check whether the port is open is no fault.
    drop(bench.connect_from([10, 0, 0, 7]));
    settle().await;
    assert_eq!(
        bench.metric(r#"sentinel_rejected_total{reason="parse"}"#),
        "3"
    );
    assert_eq!(bench.shared.budget.connections(), 0);
    // A peer on no list cannot name a client.
    let mut client = bench.connect_from([192, 0, 2, 9]);
    client.send(v2([203, 0, 113, 9])).await;
    assert_eq!(client.status().await.0, 400);
    assert!(bench.fake.state().clients.is_empty());
}

#[tokio::test(start_paused = true)]
async fn limits_are_those_of_the_named_client() {
    let bench = bench(|config| {
        config.fixed.most_connections = 6;
        config.trust.deny = vec!["203.0.113.66".parse().unwrap()];
    });
    let connect = async |last| {
        let mut client = bench.connect_from([10, 0, 0, 7]);
        client.send(v2([203, 0, 113, last])).await;
        client.post(&sync("1", "a=1")).await;
        (client.status().await.0, client)
    };
    let (mut answers, mut kept) = (Vec::new(), Vec::new());
    for last in [1, 1, 1, 1, 2, 66] {
        let (answer, client) = connect(last).await;
        answers.push(answer);
        kept.push(client);
    }
    assert_eq!(answers, [200, 200, 200, 429, 200, 403]);
}

#[tokio::test(start_paused = true)]
async fn a_header_that_never_comes_does_not_hold_up_the_end() {
    let bench = bench(|_| {});
    let _silent = bench.connect_from([10, 0, 0, 7]);
    settle().await;
    let start = Instant::now();
    bench.stop.cancel();
    assert_eq!(bench.serving.await.unwrap(), 0);
    assert!(start.elapsed() < Duration::from_secs(1));
}
