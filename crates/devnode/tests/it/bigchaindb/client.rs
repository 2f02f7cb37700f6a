//! A node with BigchainDB on it, and its clients.

use std::time::Duration;

use bigchain::json::{self, Limits, Value};
use bigchain::{Create, KeyPair, Output, Transaction};
use devnode::{Application, Config, Validation};
use futures_util::StreamExt;
use testkit::{Http, HttpAnswer};
use tokio::net::TcpStream;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::support::{Running, quick, start};

/// A node with short blocks and BigchainDB on it.
pub(crate) fn config(validation: Validation) -> Config {
    let mut config = Config {
        app: Application::Bigchaindb,
        ..quick()
    };
    config.bigchaindb.validation = validation;
    config.bigchaindb.workers = 3;
    config
}

pub(crate) async fn bigchaindb() -> Running {
    start(config(Validation::Parallel)).await
}

/// A request to the HTTP API over a connection of its own.
pub(crate) async fn api(
    running: &Running,
    method: &'static str,
    path: &str,
    body: &[u8],
) -> HttpAnswer {
    let address = running.node.api_address().unwrap();
    let http = Http::new(address, Duration::from_secs(30));
    let (path, body) = (path.to_owned(), body.to_vec());
    tokio::task::spawn_blocking(move || http.request(method, &path, &[], &body))
        .await
        .unwrap()
        .unwrap()
}

/// The JSON that the HTTP API answers to a GET.
pub(crate) async fn get(running: &Running, path: &str) -> serde_json::Value {
    serde_json::from_slice(&api(running, "GET", path, b"").await.body).unwrap()
}

/// Status and JSON that the HTTP API answers to a transaction.
pub(crate) async fn post(running: &Running, mode: &str, body: &[u8]) -> (u16, serde_json::Value) {
    let (status, text) = post_raw(running, mode, body).await;
    (status, serde_json::from_str(&text).unwrap())
}

/// Status and text that the HTTP API answers to a transaction, which may be deeper than the reader
/// of the tests goes.
pub(crate) async fn post_raw(running: &Running, mode: &str, body: &[u8]) -> (u16, String) {
    let path = format!("/api/v1/transactions?mode={mode}");
    let answer = api(running, "POST", &path, body).await;
    (answer.status, answer.text())
}

/// The status and message that refuse a transaction.
pub(crate) async fn refusal(running: &Running, body: &[u8]) -> (u16, String) {
    let (status, answer) = post(running, "commit", body).await;
    (status, answer["message"].as_str().unwrap().to_owned())
}

/// Hands a transaction to Tendermint as the original does: base64 of the text in a list.
pub(crate) async fn broadcast(running: &Running, method: &str, text: &str) -> serde_json::Value {
    let tx = base64_simd::STANDARD.encode_to_string(text);
    let request =
        serde_json::json!({"jsonrpc": "2.0", "id": "one", "method": method, "params": [tx]});
    running.post(&request.to_string()).await
}

/// The event stream's messages.
pub(crate) struct Events(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Events {
    pub(crate) async fn of(running: &Running) -> Self {
        let address = running.node.events_address().unwrap();
        let url = format!("ws://{address}/api/v1/streams/valid_transactions");
        Self(tokio_tungstenite::connect_async(url).await.unwrap().0)
    }

    pub(crate) async fn next(&mut self) -> serde_json::Value {
        let message = self.0.next().await.unwrap().unwrap();
        serde_json::from_str(message.to_text().unwrap()).unwrap()
    }
}

pub(crate) fn pair(number: u8) -> KeyPair {
    KeyPair::from_seed([number; 32])
}

/// A CREATE of an asset of its own.
pub(crate) fn create(owner: &KeyPair, number: i64, shares: u64) -> Transaction {
    Create::new()
        .metadata(json::Object::new().with("number", number))
        .signer(owner.public())
        .output(Output::to(&[owner.public()], shares).unwrap())
        .sign(&[owner])
        .unwrap()
}

/// A file of vectors.
pub(crate) fn vectors(text: &str) -> Value {
    let limits = Limits {
        bytes: 8 << 20,
        ..Limits::default()
    };
    json::parse_within(text.as_bytes(), limits).unwrap()
}

pub(crate) const VALID: &str = include_str!("../../../../bigchain/tests/vectors/valid.json");
pub(crate) const CASES: &str = include_str!("../../../../bigchain/tests/vectors/cases.json");

/// The transaction of a name in one of the two files, as the original's text.
pub(crate) fn vector(name: &str) -> String {
    for (file, list) in [(VALID, "vectors"), (CASES, "cases")] {
        let file = vectors(file);
        let found = file.get(list).and_then(Value::as_array).unwrap().iter();
        let mut named = found.filter(|vector| vector.get("name").unwrap().as_str() == Some(name));
        if let Some(vector) = named.next() {
            return json::default_text(vector.get("tx").unwrap());
        }
    }
    panic!("no vector {name}")
}

const PAIR: &str = include_str!("../../../../bigchain/tests/vectors/double-spend-pair.json");

/// Two TRANSFERs that spend the output of `create-asset`.
pub(crate) fn double_spends() -> Vec<String> {
    let file = vectors(PAIR);
    let pair = file.get("pair").and_then(Value::as_array).unwrap();
    pair.iter().map(json::default_text).collect()
}
