//! The same against the real node.

use testkit::{CometBft, CometOptions};

use super::results::commit;
use super::{PATIENCE, Rig, client, height_of, past_is_as_live, subscribe, text, unsubscribe};
use crate::upstream::relay::subscriptions::EventKind;

const BLOCKS: &str = "tm.event='NewBlock'";
const HEADERS: &str = "tm.event='NewBlockHeader'";

async fn comet() -> CometBft {
    let options = CometOptions::default().set("consensus.timeout_commit", "100ms");
    let start = || CometBft::start(options).unwrap();
    tokio::task::spawn_blocking(start).await.unwrap()
}

#[tokio::test]
#[ignore = "needs cometbft"]
async fn past_events_are_written_as_the_node_writes_live_ones() {
    let node = comet().await;
    let rig = Rig::up(node.rpc_url()).await;
    let mut relay = rig.relays.relay(client(2), 0);
    for (id, query, kind) in [
        ("1", BLOCKS, EventKind::NewBlock),
        (r#""<2>""#, HEADERS, EventKind::NewBlockHeader),
    ] {
        subscribe(&mut relay, id, query);
        let confirmed = text(&mut relay).await;
        let id = confirmed
            .strip_prefix(r#"{"jsonrpc":"2.0","id":"#)
            .and_then(|rest| rest.strip_suffix(r#","result":{}}"#));
        let id = id.unwrap_or_else(|| panic!("{confirmed}")).to_owned();
        for round in 0..6 {
            let tx = format!("{round}{}=<&>", id.len());
            let sync = rpc::BroadcastMethod::Sync;
            let sent = rig.nodes.client(0).broadcast(sync, tx.as_bytes());
            assert_eq!(sent.await.unwrap().code, 0);
            past_is_as_live(&rig, &mut relay, (&id, query, kind)).await;
        }
        unsubscribe(&mut relay, query).await;
    }
    drop(relay);
    rig.stop().await;
}

#[tokio::test]
#[ignore = "needs cometbft"]
async fn no_height_is_missed_when_the_node_is_stopped_or_killed_and_restarted() {
    let node = comet().await;
    let rig = Rig::up(node.rpc_url()).await;
    let mut relay = rig.relays.relay(client(2), 0);
    subscribe(&mut relay, "1", BLOCKS);
    text(&mut relay).await;
    subscribe(&mut relay, "2", HEADERS);
    let restarting = tokio::task::spawn_blocking(move || restart_twice(node));
    let mut heights = [0_u64; 2];
    let mut last = None;
    // Goes on until both have got twenty blocks behind the last restart.
    while last.is_none_or(|last| heights.iter().any(|height| *height < last + 20)) {
        let event = text(&mut relay).await;
        if event.ends_with(r#""result":{}}"#) {
            continue;
        }
        let kind = usize::from(event.starts_with(r#"{"jsonrpc":"2.0","id":2,"#));
        let height = height_of(&event);
        let expected = heights[kind] + 1;
        assert!(expected == 1 || height == expected, "{height} of {kind}");
        heights[kind] = height;
        if restarting.is_finished() && last.is_none() {
            last = Some(height);
        }
    }
    assert_eq!(rig.relays.counters().cancelled, 0);
    drop((relay, restarting.await.unwrap()));
    rig.stop().await;
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
    }
    rig.stop().await;
}
