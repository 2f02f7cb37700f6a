//! What a running BigchainDB 2.2.2 answered, asked again in the same order.

use std::collections::HashMap;

use bigchain::json;
use serde_json::{Value, json};

use super::client::{CASES, Events, VALID, api, bigchaindb, post_raw, vectors};

const HTTP: &str = include_str!("../../vectors/http.json");

/// Texts of all transactions by name.
fn texts() -> HashMap<String, String> {
    let mut texts = HashMap::new();
    for (file, list) in [(CASES, "cases"), (VALID, "vectors")] {
        for vector in vectors(file).get(list).unwrap().as_array().unwrap() {
            let name = vector.get("name").unwrap().as_str().unwrap();
            let text = json::default_text(vector.get("tx").unwrap());
            texts.insert(name.to_owned(), text);
        }
    }
    texts
}

/// All 196 posts have the original's status and words, the 50 transactions that take effect are
/// told in its order, and the 45 other requests are answered as it answered them.
#[tokio::test(flavor = "multi_thread")]
async fn the_original_and_the_node_answer_alike() {
    let recorded: Value = serde_json::from_str(HTTP).unwrap();
    let texts = texts();
    let running = bigchaindb().await;
    let mut events = Events::of(&running).await;
    let mut accepted = 0;
    let mut different = Vec::new();
    for wanted in recorded["posts"].as_array().unwrap() {
        let name = wanted["name"].as_str().unwrap();
        let (status, text) = post_raw(&running, "commit", texts[name].as_bytes()).await;
        let answer = json::parse(text.as_bytes()).unwrap();
        let message = |answer: &json::Value| answer.get("message").cloned();
        let same = match wanted["status"].as_u64().unwrap() {
            202 => {
                accepted += 1;
                status == 202 && json::default_text(&answer) == texts[name]
            }
            // The original crashes; here it is a refusal in the original's form.
            500 => status == 400 && message(&answer).is_some(),
            _ => {
                let wanted = json::parse(wanted["body"].to_string().as_bytes()).unwrap();
                status == 400
                    && message(&answer) == message(&wanted)
                    && answer.get("status") == wanted.get("status")
            }
        };
        if !same {
            different.push(format!("{name}: {status} {text} and not {wanted}"));
        }
    }
    assert_eq!(accepted, 50);
    assert_eq!(different, Vec::<String>::new());
    // Heights are those of this chain.
    let mut heights = HashMap::new();
    for wanted in recorded["events"].as_array().unwrap() {
        let event = events.next().await;
        for member in ["asset_id", "transaction_id"] {
            assert_eq!(event[member], wanted[member]);
        }
        heights.insert(wanted["height"].as_u64().unwrap(), event["height"].clone());
    }
    for wanted in recorded["requests"].as_array().unwrap() {
        check(&running, wanted, &heights, &texts["create-asset"]).await;
    }
    running.stop().await;
}

/// Asks one of the other requests; what names heights and addresses is translated.
async fn check(
    running: &crate::support::Running,
    wanted: &Value,
    heights: &HashMap<u64, Value>,
    committed: &str,
) {
    let mut path = wanted["path"].as_str().unwrap().to_owned();
    let mut body = wanted["body"].clone();
    if let Some(height) = path
        .strip_prefix("/api/v1/blocks/2")
        .filter(|rest| rest.is_empty())
    {
        assert_eq!(height, "");
        path = format!("/api/v1/blocks/{}", heights[&2]);
        body["height"] = heights[&2].clone();
    }
    if path.starts_with("/api/v1/blocks?") && body.as_array().is_some_and(|all| !all.is_empty()) {
        body = json!([heights[&body[0].as_u64().unwrap()]]);
    }
    let recorded = "ws://localhost:19985";
    let own = format!("ws://{}", running.node.events_address().unwrap());
    let body = body.to_string().replace(recorded, &own);
    let method = match wanted["method"].as_str().unwrap() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        _ => "DELETE",
    };
    let request = match wanted["request_body"].as_str() {
        Some(text) if text.starts_with('<') => committed,
        other => other.unwrap_or_default(),
    };
    let answer = api(running, method, &path, request.as_bytes()).await;
    assert_eq!(
        u64::from(answer.status),
        wanted["status"],
        "{method} {path}"
    );
    let kind = wanted["content_type"]
        .as_str()
        .unwrap_or("application/json");
    assert_eq!(answer.header("content-type"), Some(kind), "{method} {path}");
    let got = match kind {
        "application/json" => serde_json::from_slice(&answer.body).unwrap(),
        _ => Value::String(answer.text()),
    };
    let wanted_body: Value = serde_json::from_str(&body).unwrap();
    if path == "/api/v1/validators" {
        assert_eq!(
            got[0]["public_key"]["type"],
            wanted_body[0]["public_key"]["type"]
        );
        assert_eq!(got[0]["voting_power"], wanted_body[0]["voting_power"]);
        return;
    }
    assert_eq!(got, wanted_body, "{method} {path}");
}
