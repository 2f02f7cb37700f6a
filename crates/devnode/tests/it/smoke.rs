//! The node as a whole: a transaction's way from the broadcast into a block, with its own
//! application and with one that it does not know.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use devnode::app::{App, Execution, Finalized, QueryAnswer, Tx};
use devnode::{Blueprint, Host, Kind, Node, Setup};
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::Message;

use crate::{quick, start};

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_committed_and_found() {
    let running = start(quick()).await;
    let answer = running
        .get("/broadcast_tx_commit?tx=\"name=satoshi\"")
        .await;
    let result = &answer["result"];
    assert_eq!(answer["id"], -1);
    assert_eq!(result["check_tx"]["gas_wanted"], "1");
    let hash = result["hash"].as_str().unwrap();
    let height: u64 = result["height"].as_str().unwrap().parse().unwrap();
    let found = running.get(&format!("/tx?hash=0x{hash}")).await;
    assert_eq!(found["result"]["height"], result["height"]);
    let value = running
        .post(r#"{"jsonrpc":"2.0","id":1,"method":"abci_query","params":{"data":"6e616d65"}}"#)
        .await;
    assert_eq!(value["result"]["response"]["value"], "c2F0b3NoaQ==");
    assert_eq!(running.node.block(height).unwrap().txs.len(), 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_hears_of_its_transaction() {
    let running = start(quick()).await;
    let (mut socket, _) = tokio_tungstenite::connect_async(running.node.ws_url())
        .await
        .unwrap();
    let mut ask = async |text: &str| {
        socket.send(Message::text(text)).await.unwrap();
        let answer = socket.next().await.unwrap().unwrap();
        serde_json::from_str::<serde_json::Value>(answer.to_text().unwrap()).unwrap()
    };
    let confirmed = ask(
        r#"{"jsonrpc":"2.0","id":"s","method":"subscribe","params":{"query":"tm.event='Tx'"}}"#,
    )
    .await;
    assert_eq!(
        confirmed.to_string(),
        r#"{"id":"s","jsonrpc":"2.0","result":{}}"#
    );
    let sent =
        ask(r#"{"jsonrpc":"2.0","id":5,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#)
            .await;
    assert_eq!(sent["result"]["code"], 0);
    let event = socket.next().await.unwrap().unwrap();
    let event: serde_json::Value = serde_json::from_str(event.to_text().unwrap()).unwrap();
    assert_eq!(event["id"], "s");
    assert_eq!(
        event["result"]["events"]["tx.hash"][0],
        sent["result"]["hash"]
    );
    assert_eq!(event["result"]["data"]["value"]["TxResult"]["tx"], "YT0x");
    running.stop().await;
}

/// What a follower needs to know that it has all results of a block: the next header has their hash.
#[tokio::test(flavor = "multi_thread")]
async fn the_results_of_a_block_have_the_hash_of_the_next_header() {
    let running = start(quick()).await;
    let answer = running.get("/broadcast_tx_commit?tx=\"a=1\"").await;
    let height: u64 = answer["result"]["height"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    while running.node.snapshot().height <= height {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let next = running.get(&format!("/block?height={}", height + 1)).await;
    let header = &next["result"]["block"]["header"];
    // One result of code 0, whose leaf is empty: SHA-256 of a zero byte.
    assert_eq!(
        header["last_results_hash"],
        "6E340B9CFFB37A989CA544E6BB780A2C78901D3FB33738768511A30617AFA01D"
    );
    let block = running.get(&format!("/block?height={height}")).await;
    assert_eq!(
        header["last_block_id"]["hash"],
        block["result"]["block_id"]["hash"]
    );
    running.stop().await;
}

/// Counts transactions, and refuses empty ones.
#[derive(Debug, Default)]
struct Counter(Arc<AtomicU64>);

impl App for Counter {
    fn check(&self, tx: &Tx) -> Option<u32> {
        Some(u32::from(tx.bytes.is_empty()))
    }

    fn app_hash(&self) -> Vec<u8> {
        self.0.load(Ordering::Relaxed).to_be_bytes().to_vec()
    }

    fn finalize(&self, block: Execution<'_>) -> Finalized {
        let (counter, count) = (Arc::clone(&self.0), block.txs.len() as u64);
        Finalized {
            failed: block.failing,
            outcomes: Vec::new(),
            app_hash: (counter.load(Ordering::Relaxed) + count)
                .to_be_bytes()
                .to_vec(),
            commit: Box::new(move || {
                counter.fetch_add(count, Ordering::Relaxed);
                None
            }),
        }
    }

    fn query(&self, _path: &str, _data: &[u8]) -> QueryAnswer {
        QueryAnswer {
            value: Some(self.app_hash()),
            ..QueryAnswer::default()
        }
    }
}

/// A node with it.
#[derive(Debug)]
struct CounterKind;

impl Kind for CounterKind {
    fn name(&self) -> &'static str {
        "counter"
    }

    fn build(&self, host: &Arc<Host>) -> Setup {
        Node::new(host, Arc::new(Counter::default())).setup()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_of_another_crate_runs_on_the_node() {
    let node = Blueprint {
        kind: &CounterKind,
        config: quick(),
    };
    let running = start(node).await;
    let sent = running.get("/broadcast_tx_commit?tx=\"anything\"").await;
    assert_eq!(sent["result"]["tx_result"]["code"], 0);
    let refused = running.get("/broadcast_tx_sync?tx=0x").await;
    assert_eq!(refused["result"]["code"], 1);
    let found = running.get("/abci_query").await;
    assert_eq!(found["result"]["response"]["value"], "AAAAAAAAAAE=");
    running.stop().await;
}
