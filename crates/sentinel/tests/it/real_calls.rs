//! Whatever a real node executes as a broadcast is a write here, of the same transaction: nothing dodges the lane.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use testkit::{CometBft, CometOptions, Http};

use wire::calls::{Call, Classified, JsonLimits, UriRoute, classify, classify_uri};
use wire::encoding::hex_text;

const LIMITS: JsonLimits = JsonLimits {
    depth: 64,
    batch: 10,
};

/// Bodies of a POST; `T` stands for a transaction in base64 that is new each time.
const BODIES: [&str; 32] = [
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"T"}}"#,
    r#" {"params":["T"],"method":"broadcast_tx_async","id":"a"}"#,
    r#"{"ID":1,"METHOD":"broadcast_tx_sync","PARAMS":{"tx":"T"}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","paramſ":{"tx":"T"}}"#,
    r#"{"id":1,"m\u0065thod":"broadcast\u005ftx_sync","params":{"t\u0078":"T"}}"#,
    r#"{"id":1,"method":"status","method":"broadcast_tx_sync","params":{"tx":"T"}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","method":"status","params":{}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","Method":null,"params":{"tx":"T"}}"#,
    r#"{"id":null,"ID":1,"method":"broadcast_tx_sync","params":{"tx":"T"}}"#,
    r#"{"id":1,"Id":null,"method":"broadcast_tx_sync","params":{"tx":"T"}}"#,
    r#"{"id":[],"id":1,"method":"broadcast_tx_sync","params":{"tx":"T"}}"#,
    r#"{"id":1e400,"id":1,"method":"broadcast_tx_sync","params":{"tx":"T"}}"#,
    r#"{"id":1.5,"method":"broadcast_tx_sync","params":{"tx":"T"}}"#,
    r#"{"id":-0,"method":"broadcast_tx_sync","params":{"tx":"T"}}"#,
    r#"{"id":"<\ud800>","method":"broadcast_tx_sync","params":{"tx":"T"}}"#,
    r#"{"id":1,"jsonrpc":2,"method":"broadcast_tx_sync","params":{"tx":"T"}}"#,
    r#"{"id":1,"jsonrpc":null,"method":"broadcast_tx_sync","params":{"tx":"T"}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"T","x":1}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"!","tx":"T"}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":[97,61,1]}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":null}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"TX":"T"}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":null}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"T"},"x":[[[]]]}"#,
    r#"{"id":1,"method":"broadcast_tx_sync ","params":{"tx":"T"}}"#,
    r#"{"id":1,"method":"Broadcast_tx_sync","params":{"tx":"T"}}"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"T"}}x"#,
    r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"T"},}"#,
    r#"[{"id":1,"method":"broadcast_tx_sync","params":{"tx":"T"}}]"#,
    r#"[{"id":1,"method":"broadcast_tx_sync","params":{"tx":"T"}},null,{}]"#,
    r#"[{"id":1,"method":"broadcast_tx_sync","params":{"tx":"T"}},5]"#,
    r#"[{"id":1,"method":"broadcast_tx_sync","params":{"tx":"T"}},{"id":{}}]"#,
];

/// Targets; `T` stands for a new transaction.
const TARGETS: [&str; 17] = [
    "/broadcast_tx_sync?tx=\"T\"",
    "/broadcast_tx_sync?tx=%22T%22",
    "/broadcast_tx_sync?%74x=\"T\"",
    "/broadcast_tx_sync?a;b&tx=%zz&tx=\"T\"&tx=\"x\"",
    "/broadcast_tx_async?tx=\"\\u0061T\"",
    "/broadcast%5Ftx_sync?tx=\"T\"",
    "//broadcast_tx_sync?tx=\"T\"",
    "/./broadcast_tx_sync?tx=\"T\"",
    "/%2E/broadcast_tx_sync?tx=\"T\"",
    "/x/../broadcast_tx_sync?tx=\"T\"",
    "/broadcast_tx_sync/?tx=\"T\"",
    "/broadcast_tx_sync;x?tx=\"T\"",
    "/Broadcast_tx_sync?tx=\"T\"",
    "http://h/broadcast_tx_sync?tx=\"T\"",
    "http://u@h:1/broadcast_tx_sync?tx=\"T\"",
    "x:/broadcast_tx_sync?tx=\"T\"",
    "x:broadcast_tx_sync?tx=\"T\"",
];

/// Whether a broadcast went through to the mempool.
fn was_executed(answer: &str) -> bool {
    answer.contains("\"hash\":") || answer.contains("already exists in cache")
}

/// Whether a node answered about this transaction, or about one that it had before.
fn is_of(tx: &[u8], answer: &str) -> bool {
    let hash: [u8; 32] = Sha256::digest(tx).into();
    answer.contains(&hex_text(&hash)) || answer.contains("already exists in cache")
}

fn is_write(classified: &Classified<'_>) -> bool {
    let is_write = |call: &Call<'_>| matches!(call, Call::Write { .. });
    match classified {
        Classified::One(call) => is_write(call),
        Classified::Batch(elements) => elements.iter().any(|element| is_write(&element.call)),
        Classified::Unparsable => false,
    }
}

#[test]
#[ignore = "needs cometbft"]
fn case_41_what_the_node_executes_is_a_write() {
    let node = CometBft::start(CometOptions::default()).unwrap();
    let http = Http::new(node.address(), Duration::from_secs(10));
    let mut executed = 0;
    for (count, body) in BODIES.iter().enumerate() {
        let tx = base64_simd::STANDARD.encode_to_string(format!("body{count:02}=1"));
        let body = body.replace("\"T\"", &format!("\"{tx}\""));
        let answer = http.post("/", body.as_bytes()).unwrap().text();
        let classified = classify(body.as_bytes(), &LIMITS).unwrap();
        assert_eq!(
            is_write(&classified),
            was_executed(&answer),
            "{body}: {answer}"
        );
        executed += usize::from(was_executed(&answer));
        if let Classified::One(Call::Write { tx, .. }) = &classified {
            assert!(is_of(tx, &answer), "{body}: {answer}");
        }
    }
    for (count, target) in TARGETS.iter().enumerate() {
        let target = target.replace('T', &format!("target{count}=1"));
        for method in ["GET", "POST", "CONNECT"] {
            let answer = http.request(method, &target, &[], b"").unwrap().text();
            let kind = classify_uri(target.as_bytes()).kind;
            let is_write = matches!(kind, UriRoute::Write { .. });
            if let UriRoute::Write { tx: Some(tx), .. } = kind
                && was_executed(&answer)
            {
                assert!(is_of(&tx, &answer), "{target}: {answer}");
            }
            // A few that this version does not execute are watched all the same.
            assert!(is_write || !was_executed(&answer), "{target}: {answer}");
            executed += usize::from(was_executed(&answer));
        }
    }
    // The other half of the truth: they were what they were meant to be.
    assert!(executed > 40, "{executed} were executed");
}
