//! Answers that cannot change are asked for once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use hyper::header::{HeaderName, HeaderValue};
use pacing::Nanos;
use testkit::{ScriptedConnection, ScriptedRequest, ScriptedServer};
use tokio::sync::mpsc;

use super::reads::{body, get, post};
use super::scripted::answer;
use super::{Rig, ask, client, config, message, open};
use crate::upstream::{AnswerBody, ReadAnswer, ReadRequest};

/// The node's chain has this height.
pub(super) const HEIGHT: u64 = 9;
const PUBLIC: &str = "Cache-Control: public, max-age=86400\r\n";

/// A node that was asked for blocks so often.
struct Node {
    server: ScriptedServer,
    asked: Arc<AtomicUsize>,
}

impl Node {
    /// One that answers with this member and these headers.
    fn new(
        member: impl Fn(&ScriptedRequest) -> String + Send + Sync + 'static,
        head: &str,
    ) -> Self {
        let head = head.to_owned();
        Self::scripted(move |connection, request| {
            connection.send(block(request, &member(request), &head));
        })
    }

    fn scripted(
        script: impl Fn(&mut ScriptedConnection, &ScriptedRequest) + Send + Sync + 'static,
    ) -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let server = ScriptedServer::start(move |connection| {
            while let Some(request) = connection.read_request() {
                let is_block = request.head.starts_with("GET /block?")
                    || String::from_utf8_lossy(&request.body).contains(r#""block""#);
                if request.head.starts_with("GET /websocket") {
                    return connection.freeze();
                }
                if !is_block {
                    connection.send(answer(&request, HEIGHT));
                    continue;
                }
                counted.fetch_add(1, Ordering::Relaxed);
                script(connection, &request);
            }
        });
        Self { server, asked }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    async fn rig(&self) -> Rig {
        let rig = Rig::up(self.server.http_url()).await;
        rig.nodes.node(0).rise(HEIGHT, Nanos::ZERO);
        rig
    }
}

/// The answer to a request for a block.
fn block(request: &ScriptedRequest, member: &str, head: &str) -> String {
    let call: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let id = call.get("id").map_or("-1".to_owned(), ToString::to_string);
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},{member}}}"#);
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{head}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn of_height(height: u64) -> String {
    format!(r#""result":{{"block":{{"header":{{"height":"{height}"}}}}}}"#)
}

/// A call as the front reads it.
pub(super) fn call(text: &str) -> ReadRequest {
    let message = message(text);
    ReadRequest {
        method: message.method,
        id: message.id,
        ..post(text)
    }
}

fn block_call(id: &str, height: u64) -> ReadRequest {
    call(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"block","params":{{"height":"{height}"}}}}"#
    ))
}

async fn asked(rig: &Rig, request: ReadRequest) -> ReadAnswer<AnswerBody> {
    rig.reads.forward(client(2), 0, request).await.unwrap()
}

async fn text(answer: ReadAnswer<AnswerBody>) -> String {
    String::from_utf8(body(answer).await.unwrap()).unwrap()
}

#[tokio::test]
async fn an_answer_that_cannot_change_is_asked_for_once_and_is_the_node_s_but_for_the_id() {
    let node = Node::new(|_| of_height(8), PUBLIC);
    let rig = node.rig().await;
    for (place, id) in ["1", r#""a""#, "77777", "1"].into_iter().enumerate() {
        let answer = asked(&rig, block_call(id, 8)).await;
        let is_kept = answer.headers.contains_key("age");
        assert_eq!((is_kept, answer.took.is_none()), (place > 0, place > 0));
        let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},{}}}"#, of_height(8));
        assert_eq!(answer.length, Some(expected.len() as u64));
        assert_eq!(text(answer).await, expected);
    }
    assert_eq!(node.asked(), 1);
    // The same question over a WebSocket has the headers of none, so it is another one.
    let mut link = open(&rig, 3);
    for id in 1..=2 {
        let question = block_call(&id.to_string(), 8).body;
        let answer = ask(&mut link, std::str::from_utf8(&question).unwrap()).await;
        let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},{}}}"#, of_height(8));
        assert_eq!(answer, expected);
    }
    assert_eq!(node.asked(), 2);
    for _ in 0..2 {
        let request = ReadRequest {
            method: Some("block".into()),
            ..get("/block?height=8")
        };
        let expected = format!(r#"{{"jsonrpc":"2.0","id":-1,{}}}"#, of_height(8));
        assert_eq!(text(asked(&rig, request).await).await, expected);
    }
    assert_eq!(node.asked(), 3);
    drop(link);
    rig.stop().await;
}

#[tokio::test]
async fn what_may_still_change_is_asked_for_each_time() {
    let cookie = format!("{PUBLIC}Set-Cookie: a=1\r\n");
    let vary = format!("{PUBLIC}Vary: Cookie\r\n");
    for (member, head) in [
        // The last block: its commit is not final.
        (of_height(HEIGHT), PUBLIC),
        (of_height(HEIGHT + 1), PUBLIC),
        // The height was not named.
        (of_height(8), ""),
        (of_height(8), "Cache-Control: no-store\r\n"),
        (of_height(8), cookie.as_str()),
        (of_height(8), vary.as_str()),
        // Not there yet. CometBFT gives errors that header too.
        (
            r#""result":{"block_id":{},"block":null}"#.to_owned(),
            PUBLIC,
        ),
        (r#""result":null"#.to_owned(), PUBLIC),
        (
            r#""error":{"code":-32603,"message":"","data":"height"}"#.to_owned(),
            PUBLIC,
        ),
        // No answer of JSON-RPC as the node writes it.
        (r#""result":{"height":"x"}"#.to_owned(), PUBLIC),
        (format!(r#"{},"result":{{}}"#, of_height(8)), PUBLIC),
    ] {
        let given = member.clone();
        let node = Node::new(move |_| given.clone(), head);
        let rig = node.rig().await;
        for id in ["1", "2"] {
            let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},{member}}}"#);
            assert_eq!(text(asked(&rig, block_call(id, 8)).await).await, expected);
        }
        assert_eq!(node.asked(), 2, "{member} {head}");
        rig.stop().await;
    }
}

#[tokio::test]
async fn questions_that_a_node_may_answer_differently_are_different() {
    let node = Node::new(|_| of_height(8), PUBLIC);
    let rig = node.rig().await;
    let with = |name, value| {
        let mut request = block_call("1", 8);
        let name = HeaderName::from_static(name);
        request
            .headers
            .insert(name, HeaderValue::from_static(value));
        request
    };
    // The first of each pair was not asked before, and neither was the second.
    let different = [
        block_call("1", 8),
        block_call("1", 7),
        with("origin", "https://a.example"),
        with("authorization", "Basic YTph"),
        // A request with two ids, of which a client could expect either.
        call(r#"{"jsonrpc":"2.0","id":1,"method":"block","params":{"height":"8"},"ID":1}"#),
        call(r#"{"jsonrpc":"2.0","id":1,"method":"block","params":{"height":"8"},"ID":1}"#),
        // Too long to be known by.
        with("x-long", Box::leak("x".repeat(4_000).into_boxed_str())),
        with("x-long", Box::leak("x".repeat(4_000).into_boxed_str())),
    ];
    let count = different.len();
    for request in different {
        text(asked(&rig, request).await).await;
    }
    assert_eq!(node.asked(), count);
    // The headers of the client make no difference.
    text(asked(&rig, with("user-agent", "another")).await).await;
    assert_eq!(node.asked(), count);
    // The chain was replaced.
    rig.nodes.replace_chain(0);
    rig.nodes.node(0).rise(HEIGHT, Nanos::ZERO);
    text(asked(&rig, block_call("1", 8)).await).await;
    assert_eq!(node.asked(), count + 1);
    rig.stop().await;
}

#[tokio::test]
async fn case_100_an_answer_of_another_height_than_was_asked_for_is_not_kept() {
    let node = Node::new(|_| of_height(7), PUBLIC);
    let rig = node.rig().await;
    for times in 1..=2 {
        for request in [
            block_call("1", 8),
            call(r#"{"jsonrpc":"2.0","id":1,"method":"block","params":["8"]}"#),
            ReadRequest {
                method: Some("block".into()),
                ..get("/block?height=8")
            },
        ] {
            text(asked(&rig, request).await).await;
        }
        assert_eq!(node.asked(), 3 * times);
    }
    rig.stop().await;
}

#[tokio::test]
async fn case_100_what_a_gateway_may_have_written_for_one_client_goes_to_no_other() {
    // Answers with another directive in the same header or a second one, no time left, another cache's age,
    // a header that names the request.
    for head in [
        "Cache-Control: public, max-age=60, no-store\r\n",
        "Cache-Control: public, max-age=60\r\nCache-Control: private\r\n",
        "Cache-Control: no-cache\r\nCache-Control: public, max-age=60\r\n",
        "Cache-Control: public, max-age=60\r\nCache-Control: public, max-age=60\r\n",
        "Cache-Control: public, max-age=0\r\n",
        "Cache-Control: public, max-age=x\r\n",
        "Cache-Control: publicity, max-age=60\r\n",
        "Cache-Control: public, max-age=60\r\nAge: 100\r\n",
        "Cache-Control: public, max-age=60\r\nX-Request-Id: 1\r\n",
    ] {
        let node = Node::new(|_| of_height(8), head);
        let rig = node.rig().await;
        for times in 1..=2 {
            text(asked(&rig, block_call("1", 8)).await).await;
            assert_eq!(node.asked(), times, "{head}");
        }
        rig.stop().await;
    }
    // Requests with a host that a gateway may repeat.
    let node = Node::new(|_| of_height(8), PUBLIC);
    let rig = node.rig().await;
    let names = [
        "x-forwarded-host",
        "x-forwarded-port",
        "x-forwarded-proto",
        "forwarded",
    ];
    for (before, name) in names.into_iter().enumerate() {
        let mut request = block_call("1", 8);
        let name = HeaderName::from_static(name);
        let value = HeaderValue::from_static("evil.example");
        request.headers.insert(name, value);
        text(asked(&rig, request).await).await;
        assert_eq!(node.asked(), before + 1);
    }
    text(asked(&rig, block_call("1", 8)).await).await;
    assert_eq!(node.asked(), names.len() + 1);
    rig.stop().await;
}

/// How often the node is asked by three clients at the same time, the first of which may go away.
async fn at_the_same_time(height: u64, first_goes: bool) -> usize {
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let (release, releases) = std::sync::mpsc::channel::<()>();
    let releases = std::sync::Mutex::new(releases);
    let node = Node::scripted(move |connection, request| {
        let _ = arrived.send(());
        let _ = releases.lock().unwrap().recv();
        connection.send(block(request, &of_height(height), PUBLIC));
    });
    let rig = node.rig().await;
    let mut first = Box::pin(asked(&rig, block_call("1", height)));
    tokio::select! {
        _ = &mut first => panic!("the node has not answered"),
        _ = arrivals.recv() => {}
    }
    let mut others = ["2", "3"].map(|id| Box::pin(asked(&rig, block_call(id, height))));
    for other in &mut others {
        assert!(other.now_or_never().is_none());
    }
    for _ in 0..3 {
        release.send(()).unwrap();
    }
    if first_goes {
        drop(first);
    } else {
        text(first.await).await;
    }
    let answers = join_all(others).await;
    for (answer, id) in answers.into_iter().zip(["2", "3"]) {
        let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},{}}}"#, of_height(height));
        assert_eq!(text(answer).await, expected);
    }
    let asked = node.asked();
    drop(node);
    rig.stop().await;
    asked
}

#[tokio::test]
async fn those_who_ask_at_the_same_time_share_what_cannot_change() {
    assert_eq!(at_the_same_time(8, false).await, 1);
    // What may change may be older than a later question: the other two share the next.
    assert_eq!(at_the_same_time(HEIGHT, false).await, 2);
    // A client that goes takes nothing away from others.
    assert_eq!(at_the_same_time(8, true).await, 2);
}

#[tokio::test]
async fn kept_answers_have_a_bound_also_while_clients_do_not_take_them() {
    const MIB: usize = 1 << 20;
    let long = |request: &ScriptedRequest| {
        let call: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        let bytes: usize = call["params"]["pad"].as_str().unwrap().parse().unwrap();
        let member = of_height(8);
        let member = member.strip_suffix('}').unwrap();
        format!(r#"{member},"pad":"{}"}}"#, "x".repeat(bytes))
    };
    let node = Node::new(long, PUBLIC);
    let mut config = config(&[node.server.http_url()]);
    config.buffer.bytes = 4 * MIB;
    config.fixed.window_bytes = 4 << 10;
    let mut rig = Rig::start(&config);
    rig.ready(0).await;
    rig.nodes.node(0).rise(HEIGHT, Nanos::ZERO);
    let padded = |number: usize, bytes: usize| {
        call(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"block","params":{{"height":"{number}","pad":"{bytes}"}}}}"#
        ))
    };
    // A fifth of the cache each, and never taken.
    let mut held = Vec::new();
    for number in 0..30 {
        for _ in 0..2 {
            if let Ok(answer) = rig
                .reads
                .forward(client(2), 0, padded(number, 100_000))
                .await
            {
                held.push(answer);
            }
        }
    }
    let all_held = rig.ledger.used();
    assert!(all_held < 3 * MIB, "{all_held}");
    drop(held);
    let kept = rig.ledger.used();
    assert!(kept <= MIB / 2, "{kept}");
    // What is too long is passed on, and all of it.
    let before = node.asked();
    for _ in 0..2 {
        let answer = asked(&rig, padded(99, 300_000)).await;
        assert!(text(answer).await.len() > 300_000);
    }
    assert_eq!(node.asked(), before + 2);
    rig.stop().await;
}
