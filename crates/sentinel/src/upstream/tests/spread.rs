//! Reads where there are several nodes, some of which go away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pacing::Nanos;
use testkit::{ScriptedServer, http_answer};
use tokio::time::sleep;

use super::reads::{body, get};
use super::{PATIENCE, Rig, client};
use crate::refusal::{Reason, Refusal};
use crate::upstream::NodeDoor;
use crate::upstream::ReadRequest;

/// A node at height 200 that answers every read with its name.
pub(super) struct Named {
    pub(super) server: Option<ScriptedServer>,
    /// Whether it answers nothing.
    stopped: Arc<AtomicBool>,
    /// Whether it answers no reads.
    pub(super) holds: Arc<AtomicBool>,
    /// Reads that came.
    asked: Arc<AtomicUsize>,
}

impl Named {
    fn start(name: &'static str, lowest: u64) -> Self {
        let [stopped, holds] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let asked = Arc::new(AtomicUsize::new(0));
        let seen = (Arc::clone(&stopped), Arc::clone(&holds), Arc::clone(&asked));
        let server = ScriptedServer::start(move |connection| {
            let (stopped, holds, asked) = &seen;
            while let Some(request) = connection.read_request() {
                if stopped.load(Ordering::SeqCst) {
                    continue;
                }
                // Sentinel asks so over each new connection.
                if request.head.starts_with("GET /health ") {
                    connection.send(http_answer(200, "{}"));
                    continue;
                }
                let call: serde_json::Value =
                    serde_json::from_slice(&request.body).unwrap_or_default();
                if call.is_null() && !request.head.starts_with("GET /websocket") {
                    asked.fetch_add(1, Ordering::SeqCst);
                    if !holds.load(Ordering::SeqCst) {
                        connection.send(http_answer(200, name));
                    }
                    continue;
                }
                let result = format!(
                    r#"{{"node_info":{{"network":"c","version":"0.38.17"}},"sync_info":{{"latest_block_height":"200","earliest_block_height":"{lowest}","catching_up":false}}}}"#
                );
                let answer = format!(
                    r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
                    call["id"]
                );
                connection.send(http_answer(200, &answer));
            }
        });
        Self {
            server: Some(server),
            stopped,
            holds,
            asked,
        }
    }

    pub(super) fn url(&self) -> String {
        self.server.as_ref().unwrap().http_url()
    }

    async fn until_asked(&self, times: usize) {
        while self.asked.load(Ordering::SeqCst) < times {
            sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Two nodes that are up, and a client whose reads go to the second one.
pub(super) async fn two(lowest: [u64; 2]) -> (Rig, [Named; 2], u8) {
    let nodes = [
        Named::start("first", lowest[0]),
        Named::start("second", lowest[1]),
    ];
    let rig = Rig::to(&[nodes[0].url(), nodes[1].url()]);
    while !(rig.nodes.is_up(0) && rig.nodes.is_up(1)) {
        sleep(Duration::from_millis(2)).await;
    }
    for last in 2..200 {
        if read(&rig, last, get("/status")).await.unwrap() == "second" {
            return (rig, nodes, last);
        }
    }
    panic!("no client reads from the second node");
}

async fn read(rig: &Rig, last: u8, request: ReadRequest) -> Result<String, Refusal> {
    let asking = rig.reads.forward(client(last), 0, request);
    let answer = tokio::time::timeout(PATIENCE, asking)
        .await
        .expect("in time");
    Ok(String::from_utf8(body(answer?).await?).unwrap())
}

/// A read that a node answers quickly.
fn light() -> ReadRequest {
    ReadRequest {
        method: Some("status".into()),
        ..get("/status")
    }
}

#[tokio::test]
async fn a_read_under_way_at_a_node_that_is_killed_is_answered_by_another() {
    let (rig, mut nodes, last) = two([1, 1]).await;
    nodes[1].holds.store(true, Ordering::SeqCst);
    let before = nodes[1].asked.load(Ordering::SeqCst);
    let (answer, ()) = tokio::join!(read(&rig, last, get("/status")), async {
        nodes[1].until_asked(before + 1).await;
        drop(nodes[1].server.take());
    });
    assert_eq!(answer.unwrap(), "first");
    assert_eq!(read(&rig, last, get("/status")).await.unwrap(), "first");
    rig.stop().await;
}

#[tokio::test]
async fn a_read_under_way_at_a_node_that_stops_is_answered_by_another() {
    let (rig, nodes, last) = two([1, 1]).await;
    nodes[1].stopped.store(true, Ordering::SeqCst);
    assert_eq!(read(&rig, last, get("/status")).await.unwrap(), "first");
    rig.stop().await;
}

/// It answers for its health all the while, as one does whose application is stuck.
#[tokio::test]
async fn a_light_read_under_way_at_a_node_that_answers_none_is_answered_by_another() {
    let (rig, nodes, last) = two([1, 1]).await;
    nodes[1].holds.store(true, Ordering::SeqCst);
    let before = nodes[1].asked.load(Ordering::SeqCst);
    let (answer, ()) = tokio::join!(read(&rig, last, light()), async {
        nodes[1].until_asked(before + 1).await;
        // Later than any moment of this test.
        let later = Nanos::from_secs(3_600);
        while !rig.nodes.node(1).state().breakers[0].sent(later) {}
    });
    assert_eq!(answer.unwrap(), "first");
    for _ in 0..10 {
        assert_eq!(read(&rig, last, light()).await.unwrap(), "first");
    }
    assert_eq!(nodes[1].asked.load(Ordering::SeqCst), before + 1);
    nodes[1].holds.store(false, Ordering::SeqCst);
    let now = rig.nodes.now();
    rig.nodes.note_answered((1, NodeDoor::Rpc), now, true);
    assert_eq!(read(&rig, last, light()).await.unwrap(), "second");
    rig.stop().await;
}

/// A node whose application is stuck goes on answering for its health, and nothing else shows it in the first seconds.
#[tokio::test]
async fn a_light_read_that_is_late_is_asked_of_a_second_node_too() {
    let (rig, nodes, last) = two([1, 1]).await;
    nodes[1].holds.store(true, Ordering::SeqCst);
    let before = nodes[1].asked.load(Ordering::SeqCst);
    assert_eq!(read(&rig, last, light()).await.unwrap(), "first");
    assert_eq!(nodes[1].asked.load(Ordering::SeqCst), before + 1);
    // While too many are asked twice it waits for its node.
    let others: Vec<_> = std::iter::from_fn(|| rig.nodes.second_attempt()).collect();
    let waits = async {
        nodes[1].until_asked(before + 2).await;
        let at_first = nodes[0].asked.load(Ordering::SeqCst);
        drop(others);
        at_first
    };
    let at_first = nodes[0].asked.load(Ordering::SeqCst);
    let (answer, then) = tokio::join!(read(&rig, last, light()), waits);
    assert_eq!((answer.unwrap().as_str(), then), ("first", at_first));
    rig.stop().await;
}

/// In shadow writes go the way of reads, and a commit is answered with its block.
#[tokio::test]
async fn writes_without_an_answer_say_nothing_of_a_node() {
    let (rig, nodes, last) = two([1, 1]).await;
    nodes[1].holds.store(true, Ordering::SeqCst);
    let unanswered = rig.nodes.node(1).state().breakers[0].clone();
    for has_writes in [true, false] {
        let before = nodes[1].asked.load(Ordering::SeqCst);
        let request = ReadRequest {
            has_writes,
            ..get("/status")
        };
        tokio::select! {
            _ = rig.reads.forward(client(last), 0, request) => panic!("it is held"),
            () = nodes[1].until_asked(before + 1) => {}
        }
        let is_as_before = rig.nodes.node(1).state().breakers[0] == unanswered;
        assert_eq!(is_as_before, has_writes);
    }
    rig.stop().await;
}

/// As long as its node answers for its health, a read is slow because of what it asks for.
#[tokio::test]
async fn a_slow_read_is_not_asked_of_a_second_node() {
    let (rig, nodes, last) = two([1, 1]).await;
    nodes[1].holds.store(true, Ordering::SeqCst);
    let (at_first, at_second) = (&nodes[0].asked, &nodes[1].asked);
    let before = [at_first, at_second].map(|asked| asked.load(Ordering::SeqCst));
    let asking = rig.reads.forward(client(last), 0, get("/tx_search"));
    let slow = tokio::time::timeout(Duration::from_millis(600), asking).await;
    assert!(slow.is_err());
    let after = [at_first, at_second].map(|asked| asked.load(Ordering::SeqCst));
    assert_eq!(after, [before[0], before[1] + 1]);
    rig.stop().await;
}

#[tokio::test]
async fn without_any_node_reads_are_refused_at_once() {
    let (rig, mut nodes, last) = two([1, 1]).await;
    for node in &mut nodes {
        drop(node.server.take());
    }
    // The end of a followed connection shows before a refused one does, and a node that may be back is asked.
    while !rig.nodes.states().iter().all(|node| node.unreachable) {
        sleep(Duration::from_millis(2)).await;
    }
    let asked = || -> u64 { rig.nodes.states().iter().map(|node| node.reads).sum() };
    let before = asked();
    let refusal = read(&rig, last, get("/status")).await.unwrap_err();
    assert_eq!(refusal.reason, Reason::Upstream);
    assert!(refusal.retry_after.is_some());
    assert_eq!(asked(), before);
    rig.stop().await;
}

#[tokio::test]
async fn an_old_block_is_asked_of_the_node_that_still_has_it() {
    let (rig, _nodes, last) = two([1, 100]).await;
    let block = |height: u64| ReadRequest {
        method: Some("block".into()),
        ..get(&format!("/block?height={height}"))
    };
    for (height, expected) in [(150, "second"), (50, "first"), (150, "second")] {
        assert_eq!(read(&rig, last, block(height)).await.unwrap(), expected);
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_client_that_writes_reads_from_the_node_that_takes_the_writes() {
    let (rig, _nodes, last) = two([1, 1]).await;
    rig.reads.note_write(client(last));
    assert_eq!(read(&rig, last, get("/status")).await.unwrap(), "first");
    rig.stop().await;
}
