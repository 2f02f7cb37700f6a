//! Answers in the dialect of Tendermint 0.31.5, held against those of a real one: the same lines, but
//! for the values in them.

use devnode::{Dialect, Validation};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::client::{Events, broadcast, config, create, double_spends, pair, post, vector};
use crate::support::{Running, start};

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!(
            "../../../../testkit/dialects/tendermint-0.31.5/",
            $name,
            ".json"
        ))
    };
}

/// A text without its values: lines of indentation, key, and kind of value.
fn shape(text: &str) -> Vec<String> {
    text.lines().map(shape_of_line).collect()
}

fn shape_of_line(line: &str) -> String {
    let (key, value) = match line.split_once("\": ") {
        Some((key, value)) => (format!("{key}\": "), value),
        None => {
            let indent = line.len() - line.trim_start().len();
            (line[..indent].to_owned(), line.trim_start())
        }
    };
    let comma = if value.ends_with(',') { "," } else { "" };
    let value = value.trim_end_matches(',');
    let kind = match value.as_bytes()[0] {
        b'"' => "text",
        b'0'..=b'9' => "number",
        _ => value,
    };
    format!("{key}{kind}{comma}")
}

/// The text that a method answers.
async fn ask(running: &Running, method: &str, params: Value) -> String {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    running.ask("POST", "/", &request.to_string()).await.text()
}

async fn start_old() -> Running {
    let mut config = config(Validation::Parallel);
    config.rpc.dialect = Dialect::Tendermint031;
    start(config).await
}

fn base64(text: &str) -> String {
    base64_simd::STANDARD.encode_to_string(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_values_of_its_own_is_answered_to_the_letter() {
    let running = start_old().await;
    let text = vector("create-asset");
    broadcast(&running, "broadcast_tx_sync", &text).await;
    for (method, params, recorded) in [
        ("net_info", json!({}), recorded!("net_info")),
        ("such_a_method", json!({}), recorded!("unknown_method")),
        (
            "broadcast_tx_sync",
            json!({"tx": "!"}),
            recorded!("bad_params"),
        ),
        (
            "block",
            json!({"height": "1000000"}),
            recorded!("block_above_head"),
        ),
        (
            "broadcast_tx_sync",
            json!({"tx": base64(&text)}),
            recorded!("broadcast_tx_sync_again"),
        ),
    ] {
        let answer = ask(&running, method, params).await;
        assert_eq!(answer.trim_end(), recorded.trim_end(), "{method}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_else_has_the_originals_lines() {
    let running = start_old().await;
    let mut events = Events::of(&running).await;
    let check = async |method: &str, params: Value, recorded: &str| {
        let answer = ask(&running, method, params).await;
        assert_eq!(shape(&answer), shape(recorded), "{method}: {answer}");
        serde_json::from_str::<Value>(&answer).unwrap()
    };
    let owner = pair(1);
    let tx = |number| json!({"tx": base64(&create(&owner, number, 1).text())});
    let recorded = recorded!("num_unconfirmed_txs");
    check("num_unconfirmed_txs", json!({}), recorded).await;
    for (method, number, recorded) in [
        ("broadcast_tx_sync", 1, recorded!("broadcast_tx_sync")),
        ("broadcast_tx_async", 2, recorded!("broadcast_tx_async")),
        ("broadcast_tx_commit", 3, recorded!("broadcast_tx_commit")),
    ] {
        check(method, tx(number), recorded).await;
        events.next().await;
    }
    let refused = json!({"tx": base64("{}")});
    let recorded = recorded!("broadcast_tx_sync_refused");
    let answer = check("broadcast_tx_sync", refused, recorded).await;
    assert_eq!(answer["result"]["code"], 1);

    post(&running, "commit", vector("create-asset").as_bytes()).await;
    events.next().await;
    running.node.faults().halt();
    for text in &double_spends() {
        broadcast(&running, "broadcast_tx_sync", text).await;
    }
    running.node.faults().resume();
    let height = events.next().await["height"].to_string();
    let at = json!({"height": height});
    let block = check("block", at.clone(), recorded!("block")).await;
    assert_eq!(block["result"]["block_meta"]["header"]["total_txs"], "6");
    let recorded = recorded!("block_results");
    let results = check("block_results", at, recorded).await;
    let codes = json!([null, {"code": 1}]);
    assert_eq!(results["result"]["results"]["DeliverTx"], codes);

    let block = running.node.block(height.parse().unwrap()).unwrap();
    let hash = base64_simd::STANDARD.encode_to_string(block.txs[0].0);
    check("tx", json!({"hash": hash, "prove": false}), recorded!("tx")).await;
    check("status", json!({}), recorded!("status")).await;
    check("consensus_params", json!({}), recorded!("consensus_params")).await;
    let first = json!({"minHeight": "1", "maxHeight": "3"});
    check("blockchain", first, recorded!("blockchain")).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_have_the_originals_lines() {
    let running = start_old().await;
    let url = running.node.ws_url();
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    let query = json!({"query": "tm.event='NewBlock'"});
    let request = json!({"jsonrpc": "2.0", "id": 7, "method": "subscribe", "params": query});
    socket
        .send(Message::text(request.to_string()))
        .await
        .unwrap();
    let mut text = async || socket.next().await.unwrap().unwrap().to_string();
    assert_eq!(text().await, recorded!("ws_subscribe_reply").trim_end());
    let created = create(&pair(1), 1, 1);
    broadcast(&running, "broadcast_tx_sync", &created.text()).await;
    // Blocks are empty until the one with the transaction.
    let event = loop {
        let event = text().await;
        if event.contains("\"num_txs\": \"1\"") {
            break event;
        }
    };
    assert_eq!(shape(&event), shape(recorded!("ws_new_block")), "{event}");
    running.stop().await;
}
