//! The same against the real node.

use std::time::Duration;

use testkit::{CometBft, CometOptions};

use super::results::commit;
use super::{Rig, client, height_of, say, subscribe, text};
use crate::upstream::relay::event::{Wanted, fetch};
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
    let mut rig = Rig::to(&[node.rpc_url()]);
    rig.ready(0).await;
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
            let live = text(&mut relay).await;
            let wanted = Wanted {
                height: height_of(&live),
                kind,
                no_updates_are_null: false,
            };
            let past = fetch(rig.nodes.clone(), 0, wanted).await.unwrap();
            let past = String::from_utf8(past.text(&id, query)).unwrap();
            assert_eq!(past, live);
        }
        say(
            &mut relay,
            r#"{"jsonrpc":"2.0","id":5,"method":"unsubscribe_all"}"#,
            None,
        );
        while !text(&mut relay)
            .await
            .starts_with(r#"{"jsonrpc":"2.0","id":5,"#)
        {}
    }
    drop(relay);
    rig.stop().await;
}

#[tokio::test]
#[ignore = "needs cometbft"]
async fn no_height_is_missed_when_the_node_is_stopped_or_killed_and_restarted() {
    let mut node = comet().await;
    let mut rig = Rig::to(&[node.rpc_url()]);
    rig.ready(0).await;
    let mut relay = rig.relays.relay(client(2), 0);
    subscribe(&mut relay, "1", BLOCKS);
    subscribe(&mut relay, "2", HEADERS);
    let mut heights = [0_u64; 2];
    let (mut events, mut restarting) = (0, None);
    while events < 160 {
        let event = text(&mut relay).await;
        if event.ends_with(r#""result":{}}"#) {
            continue;
        }
        let kind = usize::from(event.contains(r#""id":2,"#));
        let height = height_of(&event);
        assert!(
            heights[kind] == 0 || height == heights[kind] + 1,
            "{height} of {kind}"
        );
        heights[kind] = height;
        events += 1;
        if events == 30 || events == 90 {
            let kill = events == 90;
            if let Some(restarted) = restarting.take() {
                let restarted: tokio::task::JoinHandle<CometBft> = restarted;
                node = restarted.await.unwrap();
            }
            restarting = Some(tokio::task::spawn_blocking(move || {
                if kill {
                    node.kill().unwrap();
                }
                node.restart().unwrap();
                node
            }));
            node = match restarting.take() {
                Some(restarted) => {
                    // The relay goes through the outage while it is polled below.
                    let done = async { restarted.await.unwrap() };
                    let mut done = std::pin::pin!(done);
                    loop {
                        tokio::select! {
                            node = &mut done => break node,
                            event = text(&mut relay) => {
                                let kind = usize::from(event.contains(r#""id":2,"#));
                                assert_eq!(height_of(&event), heights[kind] + 1);
                                heights[kind] += 1;
                                events += 1;
                            }
                        }
                    }
                }
                None => unreachable!("it was set just now"),
            };
        }
    }
    let counters = rig.relays.counters();
    assert!(
        counters.breaks >= 2 && counters.cancelled == 0,
        "{counters:?}"
    );
    drop(relay);
    rig.stop().await;
}

#[tokio::test]
#[ignore = "needs cometbft"]
async fn results_of_blocks_are_those_of_commits() {
    let node = comet().await;
    let mut rig = Rig::to(&[node.rpc_url()]);
    rig.ready(0).await;
    for tx in ["a=1", "b=<2>"] {
        let (height, expected) = commit(&rig, tx).await;
        let results = rig.nodes.results(0, height).await.unwrap();
        assert_eq!(results.tx_result(0), Some(expected.as_str()));
    }
    rig.stop().await;
}

#[tokio::test]
#[ignore = "needs cometbft"]
async fn an_idle_connection_that_the_node_has_closed_is_no_error() {
    let node = comet().await;
    let mut rig = Rig::to(&[node.rpc_url()]);
    rig.ready(0).await;
    let ask = || rig.nodes.results(0, 1);
    ask().await.unwrap();
    // Longer than the pool keeps connections, and than the node does (10 s).
    tokio::time::sleep(Duration::from_secs(11)).await;
    rig.nodes.results_cache().forget(0);
    ask().await.unwrap();
    rig.stop().await;
}
