//! What a node takes of one connection, and how subscriptions end.

use std::collections::HashSet;
use std::time::Duration;

use super::super::{
    Rig, ask, client_of, config, devnode, height_of, of_chain, open, quick, subscribe, text,
    with_rpc,
};
use super::{BLOCKS, settled};

#[tokio::test]
async fn sharing_69_a_node_that_takes_fewer_queries_gets_more_connections() {
    let node = with_rpc(|rpc| rpc.max_subscriptions_per_client = 1).await;
    let rig = Rig::up(node.url()).await;
    let mut link = open(&rig, 2);
    for id in 0..4 {
        subscribe(&mut link, &id.to_string(), &format!("a.b={id}")).unwrap();
    }
    let mut confirmed = HashSet::new();
    for _ in 0..4 {
        confirmed.insert(text(&mut link).await);
    }
    assert!(confirmed.len() == 4 && confirmed.iter().all(|text| text.contains(r#""result":{}"#)));
    settled(&rig, 4, 4).await;
    drop(link);
    rig.stop().await;
    node.stop().await;
}

/// At 2b52556 a feed held 200 events, and a block of 500 transactions ended everyone's subscription.
#[tokio::test]
async fn ws_95_all_events_of_a_block_reach_their_reader() {
    const TXS: usize = 2_000;
    // What the node itself holds for a subscriber is not in question.
    let node = with_rpc(|rpc| rpc.subscription_buffer_size = 2 * TXS).await;
    let rig = Rig::up(node.url()).await;
    node.node.faults().halt();
    let mut link = open(&rig, 2);
    subscribe(&mut link, "1", "tm.event='Tx'").unwrap();
    assert!(text(&mut link).await.ends_with(r#""result":{}}"#));
    let sender = client_of(&rig);
    for number in 0..TXS {
        let tx = format!("k{number}=1");
        let sent = sender.broadcast(rpc::BroadcastMethod::Sync, tx.as_bytes());
        assert_eq!(sent.await.unwrap().code, 0);
    }
    node.node.faults().resume();
    let mut heights = HashSet::new();
    for _ in 0..TXS {
        let event: serde_json::Value = serde_json::from_str(&text(&mut link).await).unwrap();
        heights.insert(event["result"]["data"]["value"]["TxResult"]["height"].to_string());
    }
    assert_eq!(heights.len(), 1, "one block");
    assert_eq!(rig.hub.counters().slow, 0);
    drop(link);
    rig.stop().await;
    node.stop().await;
}

const LOST: &str = "subscription was canceled (reason: ";

/// At 2b52556 events of missed blocks were written anew, in the words of one version.
#[tokio::test]
async fn ws_97_a_subscription_that_may_have_missed_events_ends_and_can_be_made_again() {
    let node = quick().await;
    let rig = Rig::up(node.url()).await;
    let mut link = open(&rig, 2);
    for query in [BLOCKS, "tm.event='Tx'"] {
        subscribe(&mut link, "7", query).unwrap();
    }
    for _ in 0..3 {
        text(&mut link).await;
    }
    for round in 0..2 {
        match round {
            0 => node.node.faults().restart(Duration::from_millis(100)),
            _ => node.node.faults().drop_connections(),
        }
        let mut ended = 0;
        while ended < 2 {
            let told = text(&mut link).await;
            if told.contains(LOST) {
                assert!(told.starts_with(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"#));
                ended += 1;
            }
        }
        for query in [BLOCKS, "tm.event='Tx'"] {
            let text = format!(r#"{{"id":7,"method":"subscribe","params":{{"query":"{query}"}}}}"#);
            let answer = ask(&mut link, &text).await;
            assert_eq!(answer, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
        }
        assert!(text(&mut link).await.contains("tendermint/event/NewBlock"));
    }
    assert_eq!(rig.hub.counters().ended, 4);
    drop(link);
    settled(&rig, 0, 0).await;
    rig.stop().await;
    node.stop().await;
}

#[tokio::test]
async fn a_subscription_ends_with_its_chain() {
    let listen = ([127, 0, 0, 1], testkit::free_port()).into();
    let first = of_chain("first", listen).await;
    let rig = Rig::up(first.url()).await;
    let mut link = open(&rig, 2);
    subscribe(&mut link, "7", BLOCKS).unwrap();
    text(&mut link).await;
    assert!(text(&mut link).await.contains(r#""chain_id":"first""#));
    first.stop().await;
    let second = of_chain("second", listen).await;
    while !text(&mut link).await.contains(LOST) {}
    subscribe(&mut link, "8", BLOCKS).unwrap();
    text(&mut link).await;
    assert!(text(&mut link).await.contains(r#""chain_id":"second""#));
    drop(link);
    rig.stop().await;
    second.stop().await;
}

/// At 2b52556 the number of queries of a connection only fell: of all nodes, and for good.
#[tokio::test]
async fn ws_97_what_a_node_takes_of_a_connection_is_learnt_anew_with_the_connection() {
    let listen = ([127, 0, 0, 1], testkit::free_port()).into();
    let node = |most: usize| {
        devnode(devnode::Config {
            listen,
            rpc: devnode::RpcConfig {
                max_subscriptions_per_client: most,
                ..devnode::RpcConfig::default()
            },
            ..devnode::Config::default()
        })
    };
    let first = node(2).await;
    let rig = Rig::up(first.url()).await;
    let mut link = open(&rig, 2);
    let queries: Vec<String> = (0..4).map(|number| format!("a.b={number}")).collect();
    for query in &queries {
        subscribe(&mut link, "1", query).unwrap();
    }
    for _ in &queries {
        assert!(text(&mut link).await.ends_with(r#""result":{}}"#));
    }
    settled(&rig, 4, 2).await;
    first.stop().await;
    for _ in &queries {
        assert!(text(&mut link).await.contains(LOST));
    }
    let second = node(5).await;
    for query in &queries {
        subscribe(&mut link, "1", query).unwrap();
    }
    for _ in &queries {
        assert!(text(&mut link).await.ends_with(r#""result":{}}"#));
    }
    settled(&rig, 4, 1).await;
    drop(link);
    rig.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn ws_97_no_more_connections_subscribe_than_are_configured() {
    let node = with_rpc(|rpc| rpc.max_subscriptions_per_client = 1).await;
    let mut settings = config(&[node.url()]);
    settings.fixed.subscribers = 2;
    let mut rig = Rig::start(&settings);
    rig.ready(0).await;
    let mut link = open(&rig, 2);
    for query in ["a.b=1", "a.b=2", "a.b=3"] {
        subscribe(&mut link, "1", query).unwrap();
    }
    let mut refused = 0;
    for _ in 0..3 {
        let answer = text(&mut link).await;
        refused += usize::from(answer.contains("max_subscription_clients 2 reached"));
    }
    assert_eq!(refused, 1);
    drop(link);
    rig.stop().await;
    node.stop().await;
}

/// A query of a megabyte, written anew, is longer than what the node reads, and ended what others had on the
/// connection.
#[tokio::test]
async fn ws_97_a_query_that_the_node_cannot_read_ends_nobody_else_s_subscription() {
    let node = quick().await;
    let rig = Rig::up(node.url()).await;
    let (mut polite, mut hostile) = (open(&rig, 2), open(&rig, 3));
    subscribe(&mut polite, "1", BLOCKS).unwrap();
    assert!(text(&mut polite).await.ends_with(r#""result":{}}"#));
    for len in [513, 999_000] {
        subscribe(&mut hostile, "1", &"<".repeat(len)).unwrap();
        let answer = text(&mut hostile).await;
        assert!(answer.contains("maximum query length exceeded"), "{answer}");
    }
    let first = height_of(&text(&mut polite).await);
    for height in first + 1..first + 5 {
        assert_eq!(height_of(&text(&mut polite).await), height);
    }
    drop((polite, hostile));
    rig.stop().await;
    node.stop().await;
}
