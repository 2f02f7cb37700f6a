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

/// All 196 posts have the original's status and class of refusal, the 50 transactions that take effect are
/// published in its order, and what it answered to other requests with status 200 is answered the same.
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
        let message = |answer: &json::Value| {
            let text = answer.get("message")?.as_str()?;
            Some(text.to_owned())
        };
        let same = match wanted["status"].as_u64().unwrap() {
            202 => {
                accepted += 1;
                status == 202 && json::default_text(&answer) == texts[name]
            }
            // The original crashes; here it is a refusal in the original's form.
            500 => status == 400 && message(&answer).is_some(),
            _ => {
                let wanted = wanted["body"]["message"].as_str().unwrap();
                status == 400 && message(&answer).is_some_and(|text| kind(&text) == kind(wanted))
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
    let requests = recorded["requests"].as_array().unwrap().iter();
    for wanted in requests.filter(|wanted| is_of_the_contract(wanted)) {
        check(&running, wanted, &heights).await;
    }
    running.stop().await;
}

/// What a message begins with: `Invalid transaction (CLASS)`.
fn kind(message: &str) -> &str {
    message.split(':').next().unwrap_or_default()
}

/// Requests that succeeded, and whose answer the node still has.
fn is_of_the_contract(wanted: &Value) -> bool {
    let path = wanted["path"].as_str().unwrap();
    let is_query = ["outputs?", "transactions", "blocks"];
    let is_query = is_query
        .iter()
        .any(|name| path.starts_with(&format!("/api/v1/{name}")));
    wanted["method"] == "GET" && wanted["status"] == 200 && is_query
}

/// Asks one of the other requests; what names heights is translated.
async fn check(running: &crate::support::Running, wanted: &Value, heights: &HashMap<u64, Value>) {
    let mut path = wanted["path"].as_str().unwrap().to_owned();
    let mut body = wanted["body"].clone();
    if path == "/api/v1/blocks/2" {
        path = format!("/api/v1/blocks/{}", heights[&2]);
        body["height"] = heights[&2].clone();
    }
    if path.starts_with("/api/v1/blocks?") && body.as_array().is_some_and(|all| !all.is_empty()) {
        body = json!([heights[&body[0].as_u64().unwrap()]]);
    }
    let answer = api(running, "GET", &path, b"").await;
    assert_eq!(answer.status, 200, "{path}");
    let got: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(got, body, "{path}");
}
