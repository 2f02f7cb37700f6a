//! Writes that make the node end the connection they come over, and all that is under way on it: case 98.

use std::time::Duration;

use chain_cometbft::decode_answer;
use rpc::BroadcastMethod;
use sentinel::config::PaceMode;
use testkit::{FrameKind, ScriptedConnection, ScriptedServer, frame, http_answer};

use crate::sdk::status;
use crate::support::load::{committed_at_least, wait_for};
use crate::support::websocket::WebSocket;
use crate::support::{Node, Proxy, broadcast};

/// Connections that broke, by the operator's metric.
fn broken(proxy: &Proxy) -> u64 {
    let text = proxy.admin().get("/metrics").unwrap().text();
    let name = "sentinel_upstream_errors_total{class=\"broken\"} ";
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().parse().unwrap()
}

/// Every admitted write ended once.
fn stop(proxy: Proxy, admitted: u64) {
    let accounts = proxy.stop();
    assert_eq!(
        (accounts.admitted, accounts.forwarded),
        (admitted, admitted),
        "{accounts:?}"
    );
}

/// At 2b52556 one such body every nine seconds left no write of anybody else.
#[test]
fn case_98_a_body_as_long_as_the_node_reads_breaks_no_connection() {
    let node = Node::start();
    let proxy = Proxy::start(&node.url());
    let base64 = "A".repeat(999_948);
    let body = format!(r#"{{"id":1,"method":"broadcast_tx_sync","params":["{base64}"]}}"#);
    assert_eq!(body.len(), 999_999);
    let answer = proxy.http().post("/", body.as_bytes()).unwrap().text();
    let answered = decode_answer(answer.as_bytes());
    assert!(answered.is_ok(), "{answer}");
    let next = broadcast(2, BroadcastMethod::Sync, b"a=1");
    let answer = proxy.http().post("/", &next).unwrap().text();
    assert!(answer.contains(r#""code":0"#), "{answer}");
    assert_eq!(broken(&proxy), 0);
    committed_at_least(node.node.rpc_address(), 1);
    stop(proxy, 2);
}

/// What a scripted node does when this transaction comes.
#[derive(Clone, Copy)]
enum Poison {
    /// It closes whatever connection it comes over.
    Closes,
    /// It closes a WebSocket because the message is too long for it, and takes the transaction over HTTP.
    TooLong,
    /// Its handler panics.
    Panics,
}

const ACCEPTED: &str = r#""result":{"code":0,"data":"","log":"","codespace":"","hash":"00"}"#;
const PANIC: &str = r#"{"jsonrpc":"2.0","id":-1,"error":{"code":-32603,"message":"Internal error","data":"panic in handler"}}"#;

impl Poison {
    const TX: [u8; 20_000] = [b'p'; 20_000];

    fn serve(self) -> ScriptedServer {
        ScriptedServer::start(move |connection| {
            while let Some(request) = connection.read_request() {
                if request.head.starts_with("GET /websocket") {
                    connection.agree_to_websocket(&request);
                    return self.serve_websocket(connection);
                }
                if !contains(&request.body, b"broadcast_tx") {
                    connection.send(status(&request.body));
                } else if matches!(self, Self::Closes) && contains(&request.body, b"cHBwcHBw") {
                    return;
                } else {
                    let answer = format!(r#"{{"jsonrpc":"2.0","id":1,{ACCEPTED}}}"#);
                    connection.send(http_answer(200, &answer));
                }
            }
        })
    }

    fn serve_websocket(self, connection: &mut ScriptedConnection) {
        while let Some(read) = connection.read_frame() {
            let call: serde_json::Value = serde_json::from_slice(&read.payload).unwrap();
            let Some(tx) = call["params"]["tx"].as_str() else {
                // A follower, for which nothing happens.
                return connection.freeze();
            };
            let tx = base64_simd::STANDARD.decode_to_vec(tx).unwrap();
            let id = &call["id"];
            match self {
                _ if tx != Self::TX => {
                    connection.send_text(format!(r#"{{"jsonrpc":"2.0","id":{id},{ACCEPTED}}}"#));
                }
                Self::Closes => return,
                Self::TooLong => {
                    connection.send(frame(FrameKind::Whole(8), &1009_u16.to_be_bytes()));
                    return;
                }
                Self::Panics => connection.send_text(PANIC),
            }
        }
    }
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|one| one == word)
}

/// Sends such a transaction between others: the answers to all, by their ids, and what broke.
fn answers_of(poison: Poison, broke: impl Fn(u64) -> bool) -> Vec<String> {
    let server = poison.serve();
    let proxy = Proxy::with(&server.http_url(), |config| {
        config.pace.mode = PaceMode::Off;
        config.fair.queue_timeout = Duration::from_secs(60);
    });
    let mut socket = WebSocket::connect(proxy.address);
    for id in 0..10_u8 {
        let tx = if id == 4 {
            Poison::TX.to_vec()
        } else {
            vec![id]
        };
        socket.send(&broadcast(id.into(), BroadcastMethod::Sync, &tx));
    }
    let mut answers = vec![String::new(); 10];
    for _ in 0..10 {
        let text = socket.text();
        let id = decode_answer(text.as_bytes()).unwrap().id.as_u64().unwrap();
        answers[usize::try_from(id).unwrap()] = text;
    }
    for (id, answer) in answers.iter().enumerate() {
        assert_eq!(
            answer.contains(r#""code":0"#),
            id != 4 || matches!(poison, Poison::TooLong),
            "{answer}"
        );
    }
    let mut count = 0;
    wait_for("the metrics", || {
        count = broken(&proxy);
        broke(count)
    });
    if matches!(poison, Poison::TooLong) {
        // Its length is known now: the next one breaks nothing.
        socket.send(&broadcast(10, BroadcastMethod::Sync, &Poison::TX));
        assert!(socket.text().contains(r#""code":0"#));
        assert_eq!(broken(&proxy), count);
    }
    drop(socket);
    stop(proxy, 10 + u64::from(matches!(poison, Poison::TooLong)));
    answers
}

/// Those that were under way with it are offered again, and it is sent alone after two breaks: whoever sends it is told
/// that its fate is unknown, and the others are served.
#[test]
fn case_98_who_closes_every_connection_is_alone_with_it_and_is_told_so() {
    let answers = answers_of(Poison::Closes, |broken| broken == 3);
    let hash = "hash: ";
    assert!(
        answers[4].contains("unknown") && answers[4].contains(hash),
        "{}",
        answers[4]
    );
}

#[test]
fn case_98_what_a_gateway_finds_too_long_goes_alone_from_then_on() {
    answers_of(Poison::TooLong, |broken| broken == 1);
}

#[test]
fn case_98_a_panic_of_the_nodes_handler_is_the_answer_to_one_write() {
    let answers = answers_of(Poison::Panics, |broken| broken == 0);
    assert!(answers[4].contains("panic in handler"), "{}", answers[4]);
}
