//! Queries against a server that answers, and one that does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chain_cometbft::Client;
use rpc::{AnswerLimit, BroadcastMethod, ClientError, ClientOptions};
use serde_json::json;
use testkit::{ScriptedServer, http_answer};

use testkit::FakeNode;

fn client(url: &str) -> Client {
    Client::new(&url.parse().unwrap(), Duration::from_secs(20)).unwrap()
}

fn answering(answer: Vec<u8>) -> ScriptedServer {
    ScriptedServer::start(move |connection| {
        while connection.read_request().is_some() {
            connection.send(&answer);
        }
    })
}

async fn status_error(answer: Vec<u8>) -> ClientError {
    let server = answering(answer);
    client(&server.http_url()).status().await.unwrap_err()
}

#[tokio::test]
async fn what_a_node_says_is_typed() {
    let node = FakeNode::with_blocks();
    node.grow([2, 7]);
    // A WebSocket endpoint is asked over HTTP on the same port.
    let client = client(&format!("{}/websocket", node.url().replace("http", "ws")));
    let status = client.status().await.unwrap();
    assert_eq!(
        (status.chain_id.as_str(), status.moniker.as_str()),
        ("fake", "fake")
    );
    assert_eq!(
        (status.latest_block_height, status.earliest_block_height),
        (2, 1)
    );
    assert!(!status.catching_up);
    assert_eq!(client.block(2).await.unwrap().hashes.len(), 7);
    assert_eq!(
        client.block_results(2).await.unwrap().codes,
        [0, 0, 0, 0, 0, 0, 6]
    );
    match client.block(3).await.unwrap_err() {
        ClientError::Rpc {
            method, code, data, ..
        } => {
            assert_eq!((method.as_str(), code), ("block", -32603));
            assert!(data.contains("less than or equal"));
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn replies_to_broadcasts_are_typed() {
    let result = json!({"code": 3, "log": "no", "data": "", "codespace": "", "hash": "AB"});
    let body = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
    let server = answering(http_answer(200, &body));
    let client = client(&server.http_url());
    let reply = client
        .broadcast(BroadcastMethod::Sync, b"tx")
        .await
        .unwrap();
    assert_eq!(
        (reply.code, reply.log.as_str(), reply.hash.as_str()),
        (3, "no", "AB")
    );

    let result = json!({"check_tx": {"code": 0}, "tx_result": {"code": 9, "log": "late"}, "hash": "AB", "height": "5"});
    let body = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
    let server = answering(http_answer(200, &body));
    let client = self::client(&server.http_url());
    let reply = client
        .broadcast(BroadcastMethod::Commit, b"tx")
        .await
        .unwrap();
    assert_eq!(
        (reply.code, reply.log.as_str(), reply.height),
        (9, "late", 5)
    );
}

#[tokio::test]
async fn something_else_that_answers_is_named() {
    for (answer, words) in [
        (
            http_answer(404, "<html>not here</html>"),
            "a web page (HTTP 404)",
        ),
        (
            http_answer(200, r#"{"hello":"world"}"#),
            r#"'{"hello":"world"}'"#,
        ),
        (http_answer(200, r#"{"id":1,"resu"#), r#"'{"id":1,"resu'"#),
        (b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(), "not HTTP"),
    ] {
        let error = status_error(answer).await;
        assert!(matches!(error, ClientError::NotRpc { .. }), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains(words) && text.contains("check host, port and path"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_node_of_another_kind_is_named() {
    let error = status_error(http_answer(200, r#"{"id":1,"result":{"blocks":7}}"#)).await;
    assert!(matches!(error, ClientError::Unexpected { .. }), "{error:?}");
    assert!(error.to_string().contains("node_info"), "{error}");
    let error = status_error(http_answer(
        500,
        r#"{"jsonrpc":"2.0","id":-1,"error":{"code":-32601,"message":"Method not found"}}"#,
    ))
    .await;
    assert_eq!(
        error.to_string(),
        "the node refused status: Method not found (code -32601)"
    );
}

#[tokio::test]
async fn tls_to_a_server_without_it_is_told_and_says_what_to_write() {
    let plain = ScriptedServer::start(|connection| {
        connection.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let secured = plain.http_url().replace("http://", "https://");
    let error = client(&secured).status().await.unwrap_err().to_string();
    assert!(
        error.contains("answers without TLS; write http:// in place of https://"),
        "{error}"
    );
}

/// A server that knows only `/metrics` answered 404 to `/metrics/`.
#[tokio::test]
async fn a_text_is_asked_for_under_the_path_that_was_given() {
    let server = ScriptedServer::start(|connection| {
        while let Some(request) = connection.read_request() {
            let target = request.head.split(' ').nth(1).unwrap_or_default();
            connection.send(http_answer(200, target));
        }
    });
    for (given, asked) in [("/metrics", "/metrics"), ("/a/b/", "/a/b"), ("", "/")] {
        let client = client(&format!("{}{given}", server.http_url()));
        assert_eq!(client.text("").await.unwrap(), asked);
    }
}

#[tokio::test]
async fn nobody_there_and_nobody_answering() {
    let closed = format!("http://127.0.0.1:{}", testkit::free_port());
    let error = client(&closed).status().await.unwrap_err();
    assert!(
        matches!(error, ClientError::Unreachable { .. }),
        "{error:?}"
    );
    assert!(
        error.to_string().contains("check that the node runs"),
        "{error}"
    );

    let broken = ScriptedServer::start(|connection| {
        connection.read_request();
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"id");
    });
    let error = client(&broken.http_url()).status().await.unwrap_err();
    assert!(
        matches!(error, ClientError::Unreachable { .. }),
        "{error:?}"
    );

    let frozen = ScriptedServer::start(|connection| {
        connection.read_request();
        connection.freeze();
    });
    let short = Client::new(
        &frozen.http_url().parse().unwrap(),
        Duration::from_millis(50),
    )
    .unwrap();
    let error = short.status().await.unwrap_err();
    assert!(matches!(error, ClientError::Timeout { .. }), "{error:?}");
}

#[tokio::test]
async fn answers_are_bounded() {
    let options = ClientOptions {
        max_answer_bytes: 1000.into(),
        ..Default::default()
    };
    let long = "x".repeat(1001);
    let chunked =
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n{long}\r\n0\r\n\r\n");
    for answer in [http_answer(200, &long), chunked.into_bytes()] {
        let server = answering(answer);
        let client = Client::with_options(&server.http_url().parse().unwrap(), options.clone());
        let error = client.unwrap().status().await.unwrap_err();
        assert!(
            matches!(error, ClientError::TooLarge { limit: 1000, .. }),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_bound_of_answers_that_changes_holds_for_the_next_call() {
    let server = ScriptedServer::start(|connection| {
        let status = r#"{"jsonrpc":"2.0","id":1,"result":{"node_info":{"network":"c","version":"1"},"sync_info":{"latest_block_height":"1","catching_up":false}}}"#;
        while connection.answer_request(200, status) {}
    });
    let limit = AnswerLimit::from(1_000);
    let options = ClientOptions {
        max_answer_bytes: limit.clone(),
        ..Default::default()
    };
    let client = Client::with_options(&server.http_url().parse().unwrap(), options).unwrap();
    for (bytes, read) in [(1_000, true), (50, false), (2_000, true), (20, false)] {
        limit.set(bytes);
        assert_eq!(client.status().await.is_ok(), read, "{bytes}");
    }
}

/// Two hundred accounts are more questions than sentinel lets one client ask in a second: a run ended there, and one
/// whose accounts were asked for within the second before ended at `status`.
#[tokio::test]
async fn a_question_that_a_proxy_holds_back_is_asked_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let server = ScriptedServer::start(move |connection| {
        while connection.read_request().is_some() {
            let refusal = |text: &str| {
                json!({"jsonrpc": "2.0", "id": 1,
                    "error": {"code": -32603, "message": "Internal error", "data": text}})
            };
            let held = "mempool is full: more than 200/s reads of one client (reason: rate, retry_after_ms: 1, not forwarded)";
            let body = match count.fetch_add(1, Ordering::Relaxed) {
                0 | 1 => refusal(held),
                2 => json!({"jsonrpc": "2.0", "id": 1, "result": 7}),
                3 => refusal("(reason: node, retry_after_ms: 1, forwarded, outcome unknown)"),
                _ => refusal("(reason: rate, retry_after_ms: 18446744073709551615, not forwarded)"),
            };
            connection.send(http_answer(200, &body.to_string()));
        }
    });
    let client = client(&server.http_url());
    assert_eq!(client.call::<u64>("x", "{}").await.unwrap(), 7);
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    // What the node may have seen is not asked again, nor is it waited for longer than a call may take.
    for calls in [4, 5] {
        assert!(client.call::<u64>("x", "{}").await.is_err());
        assert_eq!(asked.load(Ordering::Relaxed), calls);
    }
}
