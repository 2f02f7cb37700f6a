//! The same against the real node.

use sha2::{Digest as _, Sha256};
use testkit::{CometBft, CometOptions, Http};
use wire::encoding::hex_text;

use super::reads::{body, get};
use super::results::commit;
use super::{PATIENCE, Rig, ask, client, height_of, open, subscribe, text};
use crate::upstream::{NodeEvent, ReadRequest};

const BLOCKS: &str = "tm.event='NewBlock'";

async fn comet() -> CometBft {
    let options = CometOptions::default().set("consensus.timeout_commit", "100ms");
    let start = || CometBft::start(options).unwrap();
    tokio::task::spawn_blocking(start).await.unwrap()
}

/// As [`json_96_no_spelling_of_a_subscription_reaches_the_node`](super::hub) with a node that folds names itself.
#[tokio::test]
#[ignore = "needs cometbft"]
async fn json_96_every_spelling_of_a_subscription_is_shared() {
    let node = comet().await;
    let rig = Rig::up(node.rpc_url()).await;
    super::hub::every_spelling_is_shared(&rig).await;
    rig.stop().await;
}

/// What is kept is the node's answer byte for byte, and is kept only if the question names a height below the last.
#[tokio::test]
#[ignore = "needs cometbft"]
async fn kept_answers_are_those_of_the_real_node() {
    let node = comet().await;
    let mut rig = Rig::to(&[node.rpc_url()]);
    rig.until_up(0).await;
    let (height, _) = commit(&rig, "kept=1").await;
    let tx_hash: [u8; 32] = Sha256::digest("kept=1").into();
    let tx_hash = hex_text(&tx_hash);
    rig.until(|event| match event {
        NodeEvent::Block { block, .. } if block.height > height + 1 => Some(()),
        _ => None,
    })
    .await;
    let http = node.http();
    let block = http.get(&format!("/block?height={height}")).unwrap().text();
    let block: serde_json::Value = serde_json::from_str(&block).unwrap();
    let block_hash = block["result"]["block_id"]["hash"].as_str().unwrap();
    let named = [
        format!("block?height={height}"),
        format!("block_by_hash?hash=0x{block_hash}"),
        format!("block_results?height={height}"),
        format!("commit?height={height}"),
        format!("header?height={height}"),
        format!("validators?height={height}&page=1&per_page=1"),
        format!("consensus_params?height={height}"),
        format!("tx?hash=0x{tx_hash}&prove=true"),
        "genesis".to_owned(),
        "genesis_chunked".to_owned(),
    ];
    for target in &named {
        assert_eq!(kept(&rig, &http, target).await, (false, true), "{target}");
    }
    let by_hash = format!("header_by_hash?hash=0x{block_hash}");
    for target in [
        // Its answer does not contain the hash.
        by_hash.as_str(),
        "block",
        "block_results",
        "commit",
        "header",
        "validators",
        "consensus_params",
        "block?height=1000000",
        "tx?hash=0x00",
        "block_by_hash?hash=0x00",
        "blockchain?minHeight=1&maxHeight=2",
    ] {
        let answers = [asked(&rig, target).await, asked(&rig, target).await];
        assert!(answers.iter().all(|(is_kept, _)| !is_kept), "{target}");
    }
    rig.stop().await;
}

/// The answer to a question in a target, and whether it was kept.
async fn asked(rig: &Rig, target: &str) -> (bool, Vec<u8>) {
    let (method, _) = target.split_once('?').unwrap_or((target, ""));
    let request = ReadRequest {
        method: Some(method.into()),
        ..get(&format!("/{target}"))
    };
    let answer = rig.reads.forward(client(2), 0, request).await.unwrap();
    (answer.took.is_none(), body(answer).await.unwrap())
}

/// Whether a question is answered from what is kept, the first time and the second, which are as the node answers.
async fn kept(rig: &Rig, http: &Http, target: &str) -> (bool, bool) {
    let direct = http.get(&format!("/{target}")).unwrap().body;
    let [first, second] = [asked(rig, target).await, asked(rig, target).await];
    assert_eq!((&first.1, &second.1), (&direct, &direct), "{target}");
    (first.0, second.0)
}

/// A subscriber gets the error that the node stopped, and subscribes again.
#[tokio::test]
#[ignore = "needs cometbft"]
async fn ws_97_subscriptions_end_with_the_node_and_are_made_again() {
    let node = comet().await;
    let rig = Rig::up(node.rpc_url()).await;
    let mut link = open(&rig, 2);
    subscribe(&mut link, "1", BLOCKS).unwrap();
    text(&mut link).await;
    let restarting = tokio::task::spawn_blocking(move || restart_twice(node));
    let (mut ended, mut last) = (0, None);
    // Goes on until twenty blocks behind the last restart.
    while last.is_none_or(|(_, since)| since < 20) {
        let told = text(&mut link).await;
        if told.contains("subscription was canceled") {
            ended += 1;
            assert_eq!(ask(&mut link, &message_of("1")).await, CONFIRMED);
            continue;
        }
        let height = height_of(&told);
        last = match last {
            Some((first, _)) => Some((first, height - first)),
            None => restarting.is_finished().then_some((height, 0)),
        };
    }
    assert_eq!(ended, 2);
    drop((link, restarting.await.unwrap()));
    rig.stop().await;
}

const CONFIRMED: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

fn message_of(id: &str) -> String {
    format!(r#"{{"id":{id},"method":"subscribe","params":{{"query":"{BLOCKS}"}}}}"#)
}

/// Stops the node as an operator does, and then as a crash does; a while passes in between.
fn restart_twice(mut node: CometBft) -> CometBft {
    for kill in [false, true] {
        let height = node.height().unwrap();
        assert!(node.wait_height(height + 10, PATIENCE));
        if kill {
            node.kill();
        }
        node.restart().unwrap();
    }
    node
}

#[tokio::test]
#[ignore = "needs cometbft"]
async fn results_of_blocks_are_those_of_commits() {
    let node = comet().await;
    let rig = Rig::up(node.rpc_url()).await;
    for tx in ["a=1", "b=<2>"] {
        let (height, expected) = commit(&rig, tx).await;
        let results = rig.nodes.results(0, height).await.unwrap();
        assert_eq!(results.tx_result(0), Some(expected.as_str()));
        let hash = Sha256::digest(tx).into();
        let own = rig.nodes.tx_result(0, client(2), (&hash, height)).await;
        assert_eq!(own.unwrap().tx_result(0), Some(expected.as_str()));
    }
    rig.stop().await;
}
