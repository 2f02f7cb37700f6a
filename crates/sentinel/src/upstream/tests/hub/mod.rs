//! Subscriptions that clients share, against the built-in node.

mod ends;

use std::time::Duration;

use super::{
    PATIENCE, Rig, ask, config, hear, height_of, message, open, quick, subscribe, text, with_rpc,
};
use crate::refusal::Reason;
use crate::upstream::{RelayEvent, RelayLink as _};

/// Waits until the hub has so many queries over so many connections.
async fn settled(rig: &Rig, queries: usize, links: usize) {
    let settled = async {
        loop {
            let counters = rig.hub.counters();
            if (counters.queries, counters.links) == (queries, links) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, settled).await;
    in_time.unwrap_or_else(|_| panic!("{:?}", rig.hub.counters()));
}

const BLOCKS: &str = "tm.event='NewBlock'";

#[tokio::test]
async fn sharing_69_clients_share_one_subscription_of_the_node() {
    // One subscriber for the follower, and one for all clients.
    let node = with_rpc(|rpc| rpc.max_subscription_clients = 2).await;
    let rig = Rig::up(node.url()).await;
    let mut links: Vec<_> = (0..50).map(|last| open(&rig, last)).collect();
    for (number, link) in links.iter_mut().enumerate() {
        let query = ["tm.event='NewBlock'", " tm.event = 'NewBlock'"][number % 2];
        subscribe(link, &number.to_string(), query).unwrap();
    }
    for (number, link) in links.iter_mut().enumerate() {
        let confirmed = format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{{}}}}"#);
        assert_eq!(text(link).await, confirmed);
    }
    let mut next = [0; 50];
    for _ in 0..20 {
        for (number, link) in links.iter_mut().enumerate() {
            let event = text(link).await;
            // Each gets its own id and its own spelling.
            let query = ["tm.event='NewBlock'", " tm.event = 'NewBlock'"][number % 2];
            let head =
                format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{{"query":"{query}","data""#);
            assert!(event.starts_with(&head), "{event}");
            let height = height_of(&event);
            assert!(next[number] == 0 || next[number] == height, "{height}");
            next[number] = height + 1;
        }
    }
    let counters = rig.hub.counters();
    let shared = (counters.subscriptions, counters.queries, counters.links);
    assert_eq!(shared, (50, 1, 1));
    drop(links);
    settled(&rig, 0, 0).await;
    rig.stop().await;
    node.stop().await;
}

#[tokio::test]
async fn sharing_69_no_client_takes_all_queries_of_the_node() {
    let node = quick().await;
    let mut settings = config(&[node.url()]);
    settings.fixed.subscribers = 8;
    let mut rig = Rig::start(&settings);
    rig.ready(0).await;
    let mut number = 0;
    let mut query = |last: u8| {
        number += 1;
        let mut link = open(&rig, last);
        subscribe(&mut link, "1", &format!("a.b={number}")).map(|()| link)
    };
    let greedy: Vec<_> = std::iter::from_fn(|| query(2).ok()).collect();
    let second: Vec<_> = std::iter::from_fn(|| query(3).ok()).collect();
    // Of 40, less a sixteenth: as many as are free besides.
    assert_eq!((greedy.len(), second.len()), (19, 9));
    let others: Vec<_> = (4..8).map(|last| query(last).unwrap()).collect();
    // A subscription that the client has already takes nothing.
    let mut same = open(&rig, 2);
    subscribe(&mut same, "1", "a.b=1").unwrap();
    // One address does not get all events over and over again either.
    let many: Vec<_> = std::iter::from_fn(|| {
        let mut link = open(&rig, 9);
        subscribe(&mut link, "1", "a.b=1").ok().map(|()| link)
    })
    .collect();
    assert_eq!(many.len(), 128);
    drop((greedy, second, others, same, many));
    settled(&rig, 0, 0).await;
    assert_eq!(
        std::iter::from_fn(|| query(3).ok())
            .collect::<Vec<_>>()
            .len(),
        19
    );
    rig.stop().await;
    node.stop().await;
}

#[tokio::test]
async fn case_45_clients_do_not_touch_each_other_s_subscriptions() {
    let node = quick().await;
    let rig = Rig::up(node.url()).await;
    let (mut one, mut other) = (open(&rig, 2), open(&rig, 2));
    for link in [&mut one, &mut other] {
        subscribe(link, "7", BLOCKS).unwrap();
        assert_eq!(text(link).await, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
    }
    let again =
        r#"{"jsonrpc":"2.0","id":"x","method":"subscribe","params":["tm.event = 'NewBlock'"]}"#;
    assert_eq!(
        ask(&mut one, again).await,
        r#"{"jsonrpc":"2.0","id":"x","error":{"code":-32603,"message":"Internal error","data":"already subscribed"}}"#
    );
    let leave = r#"{"jsonrpc":"2.0","id":8,"method":"unsubscribe","params":{"query":"tm.event = 'NewBlock'"}}"#;
    assert_eq!(
        ask(&mut one, leave).await,
        r#"{"jsonrpc":"2.0","id":8,"result":{}}"#
    );
    let leave_all = r#"{"jsonrpc":"2.0","id":9,"method":"unsubscribe_all"}"#;
    for request in [leave, leave_all] {
        let answer = ask(&mut one, request).await;
        assert!(answer.contains("subscription not found"), "{answer}");
    }
    let first = height_of(&text(&mut other).await);
    assert_eq!(height_of(&text(&mut other).await), first + 1);
    let all = ask(&mut other, leave_all).await;
    assert_eq!(all, r#"{"jsonrpc":"2.0","id":9,"result":{}}"#);
    settled(&rig, 0, 0).await;
    drop((one, other));
    rig.stop().await;
    node.stop().await;
}

#[tokio::test]
async fn case_45_what_the_node_refuses_is_answered_in_its_words() {
    let node = quick().await;
    let rig = Rig::up(node.url()).await;
    let mut link = open(&rig, 2);
    let long = format!(r#"{{"query":"{}a=1"}}"#, "a.b='x' AND ".repeat(60));
    for (params, words) in [
        (r#"{"query":"nonsense"}"#, "failed to parse query: "),
        (r#"{"query":""}"#, "failed to parse query: "),
        (r#"{"query":"a.b='"}"#, "failed to parse query: "),
        ("{}", "failed to parse query: "),
        ("null", "failed to parse query: "),
        ("[null]", "failed to parse query: "),
        (&long, "maximum query length exceeded"),
        (
            r#"{"query":5}"#,
            "error converting json params to arguments: json: cannot unmarshal number into Go value of type string",
        ),
        (
            r#"["a.b='x'",1]"#,
            "error converting json params to arguments: expected 1 parameters ([query]), got 2 ([[34 97 46 98 61 39 120 39 34] [49]])",
        ),
        (
            "true",
            "error converting json params to arguments: unknown type for JSON params: json: cannot unmarshal bool into Go value of type []json.RawMessage. Expected map or array",
        ),
    ] {
        let request =
            format!(r#"{{"jsonrpc":"2.0","id":"q","method":"subscribe","params":{params}}}"#);
        let answer = ask(&mut link, &request).await;
        let start = r#"{"jsonrpc":"2.0","id":"q","error":{"code":-32603,"message":"Internal error","data":""#;
        let said = answer
            .strip_prefix(start)
            .unwrap_or_else(|| panic!("{answer}"));
        assert!(said.starts_with(words), "{params}: {said}");
    }
    // Six at most of one WebSocket, whatever others have.
    let mut refused = 0;
    for id in 0..50 {
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"subscribe","params":{{"query":"a.b={id}"}}}}"#
        );
        let answer = ask(&mut link, &request).await;
        refused += u32::from(answer.contains("max_subscriptions_per_client 5 reached"));
    }
    assert_eq!((refused, rig.hub.counters().subscriptions), (45, 5));
    // Half a surrogate pair is a text to Go.
    let odd = r#"{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"query":"a.b='\ud800'"}}"#;
    let mut other = open(&rig, 4);
    assert_eq!(
        ask(&mut other, odd).await,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#
    );
    drop((link, other));
    rig.stop().await;
    node.stop().await;
}

#[tokio::test]
async fn case_45_without_a_node_a_subscription_is_refused_in_time() {
    let mut settings = config(&["http://127.0.0.1:1".to_owned()]);
    settings.upstream.timeout = Duration::from_millis(150);
    let rig = Rig::start(&settings);
    let mut link = open(&rig, 2);
    subscribe(&mut link, "7", BLOCKS).unwrap();
    match hear(&mut link).await {
        RelayEvent::Failed {
            tag: 1,
            id,
            refusal,
        } => {
            assert_eq!((id.as_str(), refusal.reason), ("7", Reason::Upstream));
        }
        other => panic!("{other:?}"),
    }
    settled(&rig, 0, 0).await;
    drop(link);
    rig.stop().await;
}

#[tokio::test]
async fn sharing_63_subscriptions_are_in_the_account_as_long_as_they_live() {
    let node = quick().await;
    let rig = Rig::up(node.url()).await;
    let mut link = open(&rig, 2);
    let id = "7".repeat(200_000);
    let request = format!(
        r#"{{"jsonrpc":"2.0","id":"{id}","method":"subscribe","params":{{"query":"tm.event='Tx'"}}}}"#
    );
    link.send(&message(&request), 1).unwrap();
    assert!(rig.ledger.used() > 200_000, "{}", rig.ledger.used());
    drop(link);
    rig.stop().await;
    node.stop().await;
}

/// At 2b52556 the first five went to the node as they were, over a connection of the client's own: 105 sockets
/// of one address took every place for subscribers that a node has.
#[tokio::test]
async fn json_96_no_spelling_of_a_subscription_is_one_more_at_the_node() {
    // One subscriber for the follower, and one for all clients: another one is refused.
    let node = with_rpc(|rpc| rpc.max_subscription_clients = 2).await;
    let rig = Rig::up(node.url()).await;
    every_spelling_is_shared(&rig).await;
    settled(&rig, 0, 0).await;
    rig.stop().await;
    node.stop().await;
}

/// Who subscribes in other spellings gets the events of one subscription.
pub(super) async fn every_spelling_is_shared(rig: &Rig) {
    let mut links = Vec::new();
    for request in SPELLINGS {
        let mut link = open(rig, 2);
        let answer = ask(&mut link, request).await;
        assert_eq!(
            answer, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            "{request}"
        );
        links.push(link);
    }
    let counters = rig.hub.counters();
    assert_eq!((counters.queries, counters.links), (1, 1));
    for link in &mut links {
        height_of(&text(link).await);
    }
}

/// Subscriptions to [`BLOCKS`], by the rules of Go's `encoding/json`.
pub(super) const SPELLINGS: [&str; 9] = [
    r#"{"id":1,"method":"subscribe","params":{},"paramſ":{"query":"tm.event='NewBlock'"}}"#,
    r#"{"id":1,"method":"subscribe","params":{},"param\u017f":{"query":"tm.event='NewBlock'"}}"#,
    r#"{"id":1,"method":"subscribe","params":{},"PARAMS":{"query":"tm.event='NewBlock'"}}"#,
    r#"{"id":1,"method":"subscribe","params":{},"Params":["tm.event='NewBlock'"]}"#,
    r#"{"id":1,"method":"subscribe","paramſ":{},"PARAMS":[],"params":{"query":"tm.event='NewBlock'"}}"#,
    r#"{"id":1,"method":"subscribe","\u0070arams":{"query":"tm.event = 'NewBlock'"}}"#,
    r#"{"id":1,"method":"\u0073ubscribe","params":[" tm.event='NewBlock' "]}"#,
    r#"{"id":1,"method":"status","METHOD":"subscribe","params":["tm.event='NewBlock'"]} trailing"#,
    r#"{"id":1,"method":"subscribe","params":{"query":7,"query":"tm.event='NewBlock'"}}"#,
];

/// The node counts every client's own spelling; of what it takes for one query it gives a connection one.
#[tokio::test]
async fn json_96_spellings_that_only_the_node_knows_are_in_nobodys_way() {
    let node = quick().await;
    let rig = Rig::up(node.url()).await;
    let (mut first, mut second) = (open(&rig, 2), open(&rig, 3));
    subscribe(&mut first, "1", r"tm.event=\t'NewBlock'").unwrap();
    assert!(text(&mut first).await.ends_with(r#""result":{}}"#));
    subscribe(&mut second, "1", BLOCKS).unwrap();
    assert!(text(&mut second).await.ends_with(r#""result":{}}"#));
    settled(&rig, 2, 2).await;
    drop((first, second));
    rig.stop().await;
    node.stop().await;
}
