//! Answers that may change: clients that ask for the same while it is under way share the next answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc as blocking};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use http_body_util::BodyExt as _;
use pacing::Nanos;
use testkit::{ScriptedServer, http_answer};
use tokio::sync::mpsc;

use super::cached::{HEIGHT, call};
use super::reads::body;
use super::scripted::answer;
use super::{PATIENCE, Rig, client, config, hear, message, open};
use crate::refusal::{Reason, Refusal};
use crate::upstream::{CallBody, DoorNodes, NodeDoor, ReadRequest, RelayEvent, RelayLink as _};

/// A node whose answers tell its state when it was asked, and wait until they are let go.
struct Node {
    server: ScriptedServer,
    state: Arc<AtomicUsize>,
    arrivals: mpsc::UnboundedReceiver<()>,
    release: blocking::Sender<()>,
    asked: usize,
}

impl Node {
    /// One whose answers have so many bytes more.
    fn start(pad: usize) -> Self {
        let state = Arc::new(AtomicUsize::new(0));
        let told = Arc::clone(&state);
        let (arrived, arrivals) = mpsc::unbounded_channel();
        let (release, releases) = blocking::channel::<()>();
        let releases = Mutex::new(releases);
        let server = ScriptedServer::start(move |connection| {
            while let Some(request) = connection.read_request() {
                let call = String::from_utf8_lossy(&request.body);
                let is_asked = call.contains("abci_query") || request.head.contains("/cosmos/");
                if request.head.starts_with("GET /websocket") {
                    return connection.freeze();
                }
                if !is_asked {
                    connection.send(answer(&request, HEIGHT));
                    continue;
                }
                let state = told.load(Ordering::SeqCst);
                let _ = arrived.send(());
                let _ = releases.lock().unwrap().recv();
                let call: serde_json::Value =
                    serde_json::from_slice(&request.body).unwrap_or_default();
                let text = text_of(&call["id"].to_string(), state, pad);
                connection.send(http_answer(200, &text));
            }
        });
        Self {
            server,
            state,
            arrivals,
            release,
            asked: 0,
        }
    }

    async fn rig(&self) -> Rig {
        Rig::up(self.server.http_url()).await
    }

    /// Waits until it is asked once more.
    async fn until_asked(&mut self) {
        let arrival = tokio::time::timeout(PATIENCE, self.arrivals.recv());
        arrival.await.expect("in time").unwrap();
        self.asked += 1;
    }

    /// Lets go so many answers.
    fn let_go(&self, answers: usize) {
        (0..answers).for_each(|_| self.release.send(()).unwrap());
    }

    /// How often it was asked.
    fn asked(&mut self) -> usize {
        while self.arrivals.try_recv().is_ok() {
            self.asked += 1;
        }
        self.asked
    }
}

fn text_of(id: &str, state: usize, pad: usize) -> String {
    let pad = "x".repeat(pad);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"state":{state},"pad":"{pad}"}}}}"#)
}

fn query(id: &str) -> ReadRequest {
    let params = r#"{"path":"/store","data":"00","height":"0"}"#;
    let call_text =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"abci_query","params":{params}}}"#);
    call(&call_text)
}

/// The answer to a client.
async fn ask(rig: &Rig, last: u8, id: &str) -> Result<String, Refusal> {
    let answer = rig.reads.forward(client(last), 0, query(id)).await?;
    assert!(!answer.headers.contains_key("age"));
    Ok(String::from_utf8(body(answer).await?).unwrap())
}

type Answered<'a> = BoxFuture<'a, Result<String, Refusal>>;

/// One client that has asked the node, and these clients, which have come since with these ids.
async fn while_asked<'a, const N: usize>(
    node: &mut Node,
    rig: &'a Rig,
    others: [(u8, &'static str); N],
) -> (Answered<'a>, [Answered<'a>; N]) {
    let mut first = ask(rig, 2, "1").boxed();
    tokio::select! {
        _ = &mut first => panic!("the node has not answered"),
        () = node.until_asked() => {}
    }
    let mut others = others.map(|(last, id)| ask(rig, last, id).boxed());
    for other in &mut others {
        assert!(other.now_or_never().is_none());
    }
    (first, others)
}

#[tokio::test]
async fn what_may_change_is_asked_for_after_all_came_who_share_it() {
    let mut node = Node::start(0);
    let rig = node.rig().await;
    let (first, others) = while_asked(&mut node, &rig, [(3, "2"), (4, r#""b""#), (2, "77")]).await;
    // What one of them wrote before it asked.
    node.state.store(1, Ordering::SeqCst);
    node.let_go(2);
    assert_eq!(first.await.unwrap(), text_of("1", 0, 0));
    let answers = join_all(others).await;
    for (answer, id) in answers.into_iter().zip(["2", r#""b""#, "77"]) {
        assert_eq!(answer.unwrap(), text_of(id, 1, 0));
    }
    assert_eq!(node.asked(), 2);
    // Nothing of it is kept.
    node.let_go(1);
    assert_eq!(ask(&rig, 3, "5").await.unwrap(), text_of("5", 1, 0));
    assert_eq!(node.asked(), 3);
    drop(node);
    rig.stop().await;
}

#[tokio::test]
async fn one_that_goes_or_is_refused_leaves_the_question_to_the_next() {
    let mut node = Node::start(0);
    let mut settings = config(&[node.server.http_url()]);
    // One read each.
    settings.reads.rate_per_client = "0.001/s".parse().unwrap();
    settings.fixed.read_burst = std::time::Duration::from_secs(1_000);
    let mut rig = Rig::start(&settings);
    rig.ready(0).await;
    let others = [(3, "3"), (4, "4"), (5, "5"), (6, "6")];
    let (first, [mut goes, refused, asks, shares]) = while_asked(&mut node, &rig, others).await;
    rig.reads.admit(client(4), 1).unwrap();
    node.let_go(1);
    first.await.unwrap();
    tokio::select! {
        _ = &mut goes => panic!("the node has not answered"),
        () = node.until_asked() => {}
    }
    drop(goes);
    assert_eq!(refused.await.unwrap_err().reason, Reason::Rate);
    // The answer to the one that has gone, too.
    node.let_go(2);
    let (asks, shares) = tokio::join!(asks, shares);
    assert_eq!(asks.unwrap(), text_of("5", 0, 0));
    assert_eq!(shares.unwrap(), text_of("6", 0, 0));
    assert_eq!(node.asked(), 3);
    // It counts as a read of each.
    for last in [5, 6] {
        let refused = rig.reads.admit(client(last), 1).unwrap_err();
        assert_eq!(refused.reason, Reason::Rate);
    }
    drop(node);
    rig.stop().await;
}

#[tokio::test]
async fn an_answer_that_is_too_long_to_share_is_asked_for_by_each() {
    const PAD: usize = 300_000;
    let mut node = Node::start(PAD);
    let mut settings = config(&[node.server.http_url()]);
    settings.buffer.bytes = 4 << 20;
    settings.fixed.window_bytes = 4 << 10;
    let mut rig = Rig::start(&settings);
    rig.ready(0).await;
    let (first, others) = while_asked(&mut node, &rig, [(3, "3"), (4, "4"), (5, "5")]).await;
    node.let_go(4);
    assert_eq!(first.await.unwrap(), text_of("1", 0, PAD));
    for (answer, id) in join_all(others).await.into_iter().zip(["3", "4", "5"]) {
        assert_eq!(answer.unwrap(), text_of(id, 0, PAD));
    }
    assert_eq!(node.asked(), 4);
    drop(node);
    rig.stop().await;
}

#[tokio::test]
async fn an_answer_of_another_node_is_not_shared() {
    let mut nodes = [Node::start(0), Node::start(0)];
    nodes[1].state.store(1, Ordering::SeqCst);
    let urls = [0, 1].map(|node: usize| nodes[node].server.http_url());
    let mut rig = Rig::to(&urls);
    rig.until_up(0).await;
    while !rig.nodes.is_up(1) {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    // They read from the node that takes the writes.
    (2..5).for_each(|last| rig.reads.note_write(client(last)));
    let (first, others) = while_asked(&mut nodes[0], &rig, [(3, "3"), (4, "4")]).await;
    let url = rig.nodes.states()[0].endpoint.clone();
    assert!(
        rig.nodes
            .drain(Some(&url), Some(&(Nanos::MAX, String::new())))
    );
    nodes[0].let_go(1);
    nodes[1].let_go(2);
    assert_eq!(first.await.unwrap(), text_of("1", 0, 0));
    for (answer, id) in join_all(others).await.into_iter().zip(["3", "4"]) {
        assert_eq!(answer.unwrap(), text_of(id, 1, 0));
    }
    assert_eq!(nodes.each_mut().map(Node::asked), [1, 2]);
    drop(nodes);
    rig.stop().await;
}

/// Its question was carried out only while it read: all that asked the same waited for it.
#[tokio::test]
async fn a_websocket_that_reads_nothing_keeps_no_answer_from_others() {
    let mut node = Node::start(0);
    let rig = node.rig().await;
    let mut links = [open(&rig, 2), open(&rig, 3), open(&rig, 4)];
    for link in &mut links {
        let question = query("7").body;
        let question = std::str::from_utf8(&question).unwrap();
        link.send(&message(question), 1).unwrap();
        assert!(hear(link).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    node.until_asked().await;
    node.let_go(2);
    match hear(&mut links[2]).await {
        RelayEvent::Answer { text, .. } => assert_eq!(text, text_of("7", 0, 0)),
        other => panic!("{other:?}"),
    }
    assert_eq!(node.asked(), 2);
    drop((links, node));
    rig.stop().await;
}

#[tokio::test]
async fn reads_at_the_gateway_share_answers_too() {
    let mut node = Node::start(0);
    let rig = node.rig().await;
    let listener = node.server.http_url().parse().unwrap();
    let doors = DoorNodes::new(NodeDoor::Rest, &[listener], &rig.nodes).unwrap();
    let ask = async |last| {
        let request = hyper::Request::get("/cosmos/bank/v1beta1/supply");
        let (head, ()) = request.body(()).unwrap().into_parts();
        let call = (head, CallBody::whole(Bytes::new()));
        let held = rig.ledger.of(client(last)).nothing();
        let asking = (rig.reads).at_door(&doors, (client(last), 0), call, (1, held));
        let answer = asking.await.unwrap();
        answer.into_body().collect().await.unwrap().to_bytes()
    };
    let mut first = Box::pin(ask(2));
    tokio::select! {
        _ = &mut first => panic!("the node has not answered"),
        () = node.until_asked() => {}
    }
    let mut others = [3, 4].map(|last| Box::pin(ask(last)));
    for other in &mut others {
        assert!(other.now_or_never().is_none());
    }
    node.state.store(1, Ordering::SeqCst);
    node.let_go(2);
    assert_eq!(first.await, text_of("null", 0, 0));
    for answer in join_all(others).await {
        assert_eq!(answer, text_of("null", 1, 0));
    }
    assert_eq!(node.asked(), 2);
    drop((doors, node));
    rig.stop().await;
}
