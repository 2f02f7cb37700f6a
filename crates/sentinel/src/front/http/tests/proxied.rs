//! Clients behind a trusted proxy: each has its own share there too.

use tokio::io::AsyncWriteExt;

use super::*;
use crate::front::websocket::tests::{frame, text};

const MIB: usize = 1 << 20;

fn bench(change: impl FnOnce(&mut crate::config::Config)) -> Bench {
    Bench::with(|config| {
        config.trust.proxies = vec!["10.0.0.0/8".parse().unwrap()];
        change(config);
    })
}

/// A connection of the proxy's, and the header that names its client.
fn behind(bench: &Bench, last: u8) -> (Client, String) {
    let header = format!("X-Forwarded-For: 203.0.113.{last}\r\n");
    (bench.connect_from([10, 0, 0, 1]), header)
}

/// At 2b52556 what a proxy's connections held was in no client's share, and filled the reserve as well.
#[tokio::test(start_paused = true)]
async fn sharing_86_bodies_behind_a_proxy_are_in_their_clients_shares() {
    for is_chunked in [false, true] {
        let bench = bench(|config| config.buffer.bytes = 16 * MIB);
        let mut greedy = Vec::new();
        for _ in 0..100 {
            let (mut client, from) = behind(&bench, 9);
            let framing = if is_chunked {
                "Transfer-Encoding: chunked\r\n\r\ndbba0\r\n"
            } else {
                "Content-Length: 900000\r\n\r\n"
            };
            let head = format!("POST / HTTP/1.1\r\nHost: x\r\n{from}{framing}");
            client.send(head).await;
            // What is refused is not read.
            let _ = timeout(
                Duration::from_millis(1),
                client.0.write_all(&[b'x'; 899_999]),
            )
            .await;
            greedy.push(client);
        }
        settle().await;
        let held = bench.shared.ledger.used();
        assert!((4 * MIB..8 * MIB).contains(&held), "{held}");
        let body = sync("1", &"b".repeat(700_000));
        let (mut other, from) = behind(&bench, 10);
        other.post_to("/", &from, &body).await;
        assert_eq!(other.status().await.0, 200);
        let mut direct = bench.connect();
        direct.post(&body).await;
        assert_eq!(direct.status().await.0, 200);
        // The proxy's connections belong to the client of the next request.
        drop(greedy);
        other
            .post_to("/", "X-Forwarded-For: 203.0.113.9\r\n", &body)
            .await;
        assert_eq!(other.status().await.0, 200);
        assert_eq!(bench.fake.state().clients.last().unwrap(), "203.0.113.9");
        drop(other);
        settle().await;
        assert_eq!(bench.shared.ledger.used(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn sharing_86_websockets_and_slow_readers_behind_a_proxy_are_in_their_clients_shares() {
    let bench = bench(|config| config.buffer.bytes = 16 * MIB);
    let mut greedy = Vec::new();
    for _ in 0..40 {
        let (mut client, from) = behind(&bench, 9);
        let forwarded = format!("\r\n{from}\r\n");
        client.send(HANDSHAKE.replace("\r\n\r\n", &forwarded)).await;
        assert!(client.answer().await.0.contains(" 101 "));
        let part = frame(wire::ws::frame::TEXT, &vec![b'x'; 800_000]);
        let _ = timeout(Duration::from_millis(1), client.0.write_all(&part)).await;
        greedy.push(client);
    }
    for _ in 0..40 {
        bench.will_answer(ReadAnswer::whole(200, &"y".repeat(400_000)));
        let (mut client, from) = behind(&bench, 9);
        client.post_to("/", &from, &call("1", "genesis")).await;
        greedy.push(client);
    }
    settle().await;
    let held = bench.shared.ledger.used();
    assert!((4 * MIB..8 * MIB).contains(&held), "{held}");
    let (mut other, from) = behind(&bench, 10);
    let body = sync("1", &"b".repeat(700_000));
    other.post_to("/", &from, &body).await;
    assert_eq!(other.status().await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn sharing_86_requests_behind_a_proxy_are_bounded_as_connections_and_as_work() {
    let bench = bench(|config| config.fixed.most_connections = 8);
    bench.fake.state().hold = true;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let (mut client, from) = behind(&bench, 9);
        client.post_to("/", &from, &sync("1", "a")).await;
        waiting.push(client);
    }
    settle().await;
    let (mut client, from) = behind(&bench, 9);
    client.post_to("/", &from, &sync("1", "a")).await;
    assert_eq!(client.status().await.0, 429);
    let (mut other, from) = behind(&bench, 10);
    other.post_to("/", &from, &sync("1", "b")).await;
    settle().await;
    bench.fake.release();
    assert_eq!(other.status().await.0, 200);
    for client in &mut waiting {
        assert_eq!(client.status().await.0, 200);
    }
    // A connection on which one client's answer is held back is another's as soon as that has gone out.
    bench.fake.state().hold = false;
    let start = Instant::now();
    let client = &mut waiting[0];
    for _ in 0..1_200 {
        client
            .post_to("/", "X-Forwarded-For: 203.0.113.9\r\n", "{}")
            .await;
        client.status().await;
    }
    assert!((190..220).contains(&start.elapsed().as_millis()));
    let start = Instant::now();
    client
        .post_to("/", "X-Forwarded-For: 203.0.113.10\r\n", "{}")
        .await;
    client.status().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(bench.shared.budget.connections(), 5);
    // And a session is one connection of its client's.
    let forwarded = "\r\nX-Forwarded-For: 203.0.113.11\r\n\r\n";
    let mut sessions = Vec::new();
    for status in ["101", "101", "429"] {
        let mut client = bench.connect_from([10, 0, 0, 1]);
        client.send(HANDSHAKE.replace("\r\n\r\n", forwarded)).await;
        let (head, _) = client.answer().await;
        assert_eq!(&head[9..12], status);
        client.send(text(&sync(1, "c"))).await;
        sessions.push(client);
    }
}
