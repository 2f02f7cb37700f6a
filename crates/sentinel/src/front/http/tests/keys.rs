//! Clients that are known by a key.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::streams::{post, speak, text};
use super::*;
use crate::config::Config;
use crate::front::websocket::tests::text as frame;
use crate::keys::KnownKeys;

/// A front with the key `alice`, which allows writes and `status`.
fn bench() -> Bench {
    bench_with(|_| {})
}

fn bench_with(change: impl FnOnce(&mut Config)) -> Bench {
    let hash = wire::encoding::hex_text(&Sha256::digest("alice"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.toml");
    let methods = "methods = [\"broadcast_tx_sync\", \"status\"]";
    let text =
        format!("query = \"key\"\n[[keys]]\nname = \"a\"\nsecret_sha256 = \"{hash}\"\n{methods}\n");
    std::fs::write(&file, text).unwrap();
    Bench::with(|config| {
        config.known = Arc::new(KnownKeys::load(file.to_str()).unwrap());
        change(config);
    })
}

const ALICE: &str = "X-Api-Key: alice\r\n";

#[tokio::test(start_paused = true)]
async fn identity_36_requests_with_a_key_are_its_client_and_those_without_their_networks() {
    let bench = bench();
    for network in [[192, 0, 2, 1], [192, 0, 2, 2]] {
        let mut client = bench.connect_from(network);
        client.post_to("/", ALICE, &sync(1, "x")).await;
        assert_eq!(client.status().await, (200, answer_to(1, "x")));
        // On the same connection.
        client.post(&sync(1, "x")).await;
        assert_eq!(client.status().await, (200, answer_to(1, "x")));
        client.get("/broadcast_tx_sync?tx=0x78&key=alice").await;
        assert_eq!(client.status().await.0, 200);
    }
    let clients = bench.fake.state().clients.clone();
    let [first, _, third, fourth, _, sixth] = &clients[..] else {
        panic!("{clients:?}");
    };
    assert!(first.starts_with("4") && first.ends_with("/48"), "{first}");
    assert!([third, fourth, sixth].iter().all(|client| *client == first));
    assert_eq!([&*clients[1], &*clients[4]], ["192.0.2.1", "192.0.2.2"]);
    settle().await;
    assert_eq!(bench.shared.ledger.used(), 0);
}

/// Its refusal named the page that had asked before on the same connection.
#[tokio::test(start_paused = true)]
async fn identity_36_an_unknown_key_is_refused_to_the_page_that_has_it() {
    let bench = bench_with(|config| config.cors.origins = vec!["https://a.example".to_owned()]);
    for (origin, may_read) in [("https://b.example", false), ("https://a.example", true)] {
        let mut client = bench.connect();
        let page = "Origin: https://a.example\r\n";
        client.post_to("/", page, &sync(1, "x")).await;
        assert!(client.answer().await.0.contains("Access-Control"));
        let page = format!("Origin: {origin}\r\nX-Api-Key: bob\r\n");
        client.post_to("/", &page, &sync(2, "x")).await;
        let (head, _) = client.answer().await;
        assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
        assert_eq!(head.contains("Access-Control"), may_read, "{head}");
    }
}

#[tokio::test(start_paused = true)]
async fn identity_36_an_unknown_key_is_refused_and_a_known_one_bound_to_its_methods() {
    let bench = bench();
    let mut client = bench.connect();
    client
        .post_to("/", "X-Api-Key: bob\r\n", &sync(1, "x"))
        .await;
    let (status, body) = client.status().await;
    assert!(
        status == 403 && body.contains("not known"),
        "{status} {body}"
    );
    let ask = async |body: &str| {
        let mut client = bench.connect();
        client.post_to("/", ALICE, body).await;
        client.status().await
    };
    assert_eq!(ask(&call(1, "status")).await.0, 200);
    let batch = format!("[{},{}]", call(1, "status"), call(2, "block"));
    for refused in [
        call(1, "block"),
        sync(1, "x").replace("sync", "async"),
        batch,
    ] {
        let (_, body) = ask(&refused).await;
        assert!(body.contains("this key may not call"), "{refused}: {body}");
    }
    let mut client = bench.connect();
    client.post(&call(1, "block")).await;
    assert_eq!(client.status().await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn identity_36_the_secret_goes_no_further() {
    let bench = bench();
    let mut client = bench.connect();
    client.get("/status?height=1&key=alice").await;
    assert_eq!(client.status().await.0, 200);
    let forwarded = bench.fake.state().forwarded.clone();
    assert_eq!(forwarded[0].1, "/status?height=1");
}

/// Before, a key that was taken back while its request's body was read went on to the node.
#[tokio::test(start_paused = true)]
async fn identity_36_a_reload_within_a_request_lets_no_secret_through() {
    let bench = bench();
    let mut client = bench.connect();
    let target = "/status?height=1&key=alice";
    let head = format!("POST {target} HTTP/1.1\r\nHost: node\r\nContent-Length: 2\r\n\r\n");
    client.send(head).await;
    settle().await;
    let config = bench.shared.config.current();
    bench.shared.config.replace(Config {
        known: Arc::default(),
        ..Config::clone(&config)
    });
    client.send("{}").await;
    assert_eq!(client.status().await.0, 200);
    let forwarded = bench.fake.state().forwarded.clone();
    assert_eq!(forwarded[0].1, "/status?height=1");
}

#[tokio::test(start_paused = true)]
async fn identity_36_a_websocket_is_whose_its_handshake_was() {
    let bench = bench();
    let mut client = bench.connect();
    let handshake = HANDSHAKE.replace("/websocket", "/websocket?key=alice");
    client.send(handshake).await;
    assert!(client.answer().await.0.starts_with("HTTP/1.1 101 "));
    client.send(frame(&sync(1, "x"))).await;
    assert_eq!(client.text().await, answer_to(1, "x"));
    client.send(frame(&call(2, "block"))).await;
    assert!(client.text().await.contains("this key may not call"));
    let clients = bench.fake.state().clients.clone();
    assert!(clients[0].ends_with("/48"), "{clients:?}");
}

#[tokio::test(start_paused = true)]
async fn identity_36_a_stream_is_whose_key_it_carries() {
    let bench = bench();
    let (io, _open) = bench.connect().into_parts();
    let (mut sender, _task) = speak(io).await;
    for key in [Some("alice"), None] {
        let mut request = post(&sync(1, "x"));
        if let Some(key) = key {
            request
                .headers_mut()
                .insert("x-api-key", key.parse().unwrap());
        }
        let answer = text(sender.send_request(request).await.unwrap()).await;
        assert_eq!(answer, answer_to(1, "x"));
    }
    let clients = bench.fake.state().clients.clone();
    assert!(clients[0].ends_with("/48"), "{clients:?}");
    assert_eq!(clients[1], "192.0.2.1");
}

/// A client of many connections has the bounds of one, as a client behind a trusted proxy.
#[tokio::test(start_paused = true)]
async fn identity_36_a_key_has_the_bounds_of_one_client() {
    let bench = bench();
    let known = bench.shared.config.load().known.client(Some(b"alice"), b"");
    let client = known.unwrap().unwrap();
    let take = || bench.shared.budget.request(client).ok();
    let taken: Vec<_> = std::iter::from_fn(take).collect();
    let mut other = bench.connect();
    other.post_to("/", ALICE, &sync(1, "x")).await;
    assert_eq!(other.status().await.0, 429);
    drop(taken);
    let mut other = bench.connect();
    other.post_to("/", ALICE, &sync(1, "x")).await;
    assert_eq!(other.status().await.0, 200);
}
