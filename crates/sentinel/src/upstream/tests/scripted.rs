//! Subscriptions at a node that does what it should not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use testkit::{FrameKind, ScriptedConnection, ScriptedRequest, ScriptedServer, frame, http_answer};
use tokio::sync::oneshot::error::TryRecvError;

use super::{Rig, ask, config, height_of, hub::SPELLINGS, message, open, subscribe, text};
use crate::upstream::{ClientLink, RelayLink as _};

const HEADERS: &str = "tm.event='NewBlockHeader'";

fn event(id: &str, height: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"query":"{HEADERS}","data":{{"type":"tendermint/event/NewBlockHeader","value":{{"header":{{"chain_id":"c","height":"{height}"}}}}}},"events":{{"tm.event":["NewBlockHeader"]}}}}}}"#
    )
}

/// Answers what the proxy itself asks: a node at this height.
pub(super) fn answer(request: &ScriptedRequest, height: u64) -> Vec<u8> {
    let call: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let id = &call["id"];
    let result = match call["method"].as_str() {
        Some("status") => format!(
            r#"{{"node_info":{{"network":"c","version":"0.38.17"}},"sync_info":{{"latest_block_height":"{height}","catching_up":false}}}}"#
        ),
        _ => "{}".to_owned(),
    };
    http_answer(
        200,
        &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
    )
}

/// A node whose WebSockets to the hub do what `script` does, which is given the first message and the
/// connection's number. That message tells the hub's from a follower's, whose id is 0.
fn node(
    script: impl Fn(&mut ScriptedConnection, String, usize) + Send + Sync + 'static,
) -> ScriptedServer {
    let links = Arc::new(AtomicUsize::new(0));
    ScriptedServer::start(move |connection| {
        while let Some(request) = connection.read_request() {
            if !request.head.starts_with("GET /websocket") {
                connection.send(answer(&request, 9));
                continue;
            }
            connection.agree_to_websocket(&request);
            let Some(first) = next(connection) else {
                return;
            };
            if first.contains(r#""id":0,"#) {
                return connection.freeze();
            }
            script(connection, first, links.fetch_add(1, Ordering::Relaxed));
            return;
        }
    })
}

/// The next message to the node.
fn next(connection: &mut ScriptedConnection) -> Option<String> {
    let frame = connection.read_frame()?;
    String::from_utf8(frame.payload).ok()
}

/// The node takes the hub's request with this id.
fn confirm(connection: &mut ScriptedConnection, id: u64) {
    connection.send_text(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
}

async fn confirmed(link: &mut ClientLink) {
    let answer = text(link).await;
    assert_eq!(answer, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
}

fn ended(reason: &str) -> String {
    let reason = format!("subscription was canceled (reason: {reason})");
    format!(
        r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":-32000,"message":"Server error","data":"{reason}"}}}}"#
    )
}

#[tokio::test]
async fn events_that_overtake_the_confirmation_wait_for_it() {
    let server = node(|connection, _, _| {
        connection.send_text(event("1", 5));
        confirm(connection, 1);
        connection.send_text(event("1", 6));
        connection.freeze();
    });
    let rig = Rig::up(server.http_url()).await;
    let mut link = open(&rig, 2);
    subscribe(&mut link, "7", HEADERS).unwrap();
    confirmed(&mut link).await;
    for height in 5..=6 {
        assert_eq!(text(&mut link).await, event("7", height));
    }
    drop(link);
    rig.stop().await;
}

/// At 098fb6d5 the new process subscribed when the first client came: what the node sent before that, and clients of the
/// old process had not heard yet, was lost to them.
#[tokio::test]
async fn lifecycle_51_a_new_process_is_subscribed_before_the_clients_of_the_old_one_come() {
    let (open_gate, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let server = node(move |connection, _, number| {
        assert_eq!(number, 0);
        next(connection);
        let _ = gate.lock().unwrap().recv();
        confirm(connection, 1);
        connection.send_text(
            r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"Internal error","data":"failed to parse query"}}"#,
        );
        for height in 5..=6 {
            connection.send_text(event("1", height));
            let _ = gate.lock().unwrap().recv();
        }
        connection.freeze();
    });
    let rig = Rig::up(server.http_url()).await;
    let queries = [
        (0, HEADERS),
        (0, "refused"),
        (9, "at a node that is not here"),
    ];
    let queries = queries.map(|(node, query)| (node, query.to_owned()));
    let (hub, (waiting, mut waited)) = (rig.hub.clone(), tokio::sync::oneshot::channel::<()>());
    let told = queries.to_vec();
    let expecting = tokio::spawn(async move { hub.expect(told, waiting).await });
    while rig.hub.queries().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.hub.queries(), queries[..2]);
    assert_eq!(waited.try_recv(), Err(TryRecvError::Empty));
    open_gate.send(()).unwrap();
    // The old process waits for this.
    waited.await.unwrap_err();
    // Nothing is asked of the node for the client that comes.
    let mut link = open(&rig, 2);
    subscribe(&mut link, "7", HEADERS).unwrap();
    confirmed(&mut link).await;
    open_gate.send(()).unwrap();
    let heard = text(&mut link).await;
    assert!([5, 6].map(|height| event("7", height)).contains(&heard));
    // It stays subscribed when nobody is expected any more.
    expecting.abort();
    assert!(expecting.await.unwrap_err().is_cancelled());
    assert_eq!(rig.hub.queries(), queries[..1]);
    drop((link, open_gate));
    rig.stop().await;
}

/// At d835b97 the second connection was the end of the subscription, once in four stops of a real node.
#[tokio::test]
async fn a_node_that_stops_is_asked_again_for_what_it_has_not_confirmed() {
    let server = node(|connection, _, number| {
        if number == 1 {
            // Its connections are still open.
            connection.send_text(
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error","data":"service is shutting down"}}"#,
            );
            return connection.freeze();
        }
        confirm(connection, 1);
        if number == 0 {
            connection.send_text(event("1", 5));
            connection.send_text(ended("CometBFT exited").replace(":7", ":1"));
        }
        connection.freeze();
    });
    let rig = Rig::up(server.http_url()).await;
    let mut link = open(&rig, 2);
    subscribe(&mut link, "7", HEADERS).unwrap();
    confirmed(&mut link).await;
    assert_eq!(height_of(&text(&mut link).await), 5);
    assert_eq!(text(&mut link).await, ended("CometBFT exited"));
    subscribe(&mut link, "7", HEADERS).unwrap();
    confirmed(&mut link).await;
    assert_eq!(server_connections(&rig), 1);
    drop(link);
    rig.stop().await;
}

fn server_connections(rig: &Rig) -> usize {
    rig.hub.counters().links
}

#[tokio::test]
async fn a_slow_subscriber_is_told_in_the_words_of_the_node() {
    const SLOW: &str = "client is not pulling messages fast enough";
    let server = node(|connection, _, _| {
        confirm(connection, 1);
        connection.send_text(ended(SLOW).replace(":7", ":1"));
        connection.freeze();
    });
    let rig = Rig::up(server.http_url()).await;
    let mut link = open(&rig, 2);
    subscribe(&mut link, "7", HEADERS).unwrap();
    confirmed(&mut link).await;
    assert_eq!(text(&mut link).await, ended(SLOW));
    drop(link);
    rig.stop().await;
}

/// Whatever a client writes, the node gets requests of the hub's own, and one for all that ask for the same.
#[tokio::test]
async fn json_96_no_spelling_of_a_subscription_reaches_the_node() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&seen);
    let server = node(move |connection, first, _| {
        log.lock().unwrap().push(first);
        confirm(connection, 1);
        while let Some(message) = next(connection) {
            log.lock().unwrap().push(message);
            confirm(connection, 2);
        }
    });
    let rig = Rig::up(server.http_url()).await;
    let mut links = Vec::new();
    for request in SPELLINGS {
        let mut link = open(&rig, 2);
        let answer = ask(&mut link, request).await;
        assert_eq!(
            answer, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            "{request}"
        );
        for request in [
            r#"{"id":2,"method":"subscribe","paramſ":{},"Params":7}"#,
            r#"{"id":2,"method":"unsubscribe","params":{},"PARAMS":["a.b='c'"]}"#,
            r#"{"id":2,"m\u0065thod":"unsubscribe_all","params":[1]}"#,
        ] {
            let answer = ask(&mut link, request).await;
            assert!(answer.contains(r#""id":2,"error""#), "{answer}");
        }
        links.push(link);
    }
    let last = links.len() - 1;
    for (number, link) in links.iter_mut().enumerate() {
        let leave =
            r#"{"id":3,"method":"unsubscribe","params":{},"paramſ":["tm.event='NewBlock'"]}"#;
        if number < last {
            let answer = ask(link, leave).await;
            assert_eq!(answer, r#"{"jsonrpc":"2.0","id":3,"result":{}}"#);
        }
    }
    drop(links);
    rig.stop().await;
    let ours =
        r#"{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"query":"tm.event='NewBlock'"}}"#;
    assert_eq!(*seen.lock().unwrap(), [ours]);
}

/// At 2b52556 a request to unsubscribe that failed left the subscription at the node, until the connection
/// ended by itself.
#[tokio::test]
async fn ws_97_a_connection_whose_node_does_not_end_a_subscription_is_replaced() {
    let server = node(|connection, _, number| {
        confirm(connection, if number == 0 { 1 } else { 4 });
        if number == 0 {
            next(connection);
            confirm(connection, 2);
            let leave = next(connection).unwrap();
            assert!(leave.contains(r#""id":3,"method":"unsubscribe","params":{"query":"a.b=1"}"#));
        }
        // It goes on sending events and answers nothing.
        connection.send_text(event("1", 5));
        next(connection);
    });
    let mut settings = config(&[server.http_url()]);
    // Much longer than a confirmation takes on a busy machine.
    settings.upstream.timeout = Duration::from_secs(5);
    let mut rig = Rig::start(&settings);
    rig.ready(0).await;
    let mut link = open(&rig, 2);
    for query in ["a.b=1", "a.b=2"] {
        subscribe(&mut link, "7", query).unwrap();
        confirmed(&mut link).await;
    }
    let leave = r#"{"id":8,"method":"unsubscribe","params":["a.b=1"]}"#;
    link.send(&message(leave), 1).unwrap();
    assert_eq!(
        text(&mut link).await,
        r#"{"jsonrpc":"2.0","id":8,"result":{}}"#
    );
    assert_eq!(
        text(&mut link).await,
        ended("the connection to the node was lost")
    );
    drop(link);
    rig.stop().await;
}

/// While the connection opened, one client's requests filled its queue, another's was lost, and with it the connection;
/// each round opened a further one.
#[tokio::test]
async fn sharing_69_one_that_comes_and_goes_while_a_connection_opens_takes_no_more_than_its_share()
{
    let (sender, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    let server = ScriptedServer::start(move |connection| {
        while let Some(request) = connection.read_request() {
            if !request.head.starts_with("GET /websocket") {
                connection.send(answer(&request, 9));
                continue;
            }
            // An error once the gate is open.
            let _ = gate.lock().unwrap().recv();
            connection.agree_to_websocket(&request);
            let mut messages = 0;
            while let Some(message) = next(connection) {
                let call: serde_json::Value = serde_json::from_str(&message).unwrap();
                confirm(connection, call["id"].as_u64().unwrap());
                messages += 1;
                seen.fetch_max(messages, Ordering::Relaxed);
            }
        }
    });
    // Dropped before the server, which waits for its connections.
    let open_gate = sender;
    let mut settings = config(&[server.http_url()]);
    settings.fixed.subscribers = 8;
    settings.fixed.connect_timeout = Duration::from_secs(60);
    let mut rig = Rig::start(&settings);
    rig.ready(0).await;
    let mut first = open(&rig, 4);
    subscribe(&mut first, "7", "tm.event='Tx'").unwrap();
    let mut refused = 0;
    for number in 0..300 {
        let mut hostile = open(&rig, 3);
        let asked = subscribe(&mut hostile, "1", &format!("a.b={number}"));
        refused += usize::from(asked.is_err());
        // The hub takes each in by itself.
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        drop(hostile);
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }
    let counters = rig.hub.counters();
    let queries = (counters.subscriptions, counters.queries, counters.links);
    // Of 40, less a sixteenth and the one of another: as many as are free besides.
    assert_eq!((refused, queries), (282, (1, 19, 4)));
    let mut polite = open(&rig, 2);
    subscribe(&mut polite, "7", HEADERS).unwrap();
    drop(open_gate);
    for link in [&mut first, &mut polite] {
        confirmed(link).await;
    }
    assert_eq!(rig.hub.counters().ended, 0);
    drop((first, polite));
    while rig.hub.counters().links > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(rig.hub.counters().queries, 0);
    assert!(most.load(Ordering::Relaxed) <= 10, "two a query");
    rig.stop().await;
}

#[tokio::test]
async fn case_23_strange_frames_break_the_connection_and_nothing_else() {
    let server = node(|connection, _, number| match number {
        // Masked, as no server may do.
        0 => connection.send([0x81, 0x80, 1, 2, 3, 4]),
        // Reserved bits.
        1 => connection.send([0xf1, 0]),
        // A fragment of nothing.
        2 => connection.send(frame(FrameKind::Last, b"x")),
        // More than any client would take.
        3 => connection.send([0x81, 127, 0, 0, 1, 0, 0, 0, 0, 0]),
        // Half a frame.
        4 => connection.send([0x81, 5, b'h']),
        5 => connection.reset(),
        _ => {
            connection.send(frame(FrameKind::Whole(9), b"ping"));
            connection.send(frame(FrameKind::First(1), br#"{"jsonrpc":"2.0","#));
            connection.send(frame(FrameKind::Whole(10), b""));
            connection.send_bytewise(frame(FrameKind::Middle, br#""id":1"#));
            connection.send(frame(FrameKind::Last, br#","result":{}}"#));
            let pong = connection.read_frame();
            assert_eq!(
                pong.map(|pong| (pong.opcode, pong.payload)),
                Some((10, b"ping".to_vec()))
            );
            connection.freeze();
        }
    });
    let rig = Rig::up(server.http_url()).await;
    let mut link = open(&rig, 2);
    // A request to subscribe is repeated until the node has taken it.
    subscribe(&mut link, "7", HEADERS).unwrap();
    confirmed(&mut link).await;
    drop(link);
    rig.stop().await;
}

#[tokio::test]
async fn case_23_strange_messages_reach_no_subscriber() {
    let server = node(|connection, _, _| {
        for text in [
            "no json",
            r#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":"1","error":{"code":1}}"#,
        ] {
            connection.send_text(text);
        }
        confirm(connection, 1);
        confirm(connection, 1);
        connection.send_text(event("2", 4));
        connection.send_text(event("1", 5));
        connection.freeze();
    });
    let rig = Rig::up(server.http_url()).await;
    let mut link = open(&rig, 2);
    subscribe(&mut link, "7", HEADERS).unwrap();
    confirmed(&mut link).await;
    assert_eq!(text(&mut link).await, event("7", 5));
    drop(link);
    rig.stop().await;
}
