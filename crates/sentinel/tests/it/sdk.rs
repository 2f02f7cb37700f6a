//! Accounts of Cosmos SDK chains keep their sequences, whatever the node refuses. Case 80.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chain_cometbft::{Outcome, decode_answer};
use cosmos::{Coin, Draft, Fee, Keys, Message, Outline, Prefix, Signer, Signing};
use rpc::BroadcastMethod;
use sentinel::config::PaceMode;
use testkit::{ScriptedConnection, ScriptedServer, Simd, http_answer};

use crate::support::load::{committed_bytes, wait_for};
use crate::support::websocket::WebSocket;
use crate::support::{Proxy, broadcast};

/// A transfer of the validator of [`Simd`] to itself; `memo` tells two of one sequence apart.
pub(crate) fn transfer(sequence: u64, gas: u64, memo: &str) -> Vec<u8> {
    let keys = Keys::from_mnemonic(Simd::WALLET, "m/44'/118'/0'/0").unwrap();
    let (key, prefix) = (keys.key(0).unwrap(), Prefix::new("cosmos").unwrap());
    let message = Message::send(
        &prefix,
        key.address(),
        key.address(),
        &Coin::new(1, "stake"),
    );
    let fee = Fee {
        coins: Vec::new(),
        gas,
    };
    let draft = Draft {
        memo,
        ..Draft::new(std::slice::from_ref(&message), &fee)
    };
    let signer = Signer {
        key: &key,
        account_number: 0,
        sequence,
    };
    let mut tx = Vec::new();
    Signing::default().sign(Simd::CHAIN, &draft, &signer, &mut tx);
    tx
}

/// Code, and the words of an error or of the check, in the order of the requests.
fn send_all(proxy: &Proxy, txs: &[Vec<u8>]) -> Vec<(u32, String)> {
    let mut socket = WebSocket::connect(proxy.address);
    for (id, tx) in (0..).zip(txs) {
        socket.send(&broadcast(id, BroadcastMethod::Sync, tx));
    }
    let mut answers = vec![(u32::MAX, String::new()); txs.len()];
    for _ in txs {
        let text = socket.text();
        let answer = decode_answer(text.as_bytes()).unwrap();
        let place = usize::try_from(answer.id.as_u64().unwrap()).unwrap();
        answers[place] = match answer.outcome {
            Outcome::Broadcast { code, log, .. } => (code, log.into_owned()),
            other => (u32::MAX, format!("{other:?}")),
        };
    }
    answers
}

/// A node that checks the sequence of one account as the SDK does, and refuses or loses what a test says.
#[derive(Default)]
struct Account {
    expected: u64,
    /// So many broadcasts are awaited before the first is answered.
    awaited: usize,
    /// Sequences that a full mempool refuses once.
    full: Vec<u64>,
    /// Once this sequence was accepted, those from the second number on are lost.
    loses: Option<(u64, u64)>,
    /// Sequences whose fee is too low.
    cheap: Vec<u64>,
    /// Sequences in the order in which they were accepted.
    accepted: Vec<u64>,
}

impl Account {
    /// The member of the answer to a transaction.
    fn check(&mut self, sequence: u64) -> String {
        if self.full.contains(&sequence) {
            self.full.retain(|one| *one != sequence);
            return r#""error":{"code":-32603,"message":"Internal error","data":"mempool is full: number of txs 5 (max: 5), total txs bytes 9 (max: 99)"}"#.to_owned();
        }
        let (code, log) = if self.cheap.contains(&sequence) {
            (
                13,
                "insufficient fees; got: 1stake required: 2stake: insufficient fee".to_owned(),
            )
        } else if sequence != self.expected {
            let expected = self.expected;
            (
                32,
                format!(
                    "account sequence mismatch, expected {expected}, got {sequence}: incorrect account sequence"
                ),
            )
        } else {
            self.accepted.push(sequence);
            self.expected += 1;
            if let Some((_, from)) = self.loses.take_if(|(after, _)| *after == sequence) {
                self.expected = from;
            }
            (0, String::new())
        };
        let space = if code == 0 { "" } else { "sdk" };
        format!(
            r#""result":{{"code":{code},"data":"","log":"{log}","codespace":"{space}","hash":"00"}}"#
        )
    }

    /// Serves it on every connection over which writes come.
    fn serve(self) -> (ScriptedServer, Arc<Mutex<Self>>) {
        let account = Arc::new(Mutex::new(self));
        let shared = Arc::clone(&account);
        let server = ScriptedServer::start(move |connection| {
            while let Some(request) = connection.read_request() {
                if !request.head.starts_with("GET /websocket") {
                    connection.send(status(&request.body));
                    continue;
                }
                connection.agree_to_websocket(&request);
                return answer_broadcasts(connection, &shared);
            }
        });
        (server, account)
    }
}

/// What the proxy asks of a node that stands at height 1.
pub(crate) fn status(body: &[u8]) -> Vec<u8> {
    let call: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let id = &call["id"];
    let result = match call["method"].as_str() {
        Some("status") => {
            r#"{"node_info":{"network":"c","version":"0.38.17"},"sync_info":{"latest_block_height":"1","catching_up":false}}"#
        }
        _ => "{}",
    };
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
    http_answer(200, &answer)
}

fn answer_broadcasts(connection: &mut ScriptedConnection, account: &Mutex<Account>) {
    let mut early = Vec::new();
    while let Some(frame) = connection.read_frame() {
        let call: serde_json::Value = serde_json::from_slice(&frame.payload).unwrap();
        let Some(tx) = call["params"]["tx"].as_str() else {
            // A follower, for which nothing happens.
            return connection.freeze();
        };
        let tx = base64_simd::STANDARD.decode_to_vec(tx).unwrap();
        let sequence = Outline::read(&tx).unwrap().place.unwrap().sequence;
        early.push((call["id"].clone(), sequence));
        let mut account = account.lock().unwrap();
        if early.len() < account.awaited {
            continue;
        }
        account.awaited = 0;
        for (id, sequence) in early.drain(..) {
            let member = account.check(sequence);
            connection.send_text(format!(r#"{{"jsonrpc":"2.0","id":{id},{member}}}"#));
        }
    }
}

fn in_front_of(server: &ScriptedServer) -> Proxy {
    Proxy::with(&server.http_url(), |config| {
        config.pace.mode = PaceMode::Off;
    })
}

fn codes(answers: &[(u32, String)]) -> Vec<u32> {
    answers.iter().map(|(code, _)| *code).collect()
}

/// At d835b97 the clients of those behind the refused one were answered `account sequence mismatch`.
#[test]
fn account_80_a_full_mempool_breaks_no_sequence() {
    let (server, account) = Account {
        awaited: 10,
        full: vec![0, 4],
        ..Account::default()
    }
    .serve();
    let proxy = in_front_of(&server);
    let txs: Vec<_> = (0..10).map(|sequence| transfer(sequence, 1, "")).collect();
    let answers = send_all(&proxy, &txs);
    assert_eq!(codes(&answers), [0; 10], "{answers:?}");
    assert_eq!(account.lock().unwrap().accepted, Vec::from_iter(0..10));
    let accounts = proxy.stop();
    assert_eq!((accounts.admitted, accounts.forwarded), (10, 10));
}

/// CometBFT answers code 0 to some whose place in the mempool is gone by then.
#[test]
fn account_80_what_the_node_accepted_and_lost_is_offered_again_before_what_comes_after_it() {
    let (server, account) = Account {
        loses: Some((4, 2)),
        ..Account::default()
    }
    .serve();
    let proxy = in_front_of(&server);
    let txs: Vec<_> = (0..8).map(|sequence| transfer(sequence, 1, "")).collect();
    let answers = send_all(&proxy, &txs);
    assert_eq!(codes(&answers), [0; 8], "{answers:?}");
    let accepted = account.lock().unwrap().accepted.clone();
    assert_eq!(accepted, [0, 1, 2, 3, 4, 2, 3, 4, 5, 6, 7]);
    let accounts = proxy.stop();
    assert_eq!((accounts.admitted, accounts.forwarded), (8, 8));
}

/// What only the client can mend is the node's answer, at once.
#[test]
fn account_80_gaps_and_fees_of_a_clients_own_are_passed_on() {
    let (server, account) = Account {
        cheap: vec![2],
        ..Account::default()
    }
    .serve();
    let proxy = in_front_of(&server);
    // The second is used, the third too cheap, and so the fourth has nothing before it.
    let txs =
        [(0, "a"), (0, "b"), (2, ""), (3, "")].map(|(sequence, memo)| transfer(sequence, 1, memo));
    let answers = send_all(&proxy, &txs);
    assert_eq!(codes(&answers), [0, 32, 13, 32], "{answers:?}");
    assert!(answers[1].1.contains("expected 1, got 0"), "{answers:?}");
    assert!(answers[2].1.contains("insufficient fee"), "{answers:?}");
    assert!(answers[3].1.contains("expected 1, got 3"), "{answers:?}");
    assert_eq!(account.lock().unwrap().accepted, [0]);
    let accounts = proxy.stop();
    assert_eq!((accounts.admitted, accounts.forwarded), (4, 4));
}

/// More transactions of one account than the mempool takes, all at once, on a real chain.
fn no_sequence_breaks_on_simd(config: &str, app: &str) {
    const COUNT: u64 = 120;
    let chain = Simd::start_with((config, app), |_| {}).unwrap();
    let url = chain.rpc_url();
    let proxy = Proxy::with(&url, |config| {
        // As much under way as there is: order does not follow from waiting for each answer.
        config.pace.mode = PaceMode::Off;
        config.fair.queue_timeout = Duration::from_secs(90);
    });
    // The genesis' own transaction had the sequence 0.
    let txs: Vec<_> = (1..=COUNT)
        .map(|sequence| transfer(sequence, 200_000, ""))
        .collect();
    let answers = send_all(&proxy, &txs);
    let refused = answers.iter().filter(|(code, _)| *code != 0);
    assert_eq!(refused.count(), 0, "{answers:?}");
    let accounts = proxy.stop();
    assert_eq!((accounts.admitted, accounts.forwarded), (COUNT, COUNT));
    let mut found = Vec::new();
    wait_for("all in blocks", || {
        found = committed_bytes(chain.address());
        found.len() >= txs.len()
    });
    assert!(found == txs, "in their order, and nothing else");
}

#[test]
#[ignore = "needs simd"]
fn account_80_a_full_mempool_of_a_real_chain_breaks_no_sequence() {
    no_sequence_breaks_on_simd("mempool.size = 20", "");
}

#[test]
#[ignore = "needs simd"]
fn account_80_a_full_mempool_of_the_application_breaks_no_sequence() {
    no_sequence_breaks_on_simd("", "mempool.max-txs = 20");
}
