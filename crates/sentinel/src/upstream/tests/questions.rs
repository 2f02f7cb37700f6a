//! Questions over a WebSocket, which take the read lane, against the built-in node.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use testkit::{ScriptedServer, http_answer};

use super::{PATIENCE, Rig, ask, client, config, hear, message, open, quick, text};
use crate::refusal::{Forwarded, Reason};
use crate::upstream::{ClientLink, RelayEvent, RelayLink as _};

/// What was refused: tag, id, refusal.
async fn failure(link: &mut ClientLink) -> (u64, String, Reason, Forwarded) {
    match hear(link).await {
        RelayEvent::Failed { tag, id, refusal } => {
            (tag, id.into(), refusal.reason, refusal.forwarded)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn ws_97_answers_are_the_nodes_own_and_come_in_order() {
    let node = quick().await;
    let rig = Rig::up(node.url()).await;
    let mut link = open(&rig, 2);
    let asked = [
        (
            r#"{"jsonrpc":"2.0","id":"a\u0062","method":"health","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":"ab","result":{}}"#,
        ),
        // The node answers what it cannot read in its turn, and ignores what follows the first value.
        (
            "nonsense",
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error. Invalid JSON","data":"error unmarshaling request: unexpected byte 'o'"}}"#,
        ),
        (
            r#"{"id":5,"method":"health"} trailing"#,
            r#"{"jsonrpc":"2.0","id":5,"result":{}}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1e2,"method":"none"}"#,
            r#"{"jsonrpc":"2.0","id":100,"error":{"code":-32601,"message":"Method not found"}}"#,
        ),
        (
            r#"{"id":6,"method":"subscribe"}"#,
            r#"{"jsonrpc":"2.0","id":-1,"error":{"code":-32603,"message":"Internal error","data":"WSJSONRPC: reflect: Call with too few input arguments"}}"#,
        ),
    ];
    for (tag, (request, _)) in (0..).zip(&asked) {
        link.send(&message(request), tag).unwrap();
    }
    for (expected, (request, answer)) in (0..).zip(&asked) {
        match hear(&mut link).await {
            RelayEvent::Answer { tag, text } => {
                assert_eq!((tag, &*text), (expected, answer.as_bytes()), "{request}");
            }
            other => panic!("{other:?}"),
        }
    }
    drop(link);
    rig.stop().await;
    node.stop().await;
}

/// Answers `status`, and anything else with the number of the connection.
fn counting() -> ScriptedServer {
    let connections = AtomicUsize::new(0);
    ScriptedServer::start(move |connection| {
        let number = connections.fetch_add(1, Ordering::Relaxed);
        while let Some(request) = connection.read_request() {
            let call: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
            let result = match call["method"].as_str() {
                Some("status") => STATUS.to_owned(),
                _ => number.to_string(),
            };
            let id = &call["id"];
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
            connection.send(http_answer(200, &text));
        }
    })
}

pub(super) const STATUS: &str = r#"{"node_info":{"network":"c","version":"0.38.17"},"sync_info":{"latest_block_height":"9","catching_up":false}}"#;

/// At 2b52556 each had a connection of its own, and 128 of one address were 128 at the node.
#[tokio::test]
async fn ws_97_no_websocket_has_a_connection_to_the_node_of_its_own() {
    let server = counting();
    let rig = Rig::up(server.http_url()).await;
    let mut links: Vec<_> = (0..200).map(|_| open(&rig, 2)).collect();
    let mut connections = HashSet::new();
    for link in &mut links {
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"health"}"#;
        let answer = ask(link, request).await;
        let value: serde_json::Value = serde_json::from_str(&answer).unwrap();
        connections.insert(value["result"].to_string());
    }
    // One kept connection, and another when sentinel's own question has that.
    assert!(connections.len() < 5, "{connections:?}");
    drop(links);
    rig.stop().await;
}

/// Waits until the client has so many reads under way.
async fn until_under_way(rig: &Rig, reads: usize) {
    let waiting = async {
        while rig.reads.clients().reads_of(client(2)) != reads {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .expect("in time");
}

#[tokio::test]
async fn sharing_69_questions_of_websockets_have_the_limits_of_reads() {
    let node = quick().await;
    let mut settings = config(&[node.url()]);
    settings.fixed.reads_per_client = 3;
    let mut rig = Rig::start(&settings);
    rig.ready(0).await;
    node.node.faults().slow_answers(Duration::from_secs(600));
    // Not shared with others.
    let state = message(r#"{"jsonrpc":"2.0","id":1,"method":"dump_consensus_state"}"#);
    let mut links: Vec<_> = (0..4).map(|_| open(&rig, 2)).collect();
    let mut context = Context::from_waker(Waker::noop());
    for link in &mut links[..3] {
        link.send(&state, 7).unwrap();
        assert!(link.poll_event(&mut context).is_pending());
    }
    until_under_way(&rig, 3).await;
    links[3].send(&state, 7).unwrap();
    assert_eq!(failure(&mut links[3]).await.2, Reason::Rate);
    node.node.faults().clear();
    drop(links);
    until_under_way(&rig, 0).await;
    rig.stop().await;
    node.stop().await;
}

#[tokio::test]
async fn case_23_without_a_node_everything_is_answered_in_time() {
    let rig = Rig::to(&["http://127.0.0.1:1".to_owned()]);
    let mut link = open(&rig, 2);
    let mut sent = 0;
    while link.has_room() {
        let request = format!(r#"{{"jsonrpc":"2.0","id":{sent},"method":"status"}}"#);
        link.send(&message(&request), 5).unwrap();
        sent += 1;
    }
    let one_more = link.send(&message(r#"{"id":1,"method":"status"}"#), 5);
    assert_eq!(one_more.unwrap_err().reason, Reason::QueueFull);
    for id in 0..sent {
        let expected = (5, id.to_string(), Reason::Upstream, Forwarded::No);
        assert_eq!(failure(&mut link).await, expected);
    }
    assert!(link.has_room());
    rig.stop().await;
    assert!(matches!(hear(&mut link).await, RelayEvent::Closed));
}

#[tokio::test]
async fn case_23_strange_answers_do_not_pass_for_the_nodes() {
    let server = ScriptedServer::start(|connection| {
        while let Some(request) = connection.read_request() {
            let body = String::from_utf8_lossy(&request.body).into_owned();
            let (status, text) = match body.as_str() {
                body if body.contains("gateway") => (502, "<html>bad gateway</html>".to_owned()),
                body if body.contains("empty") => (200, String::new()),
                // A handler that panics.
                body if body.contains("panic") => (500, PANIC.to_owned()),
                _ => (
                    200,
                    format!(r#"{{"jsonrpc":"2.0","id":1,"result":{STATUS}}}"#),
                ),
            };
            connection.send(http_answer(status, &text));
        }
    });
    let rig = Rig::up(server.http_url()).await;
    let mut link = open(&rig, 2);
    for method in ["gateway", "empty"] {
        let request = format!(r#"{{"jsonrpc":"2.0","id":8,"method":"{method}"}}"#);
        link.send(&message(&request), 4).unwrap();
        let expected = (4, "8".to_owned(), Reason::Upstream, Forwarded::No);
        assert_eq!(failure(&mut link).await, expected);
    }
    let request = r#"{"jsonrpc":"2.0","id":8,"method":"panic"}"#;
    link.send(&message(request), 4).unwrap();
    assert_eq!(text(&mut link).await, PANIC);
    drop(link);
    rig.stop().await;
}

const PANIC: &str =
    r#"{"jsonrpc":"2.0","id":-1,"error":{"code":-32603,"message":"Internal error","data":"x"}}"#;
