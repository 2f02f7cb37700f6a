//! Whatever comes over the API is refused in the original's form, and the node goes on.

use bigchain::json::{self, Object, Value};
use bigchain::{Create, Output, Transaction};
use devnode::Validation;

use super::client::{api, bigchaindb, config, create, get, pair, post, refusal, vector};
use crate::support::start;

fn one() -> Transaction {
    create(&pair(1), 1, 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_json_is_undecodable() {
    let running = bigchaindb().await;
    let deep = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
    let nested = one().text().replace("1}", &format!("{}}}", deep(10_000)));
    let closed = deep(10_000);
    let open = "[".repeat(10_000);
    let long = format!("{{\"a\": \"{}\"}}", "x".repeat(1 << 20));
    let bodies: [(&str, &[u8]); 9] = [
        ("empty", b""),
        ("spaces", b"  "),
        ("not utf-8", b"{\"a\": \"\xff\"}"),
        ("a lone surrogate", br#"{"a": "\ud800"}"#),
        (
            "surrogates the wrong way round",
            br#"{"a": "\udc00\ud800"}"#,
        ),
        ("depth 10,000", closed.as_bytes()),
        ("depth 10,000 in metadata", nested.as_bytes()),
        ("open for ever", open.as_bytes()),
        ("above 1 MiB", long.as_bytes()),
    ];
    for (name, body) in bodies {
        let (status, message) = refusal(&running, body).await;
        assert_eq!(status, 400, "{name}");
        assert!(message.starts_with("json: "), "{name}: {message}");
    }
    let (status, _) = post(&running, "commit", one().text().as_bytes()).await;
    assert_eq!(status, 202);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_above_the_limit_is_refused_unread() {
    let mut config = config(Validation::Parallel);
    config.bigchaindb.max_body_bytes = 1000;
    let running = start(config).await;
    let answer = api(&running, "POST", "/api/v1/transactions", &[b' '; 1001]).await;
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("too large"), "{}", answer.text());
    running.stop().await;
}

/// A transaction of just less than 1 MiB is one like any other.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_of_a_mebibyte_is_taken() {
    let running = bigchaindb().await;
    let owner = pair(1);
    let large = Create::new()
        .asset(Object::new().with("_", "x".repeat((1 << 20) - 1000)))
        .signer(owner.public())
        .output(Output::to(&[owner.public()], 1).unwrap())
        .sign(&[&owner])
        .unwrap();
    let (status, answer) = post(&running, "commit", large.text().as_bytes()).await;
    assert_eq!(status, 202, "{answer}");
    let found = get(&running, &format!("/api/v1/transactions/{}", large.id())).await;
    assert_eq!(
        found["asset"]["data"]["_"].as_str().unwrap().len(),
        (1 << 20) - 1000
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_of_two_equal_keys_counts() {
    let running = bigchaindb().await;
    let text = one().text();
    let twice = text.replacen('{', "{\"version\": \"1.0\", \"metadata\": 7, ", 1);
    let (status, answer) = post(&running, "commit", twice.as_bytes()).await;
    assert_eq!(status, 202, "{answer}");
    assert_eq!(answer["version"], "2.0");
    let other = text.replacen(
        "\"version\": \"2.0\"",
        "\"version\": \"2.0\", \"version\": \"1.0\"",
        1,
    );
    let (status, message) = refusal(&running, other.as_bytes()).await;
    assert_eq!(status, 400);
    assert!(message.contains("InvalidHash"), "{message}");
    running.stop().await;
}

/// The original takes such a transaction and then stops for ever, because its database cannot hold
/// the number. Here it is stored.
#[tokio::test(flavor = "multi_thread")]
async fn integers_beyond_64_bits_stop_nobody() {
    let owner = pair(1);
    let digits = "9223372036854775808";
    let metadata =
        json::parse(format!("{{\"big\": {digits}, \"bigger\": {digits}{digits}}}").as_bytes());
    let Value::Object(metadata) = metadata.unwrap() else {
        panic!("no object");
    };
    let large = Create::new()
        .metadata(metadata)
        .signer(owner.public())
        .output(Output::to(&[owner.public()], 1).unwrap())
        .sign(&[&owner])
        .unwrap();
    let running = bigchaindb().await;
    let (status, _) = post(&running, "commit", large.text().as_bytes()).await;
    assert_eq!(status, 202);
    let path = format!("/api/v1/transactions/{}", large.id());
    let found = api(&running, "GET", &path, b"").await.text();
    assert!(found.contains(&format!("{digits}{digits}")), "{found}");
    running.stop().await;
}

/// Bytes changed at random, one request after the other.
#[tokio::test(flavor = "multi_thread")]
async fn broken_texts_never_break_the_node() {
    let running = bigchaindb().await;
    let text = vector("create-nested").into_bytes();
    let original = json::parse(&text).unwrap();
    // A fixed sequence, so that what fails once fails always.
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    for _ in 0..200 {
        let mut broken = text.clone();
        for _ in 0..=next(3) {
            let at = next(broken.len());
            match next(3) {
                0 => broken[at] = u8::try_from(next(256)).unwrap(),
                1 => {
                    broken.remove(at);
                }
                _ => broken.truncate(at.max(1)),
            }
        }
        if json::parse(&broken).is_ok_and(|body| body == original) {
            continue;
        }
        let (status, answer) = post(&running, "sync", &broken).await;
        assert_eq!(
            status,
            400,
            "{answer} for {}",
            String::from_utf8_lossy(&broken)
        );
        assert!(answer["message"].is_string());
    }
    let (status, _) = post(&running, "commit", &text).await;
    assert_eq!(status, 202);
    running.stop().await;
}
