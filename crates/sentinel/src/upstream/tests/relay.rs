use std::time::Duration;

use super::{
    Rig, client, config, hear, height_of, of_chain, past_is_as_live, quick, say, subscribe, text,
    unsubscribe,
};
use crate::jsonrpc::KeptId;
use crate::refusal::{Forwarded, Reason};
use crate::upstream::relay::subscriptions::EventKind;
use crate::upstream::{RelayEvent, RelayMessage};

const BLOCKS: &str = "tm.event='NewBlock'";
const HEADERS: &str = "tm.event = 'NewBlockHeader'";
const CONFIRMED: &str = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;

#[tokio::test]
async fn words_go_both_ways_as_they_are() {
    let node = quick().await;
    let rig = Rig::up(node.url()).await;
    let mut relay = rig.relays.relay(client(2), 0);
    say(
        &mut relay,
        r#"{"jsonrpc":"2.0","id":"a\u0062","method":"health","params":{}}"#,
        None,
    );
    assert_eq!(
        text(&mut relay).await,
        r#"{"jsonrpc":"2.0","id":"ab","result":{}}"#
    );
    say(&mut relay, "nonsense", None);
    assert!(text(&mut relay).await.contains("-32700"));
    say(&mut relay, r#"{"jsonrpc":"2.0","method":"health"}"#, None);
    say(
        &mut relay,
        r#"{"jsonrpc":"2.0","id":1e2,"method":"none"}"#,
        Some(9),
    );
    match hear(&mut relay).await {
        RelayEvent::Answer { tag: 9, text } => {
            assert!(text.starts_with(br#"{"jsonrpc":"2.0","id":100,"error""#));
        }
        other => panic!("{other:?}"),
    }
    drop(relay);
    rig.stop().await;
    node.stop().await;
}

#[tokio::test]
async fn case_45_a_subscription_outlives_the_node_and_misses_no_height() {
    let node = quick().await;
    let rig = Rig::up(node.url()).await;
    let mut relay = rig.relays.relay(client(2), 0);
    subscribe(&mut relay, "7", BLOCKS);
    subscribe(&mut relay, r#""h""#, HEADERS);
    assert_eq!(text(&mut relay).await, CONFIRMED);
    let mut heights = [0_u64; 2];
    let mut events = 0;
    while events < 120 {
        let event = text(&mut relay).await;
        if event == r#"{"jsonrpc":"2.0","id":"h","result":{}}"# {
            continue;
        }
        let kind = usize::from(event.starts_with(r#"{"jsonrpc":"2.0","id":"h""#));
        let query = [BLOCKS, HEADERS][kind];
        assert!(event.contains(&format!(r#""query":"{query}""#)), "{event}");
        let height = height_of(&event);
        assert!(
            heights[kind] == 0 || height == heights[kind] + 1,
            "{height} after {}",
            heights[kind]
        );
        heights[kind] = height;
        events += 1;
        match events {
            20 => node.node.faults().restart(Duration::from_millis(200)),
            60 => node.node.faults().drop_connections(),
            _ => {}
        }
    }
    let counters = rig.relays.counters();
    assert!(
        counters.replayed > 0 && counters.cancelled == 0,
        "{counters:?}"
    );
    assert_eq!(relay.subscriptions(), 2);
    drop(relay);
    rig.stop().await;
    node.stop().await;
}

#[tokio::test]
async fn the_event_of_a_past_block_is_the_one_that_was_live() {
    let node = quick().await;
    let rig = Rig::up(node.url()).await;
    let mut relay = rig.relays.relay(client(2), 0);
    for (id, query, kind) in [
        ("1", BLOCKS, EventKind::NewBlock),
        ("2", HEADERS, EventKind::NewBlockHeader),
    ] {
        subscribe(&mut relay, id, query);
        text(&mut relay).await;
        for tx in ["", "past=1", "val:0000"] {
            if !tx.is_empty() {
                let sync = rpc::BroadcastMethod::Sync;
                let tx = format!("{id}{tx}");
                let client = rig.nodes.client(0);
                client.broadcast(sync, tx.as_bytes()).await.unwrap();
            }
            past_is_as_live(&rig, &mut relay, (id, query, kind)).await;
        }
        unsubscribe(&mut relay, query).await;
    }
    drop(relay);
    rig.stop().await;
    node.stop().await;
}

#[tokio::test]
async fn case_45_what_cannot_be_made_up_for_is_told() {
    let node = quick().await;
    let rig = Rig::up(node.url()).await;
    let mut relay = rig.relays.relay(client(2), 0);
    subscribe(&mut relay, "7", "tm.event='Tx'");
    assert_eq!(text(&mut relay).await, CONFIRMED);
    node.node.faults().restart(Duration::from_millis(100));
    let told = text(&mut relay).await;
    let start = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"Server error","data":"subscription was canceled (reason: the connection to the node was lost at height "#;
    assert!(
        told.starts_with(start) && told.ends_with(r#" were missed)"}}"#),
        "{told}"
    );
    // As after any end of a subscription the client may have it again.
    subscribe(&mut relay, "8", "tm.event='Tx'");
    assert_eq!(text(&mut relay).await, CONFIRMED.replace('7', "8"));
    let sync = rpc::BroadcastMethod::Sync;
    rig.nodes.client(0).broadcast(sync, b"a=1").await.unwrap();
    assert!(text(&mut relay).await.contains("tendermint/event/Tx"));
    drop(relay);
    rig.stop().await;
    node.stop().await;
}

#[tokio::test]
async fn a_subscription_ends_with_its_chain() {
    let listen = ([127, 0, 0, 1], testkit::free_port()).into();
    let first = of_chain("first", listen).await;
    let rig = Rig::up(first.url()).await;
    let mut relay = rig.relays.relay(client(2), 0);
    subscribe(&mut relay, "7", BLOCKS);
    assert_eq!(text(&mut relay).await, CONFIRMED);
    // So far that the new chain is behind when it is found out.
    while height_of(&text(&mut relay).await) < 100 {}
    first.stop().await;
    let second = of_chain("second", listen).await;
    loop {
        let told = text(&mut relay).await;
        if told.contains("the node's chain was replaced") {
            break;
        }
        assert!(told.contains("\"first\""), "{told}");
    }
    subscribe(&mut relay, "8", BLOCKS);
    assert_eq!(text(&mut relay).await, CONFIRMED.replace('7', "8"));
    assert!(text(&mut relay).await.contains(r#""chain_id":"second""#));
    drop(relay);
    rig.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn sharing_69_four_clients_do_not_take_all_websockets_to_the_node() {
    let node = quick().await;
    let rig = Rig::up(node.url()).await;
    let request = RelayMessage {
        text: r#"{"jsonrpc":"2.0","id":1,"method":"status"}"#.into(),
        id: Some(KeptId::new("1")),
        method: Some("status".into()),
        is_write: false,
    };
    let open = |last: u8| {
        let mut relay = rig.relays.relay(client(last), 0);
        relay.send(&request, None).map(|()| relay)
    };
    let all_of = |last: u8| Vec::from_iter(std::iter::from_fn(|| open(last).ok()));
    let mut held: Vec<_> = (2..8).map(all_of).collect();
    let most = held[0].len();
    held.push((10..20).map(|last| open(last).unwrap()).collect());
    drop(held);
    // Their places come back.
    assert_eq!(all_of(2).len(), most);
    rig.stop().await;
    node.stop().await;
}

#[tokio::test]
async fn case_46_a_commit_on_its_own_relay_holds_up_nothing() {
    let node = quick().await;
    let rig = Rig::up(node.url()).await;
    node.node.faults().halt();
    let (mut writes, mut reads) = (
        rig.relays.relay(client(2), 0),
        rig.relays.relay(client(2), 0),
    );
    let commit = r#"{"jsonrpc":"2.0","id":1,"method":"broadcast_tx_commit","params":["YT0x"]}"#;
    say(&mut writes, commit, Some(1));
    let waiting = async {
        match hear(&mut writes).await {
            RelayEvent::Answer { tag: 1, text } => text,
            other => panic!("{other:?}"),
        }
    };
    let reading = async {
        for id in 0..20 {
            let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"health"}}"#);
            say(&mut reads, &call, None);
            text(&mut reads).await;
        }
        node.node.faults().resume();
    };
    let (answer, ()) = tokio::join!(waiting, reading);
    assert!(answer.starts_with(br#"{"jsonrpc":"2.0","id":1,"result":{"check_tx""#));
    drop((writes, reads, answer));
    rig.stop().await;
    node.stop().await;
}

#[tokio::test]
async fn case_23_without_a_node_everything_is_answered_in_time() {
    let mut settings = config(&["http://127.0.0.1:1".to_owned()]);
    settings.upstream.read_timeout = Duration::from_millis(150);
    let rig = Rig::start(&settings);
    let mut relay = rig.relays.relay(client(2), 0);
    while relay.has_room() {
        say(
            &mut relay,
            r#"{"jsonrpc":"2.0","id":5,"method":"status"}"#,
            None,
        );
    }
    let mut failed = 0;
    while failed < 64 {
        match hear(&mut relay).await {
            RelayEvent::Failed { refusal, .. } => {
                assert_eq!(
                    (refusal.reason, refusal.forwarded),
                    (Reason::Upstream, Forwarded::No)
                );
                failed += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(relay.has_room());
    rig.stop().await;
    assert!(matches!(hear(&mut relay).await, RelayEvent::Closed));
}
