//! Clients that write as fast as they are answered, and the truth about what was committed.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use chain_cometbft::{Outcome, decode_answer};
use rpc::BroadcastMethod;
use testkit::Http;

use super::broadcast;
use super::websocket::WebSocket;

/// One client's writes: names of its transactions and what went wrong.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// How many were sent.
    pub(crate) sent: u64,
    /// Whose check passed, by their sequence number.
    pub(crate) accepted: Vec<u64>,
    /// Answers that say anything else.
    pub(crate) errors: Vec<String>,
}

/// When clients end, and how many writes were accepted until now.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) stop: AtomicBool,
    pub(crate) accepted: AtomicU64,
}

impl Progress {
    /// Waits for this many accepted writes.
    #[track_caller]
    pub(crate) fn reach(&self, accepted: u64) {
        wait_for("accepted writes", || {
            self.accepted.load(Ordering::Relaxed) >= accepted
        });
    }

    /// Its clients end when this is dropped, also where their test fails: the scope of their threads waits for them.
    #[must_use]
    pub(crate) fn at_work(&self) -> AtWork<'_> {
        AtWork(self)
    }
}

/// Clients that go on until this is dropped.
pub(crate) struct AtWork<'a>(&'a Progress);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Waits until something is so; panics after a minute and a half.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(90);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The transaction of a client, by its sequence number.
pub(crate) fn tx(client: u8, sequence: u64) -> String {
    format!("c{client}n{sequence}=1")
}

/// Keeps `window` syncs under way over one WebSocket from 127.0.0.`client`, until it is stopped
/// and everything is answered.
pub(crate) fn write(client: u8, to: SocketAddr, window: u64, progress: &Progress) -> Written {
    write_as(client, client, to, window, progress)
}

/// The same with the transactions of another number.
pub(crate) fn write_as(
    client: u8,
    number: u8,
    to: SocketAddr,
    window: u64,
    progress: &Progress,
) -> Written {
    let mut socket = WebSocket::connect_from(IpAddr::from([127, 0, 0, client]), to);
    let mut written = Written::default();
    let mut answered = 0;
    loop {
        let stops = progress.stop.load(Ordering::Relaxed);
        while !stops && written.sent - answered < window {
            let tx = tx(number, written.sent);
            let body = broadcast(written.sent, BroadcastMethod::Sync, tx.as_bytes());
            socket.send(&body);
            written.sent += 1;
        }
        if answered == written.sent {
            return written;
        }
        let text = socket.text();
        answered += 1;
        let answer = decode_answer(text.as_bytes()).unwrap();
        match (answer.id.as_u64(), answer.outcome) {
            (Some(id), Outcome::Broadcast { code: 0, .. }) => {
                written.accepted.push(id);
                progress.accepted.fetch_add(1, Ordering::Relaxed);
            }
            _ => written.errors.push(text),
        }
    }
}

/// Every transaction of the chain, in order, as text.
pub(crate) fn committed(node: SocketAddr) -> Vec<String> {
    let texts = committed_bytes(node).into_iter().map(String::from_utf8);
    texts.collect::<Result<_, _>>().unwrap()
}

/// Every transaction of the chain, in order.
pub(crate) fn committed_bytes(node: SocketAddr) -> Vec<Vec<u8>> {
    let http = Http::new(node, Duration::from_secs(20));
    let ask = |path: &str| -> serde_json::Value {
        serde_json::from_slice(&http.get(path).unwrap().body).unwrap()
    };
    let status = ask("/status");
    let height = &status["result"]["sync_info"]["latest_block_height"];
    let height: u64 = height.as_str().unwrap().parse().unwrap();
    let mut txs = Vec::new();
    for height in 1..=height {
        let block = ask(&format!("/block?height={height}"));
        let data = &block["result"]["block"]["data"]["txs"];
        for tx in data.as_array().into_iter().flatten() {
            let tx = base64_simd::STANDARD.decode_to_vec(tx.as_str().unwrap());
            txs.push(tx.unwrap());
        }
    }
    txs
}

/// Waits until the chain has as many transactions, and returns all of them.
#[track_caller]
pub(crate) fn committed_at_least(node: SocketAddr, count: usize) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let txs = committed(node);
        if txs.len() >= count {
            return txs;
        }
        let len = txs.len();
        assert!(Instant::now() < deadline, "{len} of {count} are in blocks");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Nothing is there twice; the place of each.
#[track_caller]
pub(crate) fn places(txs: &[String]) -> HashMap<&str, usize> {
    let mut places = HashMap::new();
    for (place, tx) in txs.iter().enumerate() {
        let before = places.insert(tx.as_str(), place);
        assert_eq!(before, None, "{tx} was committed twice");
    }
    places
}
