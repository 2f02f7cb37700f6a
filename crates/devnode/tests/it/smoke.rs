//! The node as a whole: a transaction's way from the broadcast into a block.

use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::Message;

use crate::support::{quick, start};

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
