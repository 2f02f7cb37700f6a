//! The same requests to this node and to a real CometBFT, answer against answer.
//!
//! Both make blocks only for transactions, so that heights, application hashes and results are the
//! same on both and are compared exactly. What must differ is in [`FORM_ONLY`] and compared by its
//! form; what is not compared at all is in [`IGNORED_HEADERS`]. There is nothing else.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use devnode::Config;
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use testkit::{CometBft, CometOptions, Http, HttpAnswer};
use tokio_tungstenite::tungstenite::Message;

use crate::corpus::{self, Request};
use crate::support::{Running, start};

/// Members whose values follow from keys or clocks: same type, same length class, same alphabet.
const FORM_ONLY: &[&str] = &[
    // clocks
    "time",
    "timestamp",
    "genesis_time",
    "latest_block_time",
    "earliest_block_time",
    "start_time",
    "commit_time",
    // the validator's key
    "address",
    "validator_address",
    "proposer_address",
    "validators_hash",
    "next_validators_hash",
    "signature",
    // hashes over these
    "hash_of_block",
    "last_commit_hash",
    "latest_block_hash",
    "earliest_block_hash",
    // the node
    "id_of_node",
    "listen_addr",
    "rpc_address",
    // bytes of a block vary with its times; the document of the genesis has time and key in it
    "block_size",
    "genesis_chunk",
    // two internal views of the consensus, which are documented as unstable
    "votes_of_last_commit",
];

/// Headers whose values are not compared; that they are there is.
const IGNORED_HEADERS: &[&str] = &[
    "date",
    "x-server-time",
    "content-length",
    "sec-websocket-accept",
];

/// How long both nodes must stand still to count as settled: several block intervals.
const STILL: Duration = Duration::from_millis(500);

struct Pair {
    ours: Running,
    real: CometBft,
}

impl Pair {
    /// Starts both alike.
    async fn start(options: CometOptions, config: Config) -> Self {
        let options = options
            .set("consensus.create_empty_blocks", "false")
            .set("moniker", "twin");
        let real = tokio::task::spawn_blocking(move || CometBft::start(options).unwrap())
            .await
            .unwrap();
        let status = ask(real.address(), &Request::get("/status")).await;
        let status: Value = serde_json::from_slice(&status.body).unwrap();
        let chain_id = status["result"]["node_info"]["network"]
            .as_str()
            .unwrap()
            .to_owned();
        let ours = start(Config {
            chain_id,
            moniker: "twin".to_owned(),
            create_empty_blocks: false,
            ..config
        })
        .await;
        Self { ours, real }
    }

    /// Waits until neither makes blocks, and checks that they stand at the same height.
    async fn settle(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut since = Instant::now();
        let mut last = (None, 0);
        while since.elapsed() < STILL {
            assert!(
                Instant::now() < deadline,
                "the nodes do not come to rest: {last:?}"
            );
            let now = (self.real.height(), self.ours.node.snapshot().height);
            if now != last {
                (last, since) = (now, Instant::now());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(last.0, Some(last.1), "the real node's height and ours");
    }

    /// Sends one request to both and compares.
    async fn compare(&self, request: &Request, faults: &mut Vec<String>) {
        let real = ask(self.real.address(), request).await;
        let ours = ask(self.ours.node.rpc_address(), request).await;
        let name = request.name();
        if real.status != ours.status {
            faults.push(format!("{name}: status {} is {}", real.status, ours.status));
        }
        let (real_headers, our_headers) = (headers(&real), headers(&ours));
        if real_headers != our_headers {
            faults.push(format!(
                "{name}: headers {real_headers:?} are {our_headers:?}"
            ));
        }
        let hosts = |text: String, address: SocketAddr| text.replace(&address.to_string(), "HOST");
        let real = hosts(real.text(), self.real.address());
        let ours = hosts(ours.text(), self.ours.node.rpc_address());
        compare_texts(&name, &real, &ours, faults);
    }

    /// Plays one conversation with both and compares.
    async fn converse(&self, conversation: &corpus::Conversation, faults: &mut Vec<String>) {
        let real = talk(&self.real.ws_url(), conversation).await;
        let ours = talk(&self.ours.node.ws_url(), conversation).await;
        let name = conversation.name;
        if real.len() != ours.len() {
            faults.push(format!(
                "{name}: {} messages are {}\n  real {real:#?}\n  ours {ours:#?}",
                real.len(),
                ours.len()
            ));
        }
        for (index, (real, ours)) in real.iter().zip(&ours).enumerate() {
            compare_texts(&format!("{name}, message {index}"), real, ours, faults);
        }
    }
}

async fn ask(address: SocketAddr, request: &Request) -> HttpAnswer {
    let request = request.clone();
    let ask = move || {
        let headers: Vec<(&str, &str)> = request.headers.clone();
        let http = Http::new(address, Duration::from_secs(20));
        http.request(
            request.method,
            &request.path,
            &headers,
            request.body.as_bytes(),
        )
        .unwrap()
    };
    tokio::task::spawn_blocking(ask).await.unwrap()
}

/// Sends message after message, each after the answer of the one before, then listens for events.
/// Events follow the answers, sorted: a node sends both as they come.
async fn talk(url: &str, conversation: &corpus::Conversation) -> Vec<String> {
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    let (mut answers, mut events) = (Vec::new(), Vec::new());
    let mut sort = |text: String| {
        let is_event = text.contains(r#""data":{"type""#);
        if is_event {
            events.push(text);
        } else {
            answers.push(text);
        }
        !is_event
    };
    for text in &conversation.messages {
        socket.send(Message::text(text.clone())).await.unwrap();
        // A notification is answered by nothing at all.
        while let Ok(Some(Ok(message))) =
            tokio::time::timeout(Duration::from_secs(2), socket.next()).await
        {
            if sort(message.into_text().unwrap().to_string()) {
                break;
            }
        }
    }
    while let Ok(Some(Ok(message))) = tokio::time::timeout(conversation.listen, socket.next()).await
    {
        sort(message.into_text().unwrap().to_string());
    }
    events.sort();
    answers.extend(events);
    answers
}

fn headers(answer: &HttpAnswer) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = answer
        .headers
        .iter()
        .filter(|(name, value)| !(name == "connection" && value == "close"))
        .map(|(name, value)| {
            let value = if IGNORED_HEADERS.contains(&name.as_str()) {
                ""
            } else {
                value
            };
            (name.clone(), value.to_owned())
        })
        .collect();
    headers.sort();
    headers
}

fn compare_texts(name: &str, real: &str, ours: &str, faults: &mut Vec<String>) {
    match (
        serde_json::from_str::<Value>(real),
        serde_json::from_str::<Value>(ours),
    ) {
        (Ok(real), Ok(ours)) => compare_values(name, &mut Vec::new(), &real, &ours, faults),
        _ if real == ours => {}
        _ => faults.push(format!("{name}:\n  real {real}\n  ours {ours}")),
    }
}

fn compare_values(
    name: &str,
    path: &mut Vec<String>,
    real: &Value,
    ours: &Value,
    faults: &mut Vec<String>,
) {
    match (real, ours) {
        (Value::Object(real), Value::Object(ours)) => {
            let keys: std::collections::BTreeSet<&String> =
                real.keys().chain(ours.keys()).collect();
            for key in keys {
                path.push(key.clone());
                match (real.get(key), ours.get(key)) {
                    (Some(real), Some(ours)) => compare_values(name, path, real, ours, faults),
                    (real, ours) => faults.push(format!(
                        "{name}: {}: real {real:?}, ours {ours:?}",
                        path.join(".")
                    )),
                }
                path.pop();
            }
        }
        (Value::Array(real), Value::Array(ours))
            if !form_only(path) && real.len() == ours.len() =>
        {
            for (index, (real, ours)) in real.iter().zip(ours).enumerate() {
                path.push(index.to_string());
                compare_values(name, path, real, ours, faults);
                path.pop();
            }
        }
        _ if real == ours => {}
        _ if form_only(path) && form(real) == form(ours) => {}
        _ => faults.push(format!(
            "{name}: {}: real {real}, ours {ours}",
            path.join(".")
        )),
    }
}

/// Whether a member is compared by its form; a few names mean something only in their place.
fn form_only(path: &[String]) -> bool {
    let at = |back: usize| {
        path.len()
            .checked_sub(back)
            .map_or("", |index| path[index].as_str())
    };
    let name = match (at(2), at(1)) {
        ("block_id" | "last_block_id" | "parts", "hash") => "hash_of_block",
        ("pub_key", "value") => "address",
        ("node_info", "id") => "id_of_node",
        ("result", "data") if path.len() == 2 => "genesis_chunk",
        ("last_commit", "votes") => "votes_of_last_commit",
        (_, name) => name,
    };
    FORM_ONLY.contains(&name)
}

/// The form of a value: its type and, for strings, what they are made of.
fn form(value: &Value) -> String {
    let Value::String(text) = value else {
        return match value {
            Value::Array(_) => "array".to_owned(),
            other => format!("{other}"),
        };
    };
    let all = |accept: fn(char) -> bool| !text.is_empty() && text.chars().all(accept);
    if text.starts_with("tcp://") {
        "address".to_owned()
    } else if text.len() > 20 && text.ends_with('Z') && text.contains('T') {
        "time".to_owned()
    } else if all(|c| c.is_ascii_digit()) && text.len() < 10 {
        "number".to_owned()
    } else if all(|c| matches!(c, '0'..='9' | 'A'..='F')) {
        format!("upper hex of {}", text.len())
    } else if all(|c| matches!(c, '0'..='9' | 'a'..='f')) {
        format!("lower hex of {}", text.len())
    } else if all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=')) {
        // Base64 of a document varies with the digits of its time.
        format!("base64 of {}", text.len().min(128))
    } else {
        text.clone()
    }
}

fn report(faults: &[String]) {
    assert!(
        faults.is_empty(),
        "{} differences:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs cometbft"]
async fn answers_are_those_of_a_real_node() {
    let interval = Duration::from_millis(100);
    let pair = Pair::start(
        CometOptions::default().set("consensus.timeout_commit", "100ms"),
        Config {
            block_interval: interval,
            ..Config::default()
        },
    )
    .await;
    let mut faults = Vec::new();
    pair.settle().await;
    for request in corpus::before_any_transaction() {
        pair.compare(&request, &mut faults).await;
    }
    for request in corpus::transactions() {
        pair.compare(&request, &mut faults).await;
        pair.settle().await;
    }
    for request in corpus::queries() {
        pair.compare(&request, &mut faults).await;
    }
    pair.settle().await;
    for conversation in corpus::conversations() {
        pair.converse(&conversation, &mut faults).await;
        pair.settle().await;
    }
    report(&faults);
    pair.ours.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs cometbft"]
async fn a_full_mempool_refuses_like_a_real_one() {
    let pair = Pair::start(
        CometOptions::default()
            .set("consensus.timeout_commit", "8s")
            .set("mempool.size", "2")
            .set("mempool.max_txs_bytes", "60")
            .set("mempool.max_tx_bytes", "50"),
        Config {
            block_interval: Duration::from_secs(8),
            mempool: devnode::MempoolConfig {
                size: 2,
                max_txs_bytes: 60,
                max_tx_bytes: 50,
                ..Default::default()
            },
            ..Config::default()
        },
    )
    .await;
    let mut faults = Vec::new();
    // Both have just made their first block and make the next in eight seconds at the earliest.
    for request in corpus::filling() {
        pair.compare(&request, &mut faults).await;
    }
    report(&faults);
    pair.ours.stop().await;
}
