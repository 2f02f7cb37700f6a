//! Blocks: Tendermint's way in, double spends inside a block, and the hashes of `blocks.json`.

use bigchain::{Output, Transfer};
use devnode::Validation;
use serde_json::json;

use super::client::{
    Events, bigchaindb, broadcast, config, create, double_spends, get, pair, post, vector,
};
use crate::support::start;

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_comes_in_over_tendermints_rpc() {
    let running = bigchaindb().await;
    let mut events = Events::of(&running).await;
    let text = vector("create-asset");
    let answer = broadcast(&running, "broadcast_tx_commit", &text).await;
    let result = &answer["result"];
    assert_eq!(result["check_tx"]["code"], 0);
    assert_eq!(result["tx_result"]["code"], 0);
    assert_eq!(result["tx_result"]["events"], json!([]));
    let event = events.next().await;
    assert_eq!(
        event["height"].to_string(),
        result["height"].as_str().unwrap()
    );
    let id = event["transaction_id"].as_str().unwrap();
    let found = get(&running, &format!("/api/v1/transactions/{id}")).await;
    assert_eq!(
        found,
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    );
    let again = broadcast(&running, "broadcast_tx_sync", &text.replace(": ", ":")).await;
    assert_eq!(again["result"]["code"], 1, "the same in another text");
    running.stop().await;
}

/// Both pass `CheckTx`, which knows committed transactions only; the block lets the first through.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_spends_in_a_block_one_takes_effect() {
    let spends = double_spends();
    for validation in [Validation::Serial, Validation::Parallel] {
        let running = start(config(validation)).await;
        let mut events = Events::of(&running).await;
        post(&running, "commit", vector("create-asset").as_bytes()).await;
        events.next().await;
        running.node.faults().halt();
        for text in &spends {
            let answer = broadcast(&running, "broadcast_tx_sync", text).await;
            assert_eq!(answer["result"]["code"], 0);
        }
        running.node.faults().resume();
        let event = events.next().await;
        let first: serde_json::Value = serde_json::from_str(&spends[0]).unwrap();
        assert_eq!(event["transaction_id"], first["id"]);
        let height = event["height"].as_u64().unwrap();
        let block = running.node.block(height).unwrap();
        let codes: Vec<u32> = block.txs.iter().map(|(_, code)| *code).collect();
        assert_eq!(codes, [0, 1], "{validation:?}");
        let shown = get(&running, &format!("/api/v1/blocks/{height}")).await;
        assert_eq!(shown["transactions"], json!([first]));
        running.stop().await;
    }
}

/// What only waited in the mempool and became a double spend is dropped after the block.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_block_made_invalid_leaves_the_mempool() {
    let mut config = config(Validation::Parallel);
    config.max_block_txs = Some(1);
    let running = start(config).await;
    let mut events = Events::of(&running).await;
    let owner = pair(1);
    let created = create(&owner, 1, 1);
    post(&running, "commit", created.text().as_bytes()).await;
    events.next().await;
    running.node.faults().halt();
    for receiver in [2, 3] {
        let spend = Transfer::of(&created)
            .spend(&created, 0)
            .output(Output::to(&[pair(receiver).public()], 1).unwrap())
            .sign(&[&owner])
            .unwrap();
        let (status, _) = post(&running, "sync", spend.text().as_bytes()).await;
        assert_eq!(status, 202);
    }
    running.node.faults().resume();
    events.next().await;
    assert_eq!(running.node.snapshot().mempool_txs, 0);
    running.stop().await;
}

/// Past its bound the ledger forgets the oldest transactions, whole.
#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_transactions_are_forgotten() {
    let mut config = config(Validation::Parallel);
    config.bigchaindb.retain_transactions = 2;
    let running = start(config).await;
    let owner = pair(1);
    let created: Vec<_> = (0..3).map(|number| create(&owner, number, 1)).collect();
    for transaction in &created {
        post(&running, "commit", transaction.text().as_bytes()).await;
    }
    let path = format!("/api/v1/outputs?public_key={}", owner.public());
    let outputs = get(&running, &path).await;
    let ids: Vec<String> = outputs
        .as_array()
        .unwrap()
        .iter()
        .map(|output| output["transaction_id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        ids,
        [created[1].id().to_string(), created[2].id().to_string()]
    );
    let spend = Transfer::of(&created[0])
        .spend(&created[0], 0)
        .output(Output::to(&[owner.public()], 1).unwrap())
        .sign(&[&owner])
        .unwrap();
    let (status, answer) = post(&running, "commit", spend.text().as_bytes()).await;
    assert_eq!(status, 400);
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .contains("InputDoesNotExist")
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_bigchaindb_has_no_api() {
    let running = start(crate::support::quick()).await;
    assert_eq!(running.node.api_address(), None);
    assert_eq!(running.node.events_address(), None);
    running.stop().await;
}
