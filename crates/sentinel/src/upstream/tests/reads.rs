use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{HOST, HeaderValue};
use hyper::{HeaderMap, Method};
use pacing::Nanos;
use testkit::{Http, ScriptedServer, free_port};
use tokio_util::sync::CancellationToken;

use super::questions::STATUS;
use super::{PATIENCE, Rig, client, config, quick};
use crate::clock::Clock;
use crate::refusal::{Reason, Refusal};
use crate::shared_context::SharedContext;
use crate::upstream::{AnswerBody, Nodes, Pieces as _, ReadAnswer, ReadRequest, Reads};

pub(super) fn get(target: &str) -> ReadRequest {
    ReadRequest {
        http_method: Method::GET,
        target: Bytes::copy_from_slice(target.as_bytes()),
        headers: HeaderMap::new(),
        body: Bytes::new(),
        method: None,
        id: None,
        calls: 1,
        has_writes: false,
    }
}

pub(super) fn post(body: &str) -> ReadRequest {
    ReadRequest {
        http_method: Method::POST,
        body: Bytes::copy_from_slice(body.as_bytes()),
        ..get("/")
    }
}

pub(super) async fn body(mut answer: ReadAnswer<AnswerBody>) -> Result<Vec<u8>, Refusal> {
    let mut body = Vec::new();
    while let Some(piece) = answer.body.next().await {
        body.extend_from_slice(&piece?);
    }
    Ok(body)
}

/// A server that answers so many requests on each connection, reads one more and closes.
fn forgetful(answers: usize) -> ScriptedServer {
    ScriptedServer::start(move |connection| {
        for _ in 0..answers {
            if !connection.answer_request(200, "{}") {
                return;
            }
        }
        connection.read_request();
    })
}

#[tokio::test]
async fn answers_are_the_node_s_own() {
    let node = quick().await;
    let rig = Rig::to(&[node.url()]);
    // There is a block then.
    super::results::commit(&rig, "a=1").await;
    let host = HeaderValue::try_from(node.node.rpc_address().to_string()).unwrap();
    for (method, target, sent) in [
        ("GET", r#"/block?height="1""#, ""),
        ("GET", "/status?x=%22", ""),
        ("GET", "/no_such_method", ""),
        ("GET", "/", ""),
        (
            "POST",
            "/",
            r#"{"jsonrpc":"2.0","id":"a","method":"genesis","params":{}}"#,
        ),
        ("POST", "/", "nonsense"),
        ("POST", "/path", "{}"),
    ] {
        let direct = {
            let http = Http::new(node.node.rpc_address(), PATIENCE);
            let asking = move || http.request(method, target, &[], sent.as_bytes());
            tokio::task::spawn_blocking(asking).await.unwrap().unwrap()
        };
        let mut request = if method == "GET" {
            get(target)
        } else {
            post(sent)
        };
        request.target = Bytes::from_static(target.as_bytes());
        request.headers.insert(HOST, host.clone());
        let answer = rig.reads.forward(client(2), 0, request).await.unwrap();
        let changes = [
            "connection",
            "x-server-time",
            "date",
            "content-length",
            "transfer-encoding",
        ];
        let mut expected: Vec<_> = direct
            .headers
            .iter()
            .filter(|(name, _)| !changes.contains(&name.as_str()))
            .cloned()
            .collect();
        let mut found: Vec<_> = answer
            .headers
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes());
                (name.as_str().to_owned(), value.into_owned())
            })
            .filter(|(name, _)| !changes.contains(&name.as_str()))
            .collect();
        expected.sort();
        found.sort();
        assert_eq!(
            (answer.status, &found),
            (direct.status, &expected),
            "{target}"
        );
        if !target.starts_with("/status") {
            assert_eq!(body(answer).await.unwrap(), direct.body, "{target}");
        }
    }
    let mut list = get("/");
    let host = HeaderValue::from_static("proxy.example:1");
    list.headers.insert(HOST, host);
    let answer = rig.reads.forward(client(2), 0, list).await.unwrap();
    let list = String::from_utf8(body(answer).await.unwrap()).unwrap();
    assert!(list.contains("//proxy.example:1/status"), "{list}");
    rig.stop().await;
    node.stop().await;
}

#[tokio::test]
async fn a_read_on_a_dead_connection_is_sent_once_more() {
    let server = forgetful(1);
    let rig = Rig::to(&[server.http_url()]);
    for _ in 0..3 {
        let answer = rig.reads.forward(client(2), 0, post("{}")).await.unwrap();
        assert_eq!(body(answer).await.unwrap(), b"{}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn case_23_a_node_that_is_not_there_or_breaks_off_is_a_refusal() {
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let garbage = ScriptedServer::start(|connection| {
        while connection.read_request().is_some() {
            connection.send("nonsense\r\n\r\n");
        }
    });
    let half = ScriptedServer::start(|connection| {
        if connection.read_request().is_some() {
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{\"jsonrpc\"");
        }
    });
    let slow = ScriptedServer::start(|connection| {
        if connection.read_request().is_some() {
            connection.send_bytewise("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}");
        }
    });
    let urls = [nobody, garbage.http_url(), half.http_url(), slow.http_url()];
    // No node is up, so every read goes where it is sent.
    let rig = Rig::to(&urls);
    refuses(&rig, 0).await;
    refuses(&rig, 1).await;
    let answer = rig.reads.forward(client(2), 2, post("{}")).await.unwrap();
    assert_eq!(answer.length, Some(400));
    assert_eq!(body(answer).await.unwrap_err().reason, Reason::Upstream);
    let answer = rig.reads.forward(client(2), 3, post("{}")).await.unwrap();
    assert_eq!(body(answer).await.unwrap(), b"{\"a\":1}");
    assert_eq!(rig.reads.clients().reads_of(client(2)), 0);
    rig.stop().await;
}

/// A read of this node is refused.
async fn refuses(rig: &Rig, node: usize) {
    let read = rig.reads.forward(client(2), node, post("{}")).await;
    assert_eq!(read.unwrap_err().reason, Reason::Upstream);
}

#[tokio::test]
async fn case_23_a_node_that_never_answers_is_a_refusal() {
    let silent = ScriptedServer::start(testkit::ScriptedConnection::freeze);
    let mut settings = config(&[silent.http_url()]);
    settings.upstream.timeout = Duration::from_millis(100);
    let rig = Rig::start(&settings);
    refuses(&rig, 0).await;
    assert_eq!(rig.reads.clients().reads_of(client(2)), 0);
    rig.stop().await;
}

#[tokio::test]
async fn one_client_cannot_take_the_lane() {
    let server = ScriptedServer::start(|connection| {
        while let Some(request) = connection.read_request() {
            if request.body == b"wait" {
                return connection.freeze();
            }
            connection.send(testkit::http_answer(200, "{}"));
        }
    });
    let mut settings = config(&[server.http_url()]);
    settings.fixed.reads_per_client = 1;
    // Slow enough that no time that the test takes matters.
    settings.reads.rate_per_client = "0.001/s".parse().unwrap();
    settings.fixed.read_burst = Duration::from_secs(3_000);
    let rig = Rig::start(&settings);
    let reads = rig.reads.clone();
    let waiting = tokio::spawn(async move { reads.forward(client(2), 0, post("wait")).await });
    while rig.reads.clients().reads_of(client(2)) == 0 {
        tokio::task::yield_now().await;
    }
    let refusal = rig
        .reads
        .forward(client(2), 0, post("{}"))
        .await
        .unwrap_err();
    assert_eq!(refusal.reason, Reason::Rate);
    assert!(refusal.retry_after.is_some());
    rig.reads.forward(client(3), 0, post("{}")).await.unwrap();
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    assert_eq!(rig.reads.clients().reads_of(client(2)), 0);
    // One of three was taken by the read above.
    rig.reads.admit(client(2), 2).unwrap();
    let refusal = rig.reads.admit(client(2), 1).unwrap_err();
    let wait = refusal.retry_after.unwrap();
    assert!(
        wait > Duration::ZERO && wait <= Duration::from_secs(1_000),
        "{wait:?}"
    );
    rig.stop().await;
}

#[tokio::test]
async fn a_large_answer_needs_no_more_than_its_window() {
    const LEN: usize = 8 << 20;
    let server = ScriptedServer::start(|connection| {
        let answer = testkit::http_answer(200, &"x".repeat(LEN));
        while connection.read_request().is_some() {
            connection.send(&answer);
        }
    });
    let mut settings = config(&[server.http_url()]);
    settings.fixed.window_bytes = 64 << 10;
    settings.buffer.bytes = 160 << 10;
    let rig = Rig::start(&settings);
    let mut answer = rig.reads.forward(client(2), 0, post("{}")).await.unwrap();
    let refusal = rig
        .reads
        .forward(client(2), 0, post("{}"))
        .await
        .unwrap_err();
    assert_eq!(refusal.reason, Reason::Bytes);
    let mut len = 0;
    while let Some(piece) = answer.body.next().await {
        let piece = piece.unwrap();
        assert!(piece.len() <= 64 << 10);
        assert_eq!(rig.ledger.used(), 64 << 10);
        len += piece.len();
    }
    assert_eq!(len, LEN);
    drop(answer);
    assert_eq!(rig.ledger.used(), 0);
    rig.stop().await;
}

#[tokio::test]
async fn unsafe_methods_are_refused() {
    let rig = Rig::to(&["http://127.0.0.1:1".to_owned()]);
    let refusal = rig.reads.check_method("unsafe_flush_mempool").unwrap_err();
    assert_eq!(refusal.reason, Reason::Method);
    rig.reads.check_method("status").unwrap();
    rig.stop().await;
}

/// The connections that reads came over, and a node that answers each target in a way of its own.
fn curious() -> (Arc<Mutex<HashSet<usize>>>, ScriptedServer) {
    let used = Arc::new(Mutex::new(HashSet::new()));
    let seen = Arc::clone(&used);
    let server = ScriptedServer::start(move |connection| {
        while let Some(request) = connection.read_request() {
            let line = request.head.split("\r\n").next().unwrap();
            let answer: &str = match line.trim_end_matches(" HTTP/1.1") {
                "HEAD /status" => "HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n",
                "HEAD /block" => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                "HEAD /lying" => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nextra",
                "OPTIONS /" => "HTTP/1.1 204 No Content\r\n\r\n",
                "GET /empty" => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                "GET /unchanged" => "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
                "GET /short" => {
                    "HTTP/1.1 200 OK\r\nContent-Length: 400\r\nTransfer-Encoding: chunked\r\n\r\n\
                     5\r\nhello\r\n0\r\n\r\n"
                }
                "GET /long" => {
                    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n\
                     e\r\nhelloHTTP/1.1 \r\n0\r\n\r\n"
                }
                "GET /two" => {
                    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"
                }
                "GET /old" => {
                    connection.send("HTTP/1.0 200 OK\r\n\r\nhello");
                    return;
                }
                // The watchers'.
                "POST /" => {
                    let status = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{STATUS}}}"#);
                    connection.send(testkit::http_answer(200, &status));
                    continue;
                }
                _ => {
                    connection.send(testkit::http_answer(200, "{}"));
                    continue;
                }
            };
            seen.lock().unwrap().insert(connection.number());
            connection.send(answer);
        }
    });
    (used, server)
}

fn ask(http_method: Method, target: &str) -> ReadRequest {
    ReadRequest {
        http_method,
        ..get(target)
    }
}

/// At 2b52556 an answer without a body closed its connection to the node: 150 HEADs left 149 of them in
/// TIME_WAIT, and with some thousands a second no port was left for any client's reads.
#[tokio::test]
async fn case_90_a_thousand_answers_without_a_body_come_over_one_connection() {
    let (used, server) = curious();
    let mut settings = config(&[server.http_url()]);
    settings.reads.rate_per_client = "10000/s".parse().unwrap();
    let rig = Rig::start(&settings);
    let asked = [
        (Method::HEAD, "/status", Some(2_000)),
        (Method::HEAD, "/block", None),
        (Method::OPTIONS, "/", Some(0)),
        (Method::GET, "/empty", Some(0)),
        (Method::GET, "/unchanged", Some(0)),
    ];
    for (method, target, length) in asked.into_iter().cycle().take(1_000) {
        let request = ask(method, target);
        let answer = rig.reads.forward(client(2), 0, request).await.unwrap();
        assert_eq!(answer.length, length, "{target}");
    }
    assert_eq!(used.lock().unwrap().len(), 1);
    rig.stop().await;
}

/// At 2b52556 the client got the length of `Content-Length` and the bytes of the chunks: those beyond
/// it were the next answer on its connection, which a load balancer shares.
#[tokio::test]
async fn case_90_the_length_that_a_client_is_told_is_the_one_of_the_framing() {
    let (_, server) = curious();
    let rig = Rig::to(&[server.http_url()]);
    for (target, expected) in [
        ("/long", "helloHTTP/1.1 "),
        ("/short", "hello"),
        ("/old", "hello"),
    ] {
        let answer = rig.reads.forward(client(2), 0, get(target)).await.unwrap();
        assert_eq!(answer.length, None, "{target}");
        assert!(!answer.headers.contains_key("content-length"));
        assert_eq!(body(answer).await.unwrap(), expected.as_bytes(), "{target}");
    }
    let refused = rig.reads.forward(client(2), 0, get("/two")).await;
    assert_eq!(refused.unwrap_err().reason, Reason::Upstream);
    // The bytes behind the head belong to no answer.
    let lying = ask(Method::HEAD, "/lying");
    rig.reads.forward(client(2), 0, lying).await.unwrap();
    let answer = rig
        .reads
        .forward(client(2), 0, get("/other"))
        .await
        .unwrap();
    assert_eq!(body(answer).await.unwrap(), b"{}");
    rig.stop().await;
}

/// At 2b52556 each read waited 30 s for a node that was stopped (SIGSTOP), and those of a client that had all its
/// reads there were refused for its rate.
#[tokio::test]
async fn case_91_reads_are_refused_at_once_while_no_node_answers() {
    let servers = [(); 2].map(|()| forgetful(usize::MAX));
    let settings = config(&servers.each_ref().map(ScriptedServer::http_url));
    let shared_context = SharedContext {
        clock: Clock::started(Duration::from_secs(60)),
        ..SharedContext::new(settings.clone(), CancellationToken::new())
    };
    // No task watches the nodes: their state is what this test sets.
    let (nodes, _events, _worker) = Nodes::start(shared_context).unwrap();
    let reads = Reads::new(&settings, &nodes);
    let know = |node: usize, owed: Option<Duration>| {
        let mut state = nodes.node(node).state();
        state.up = true;
        state.unanswered_since = owed.map(|owed| Nanos::from_secs(60).saturating_sub(owed.into()));
    };
    let owed = Duration::from_secs;
    know(0, Some(owed(10)));
    know(1, Some(owed(40)));
    for _ in 0..2 * settings.fixed.reads_per_client {
        let refusal = reads
            .forward(client(2), 0, get("/status"))
            .await
            .unwrap_err();
        assert_eq!(refusal.reason, Reason::Upstream);
        assert!(refusal.retry_after.is_some());
    }
    assert_eq!(servers.each_ref().map(ScriptedServer::connections), [0, 0]);
    // Another one that answers is asked in its place, and itself once it answers.
    reads.note_write(client(2));
    for (node, asked) in [(1, [0, 1]), (0, [1, 1])] {
        know(node, None);
        let answer = reads.forward(client(2), 0, get("/status")).await.unwrap();
        assert_eq!(body(answer).await.unwrap(), b"{}");
        assert_eq!(servers.each_ref().map(ScriptedServer::connections), asked);
    }
    // One that is late may be executing a block.
    know(0, Some(owed(1)));
    reads.forward(client(2), 0, get("/status")).await.unwrap();
}
