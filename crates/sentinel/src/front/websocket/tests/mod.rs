//! Sessions in memory: what comes back, when, and what it costs.

mod patience;
mod sharing;

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};
use wire::ws::frame::{BINARY, CLOSE, FIN, PING, PONG, TEXT, write_masked};

use crate::front::backend::WRITE_OVERHEAD;
use crate::front::testing::{Bench, Client, HANDSHAKE, answer_to, call, settle, sync};
use crate::refusal::{Reason, Refusal};

/// A frame as a client sends it.
pub(in crate::front) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_masked(&mut bytes, TEXT, [7, 11, 13, 17], payload.len(), |out| {
        out.extend_from_slice(payload);
    });
    bytes[0] = first;
    bytes
}

pub(in crate::front) fn text(message: &str) -> Vec<u8> {
    frame(FIN | TEXT, message.as_bytes())
}

impl Client {
    async fn open(bench: &Bench) -> Self {
        Self::open_from(bench, [192, 0, 2, 1]).await
    }

    async fn open_from(bench: &Bench, address: [u8; 4]) -> Self {
        let mut client = bench.connect_from(address);
        client.send(HANDSHAKE).await;
        let (head, _) = client.answer().await;
        assert!(
            head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"),
            "{head}"
        );
        assert!(
            head.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
            "{head}"
        );
        client
    }

    /// The next frame: its opcode and its payload.
    async fn frame(&mut self) -> (u8, Vec<u8>) {
        let first = self.0.read_u8().await.expect("a frame");
        assert_eq!(first & FIN, FIN);
        let len = match self.0.read_u8().await.unwrap() {
            126 => self.0.read_u16().await.unwrap().into(),
            127 => self.0.read_u64().await.unwrap(),
            len => len.into(),
        };
        let mut payload = vec![0; len as usize];
        self.0.read_exact(&mut payload).await.unwrap();
        (first & !FIN, payload)
    }

    /// The next text.
    pub(in crate::front) async fn text(&mut self) -> String {
        let (opcode, payload) = self.frame().await;
        assert_eq!(opcode, TEXT, "{payload:?}");
        String::from_utf8(payload).unwrap()
    }

    /// The code of the close frame that comes next, and the end behind it.
    async fn close_code(&mut self) -> u16 {
        let (opcode, payload) = self.frame().await;
        assert_eq!(opcode, CLOSE, "{payload:?}");
        assert_eq!(self.rest().await, "");
        u16::from_be_bytes([payload[0], payload[1]])
    }
}

#[tokio::test(start_paused = true)]
async fn ws_46_writes_are_many_under_way_and_answered_as_they_come() {
    let bench = Bench::new();
    bench.fake.state().hold = true;
    let mut client = Client::open(&bench).await;
    let many: Vec<u8> = (0..100).flat_map(|id| text(&sync(id, "a"))).collect();
    client.send(many).await;
    settle().await;
    assert_eq!(bench.fake.state().queue.len(), 100);
    assert_eq!(bench.shared.ledger.used(), 100 * (1 + WRITE_OVERHEAD));
    // A question is not held up by them.
    client.send(text(&call(500, "status"))).await;
    assert_eq!(client.text().await, "relayed 500");
    // The fake answers the last first.
    bench.fake.release();
    for id in (0..100).rev() {
        assert_eq!(client.text().await, answer_to(id, "a"));
    }
    assert_eq!(bench.metric("sentinel_ws_clients"), "1");
    drop(client);
    settle().await;
    assert_eq!(bench.metric("sentinel_ws_clients"), "0");
    assert_eq!(bench.shared.ledger.used(), 0);
    assert_eq!(bench.shared.budget.connections(), 0);
}

/// Only those of clients of HTTP/1.1 that hung up were.
#[tokio::test(start_paused = true)]
async fn the_calls_of_a_client_that_goes_away_are_counted() {
    let bench = Bench::new();
    {
        let mut state = bench.fake.state();
        state.hold = true;
        state.room = Some(1);
    }
    let mut client = Client::open(&bench).await;
    // One is under way, one waits for room.
    let sent: Vec<u8> = (0..2).flat_map(|id| text(&sync(id, "a"))).collect();
    client.send(sent).await;
    settle().await;
    drop(client);
    sleep(Duration::from_secs(2)).await;
    let series = "sentinel_requests_total{transport=\"ws\",lane=\"write\",method_class=\"broadcast_sync\",outcome=\"cancelled\"}";
    assert_eq!(bench.metric(series), "2");
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_queue_is_full_is_held_and_not_refused() {
    let bench = Bench::new();
    {
        let mut state = bench.fake.state();
        state.hold = true;
        state.room = Some(5);
    }
    let mut client = Client::open(&bench).await;
    let sent: Vec<u8> = (0..25).flat_map(|id| text(&sync(id, "a"))).collect();
    client.send(sent).await;
    settle().await;
    assert_eq!(bench.fake.state().queue.len(), 5);
    // However long that takes: its silence is ours.
    for _ in 0..4 {
        sleep(Duration::from_secs(100)).await;
        assert_eq!(bench.fake.state().queue.len(), 5);
        bench.fake.release();
        settle().await;
    }
    bench.fake.release();
    let mut ids = Vec::new();
    while ids.len() < 25 {
        let (opcode, payload) = client.frame().await;
        if opcode == TEXT {
            ids.push(String::from_utf8(payload).unwrap());
        } else {
            assert_eq!(opcode, PING);
        }
    }
    ids.sort();
    let mut expected: Vec<_> = (0..25).map(|id| answer_to(id, "a")).collect();
    expected.sort();
    assert_eq!(ids, expected);
    assert_eq!(bench.fake.state().txs.len(), 25);
}

#[tokio::test(start_paused = true)]
async fn refusals_carry_the_id_and_the_session_stays() {
    let bench = Bench::new();
    let mut client = Client::open(&bench).await;
    bench.fake.state().refusal = Some(Refusal::new(Reason::QueueTimeout, "too long"));
    client.send(text(&sync(7, "a"))).await;
    let answer = client.text().await;
    assert!(
        answer.starts_with(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603"#),
        "{answer}"
    );
    client.send(text(&call(8, "unsafe_flush_mempool"))).await;
    let answer = client.text().await;
    assert!(
        answer.starts_with(r#"{"jsonrpc":"2.0","id":8,"error":"#),
        "{answer}"
    );
    let deep = format!(r#"{{"id":1,"params":{}"#, "[".repeat(1_000));
    client.send(text(&deep)).await;
    assert!(client.text().await.contains("nested deeper"));
    bench.fake.state().refusal = None;
    client.send(text(&sync(9, "a"))).await;
    assert_eq!(client.text().await, answer_to(9, "a"));
    assert_eq!(
        bench.metric(r#"sentinel_rejected_total{reason="queue_timeout"}"#),
        "1"
    );
}

#[tokio::test(start_paused = true)]
async fn everything_but_writes_is_relayed_as_it_came() {
    let bench = Bench::new();
    let mut client = Client::open(&bench).await;
    let subscribe =
        r#"{"jsonrpc":"2.0","method":"subscribe","id":0,"params":{"query":"tm.event='NewBlock'"}}"#;
    for message in [subscribe, "nonsense", "[]"] {
        client.send(text(message)).await;
        client.text().await;
    }
    // The node reads binary messages no differently.
    client
        .send(frame(FIN | BINARY, call(3, "health").as_bytes()))
        .await;
    assert_eq!(client.text().await, "relayed 3");
    client
        .send(frame(FIN | BINARY, sync(4, "b").as_bytes()))
        .await;
    assert_eq!(client.text().await, answer_to(4, "b"));
    assert_eq!(
        bench.fake.state().relayed,
        [subscribe, "nonsense", "[]", &call(3, "health")]
    );
    // A notification is not even passed on.
    client
        .send(text(r#"{"jsonrpc":"2.0","method":"status"}"#))
        .await;
    settle().await;
    assert_eq!(bench.fake.state().relayed.len(), 4);
    assert_eq!(
        bench.metric(
            r#"sentinel_requests_total{transport="ws",lane="read",method_class="subscribe",outcome="forwarded"}"#
        ),
        "1"
    );
}

#[tokio::test(start_paused = true)]
async fn json_41_a_message_is_a_write_however_it_is_spelled() {
    let bench = Bench::new();
    let mut client = Client::open(&bench).await;
    let odd = r#"{"id":2.0,"METHOD":"broadcast_tx_sync","params":["YQ=="]}"#;
    let listed = r#"{"id":3,"method":"broadcast_tx_sync","params":[[98]]}"#;
    let refused = r#"{"id":5,"method":"broadcast_tx_sync","params":["!"]}"#;
    let all = [&sync(1, "a"), odd, listed, &sync(4, "c"), refused].map(text);
    client.send(all.concat()).await;
    for (id, tx) in [(1, "a"), (2, "a"), (3, "b"), (4, "c")] {
        assert_eq!(client.text().await, answer_to(id, tx));
    }
    // For the node's words.
    assert_eq!(client.text().await, "relayed 5");
    assert_eq!(bench.fake.state().txs, ["a", "a", "b", "c"]);
    assert_eq!(bench.fake.state().relayed, [refused]);
}

#[tokio::test(start_paused = true)]
async fn ws_43_messages_come_in_fragments_and_byte_by_byte() {
    let bench = Bench::new();
    let mut client = Client::open(&bench).await;
    let message = sync(1, &"t".repeat(500_000));
    let (first, second) = message.as_bytes().split_at(300_000);
    client.send(frame(TEXT, first)).await;
    client.send(frame(FIN | PING, b"")).await;
    client.send(frame(FIN, second)).await;
    assert_eq!(client.frame().await.0, PONG);
    assert!(
        client
            .text()
            .await
            .starts_with(r#"{"jsonrpc":"2.0","id":1,"result""#)
    );
    for byte in text(&sync(2, "b")) {
        client.send([byte]).await;
        settle().await;
    }
    assert_eq!(client.text().await, answer_to(2, "b"));
    settle().await;
    assert_eq!(bench.shared.ledger.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn ws_47_pages_of_other_origins_may_be_kept_out() {
    let bench = Bench::with(|config| config.cors.origins = vec!["https://good".to_owned()]);
    let with =
        |origin: &str| HANDSHAKE.replace("\r\n\r\n", &format!("\r\nOrigin: {origin}\r\n\r\n"));
    let mut bad = bench.connect();
    bad.send(with("https://evil")).await;
    assert_eq!(bad.status().await.0, 403);
    let mut good = bench.connect();
    good.send(with("https://good")).await;
    assert!(good.answer().await.0.starts_with("HTTP/1.1 101 "));
}
