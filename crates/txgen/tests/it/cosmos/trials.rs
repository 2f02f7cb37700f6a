//! Transactions with something wrong about them or nothing, and what a node says of each: the
//! built-in bank, beside what was recorded of a real chain of the Cosmos SDK.

use std::collections::BTreeMap;
use std::time::Duration;

use chain_cosmos::fixture::{BankAccount, BankConfig, BankKind};
use cosmos::{Coin, Message, Prefix, proto, query};
use devnode::{Blueprint, Config};
use hex_simd::AsciiCase;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use testkit::Simd;

use crate::support::{Node, wait_until};

/// A transaction signed by account `key` of seed 7, with something wrong about it or nothing.
#[derive(Clone, Copy)]
struct Trial {
    key: u32,
    chain: &'static str,
    number: u64,
    sequence: u64,
    gas: u64,
    fee: (u128, &'static str),
    memo: usize,
    messages: fn() -> Vec<Message>,
    unordered: bool,
}

/// What is wrong with a transaction, or different.
type Change = fn(&mut Trial);

/// Account 2 pays account 1 so much.
fn pay(amount: u128, denom: &str) -> Message {
    let [from, to] = [2, 1].map(|number| key(number).address());
    Message::send(&prefix(), from, to, &Coin::new(amount, denom))
}

pub(super) fn key(number: u32) -> cosmos::Key {
    cosmos::Keys::from_seed(7).key(number).unwrap()
}

pub(super) fn prefix() -> Prefix {
    Prefix::new("cosmos").unwrap()
}

/// As fields 1 and 2: an address and what it pays or gets.
fn party(number: u32, amount: u128) -> Vec<u8> {
    let mut out = Vec::new();
    proto::bytes(
        &mut out,
        1,
        prefix().write(key(number).address()).as_bytes(),
    );
    proto::nested(&mut out, 2, |out| Coin::new(amount, "stake").write(out));
    out
}

fn multi_send(inputs: &[Vec<u8>], outputs: &[Vec<u8>]) -> Vec<Message> {
    let mut value = Vec::new();
    for (field, parties) in [(1, inputs), (2, outputs)] {
        for party in parties {
            proto::bytes(&mut value, field, party);
        }
    }
    vec![Message::new(Message::MULTI_SEND, value)]
}

impl Trial {
    fn sign(&self) -> Vec<u8> {
        let key = key(self.key);
        let fee = cosmos::Fee {
            coins: match self.fee {
                (0, _) => Vec::new(),
                (amount, denom) => vec![Coin::new(amount, denom)],
            },
            gas: self.gas,
        };
        let (memo, messages) = ("x".repeat(self.memo), (self.messages)());
        let draft = cosmos::Draft {
            memo: &memo,
            unordered_until_ns: self.unordered.then_some(4_102_444_800_000_000_000),
            ..cosmos::Draft::new(&messages, &fee)
        };
        let signer = cosmos::Signer {
            key: &key,
            account_number: self.number,
            sequence: self.sequence,
        };
        let mut tx = Vec::new();
        cosmos::Signing::default().sign(self.chain, &draft, &signer, &mut tx);
        tx
    }
}

/// Asks a node, and gives the result.
pub(super) fn call(url: &str, method: &str, params: &Value) -> Value {
    let address = url.strip_prefix("http://").unwrap().parse().unwrap();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let http = testkit::Http::new(address, Duration::from_secs(10));
    let answer = http.post("/", body.as_bytes()).unwrap().text();
    serde_json::from_str::<Value>(&answer).unwrap()["result"].take()
}

/// Transactions by their names, in the order in which they are sent.
pub(super) fn trials() -> Vec<(&'static str, Vec<u8>)> {
    let good = Trial {
        key: 2,
        chain: Simd::CHAIN,
        number: 3,
        sequence: 0,
        gas: 100_000,
        fee: (1_000, "stake"),
        memo: 0,
        messages: || vec![pay(1, "stake")],
        unordered: false,
    };
    let with = |change: Change| {
        let mut trial = good;
        change(&mut trial);
        trial.sign()
    };
    let mut all = vec![
        ("a transaction of the key-value store", b"tide=1".to_vec()),
        (
            "an unknown type",
            with(|it| it.messages = || vec![Message::new("/own.v1.MsgDo", Vec::new())]),
        ),
        ("no message", with(|it| it.messages = Vec::new)),
        ("the block's gas", with(|it| it.gas = 2_000_001)),
        ("the first gas", with(|it| it.gas = 1_000)),
        ("gas for a part of its check", with(|it| it.gas = 30_000)),
        ("unordered", with(|it| it.unordered = true)),
        (
            "another chain's payer",
            with(|it| {
                it.messages = || {
                    let osmo = Prefix::new("osmo").unwrap();
                    let coin = Coin::new(1, "stake");
                    vec![Message::send(
                        &osmo,
                        key(2).address(),
                        key(1).address(),
                        &coin,
                    )]
                }
            }),
        ),
        (
            "two signers",
            with(|it| {
                it.messages = || {
                    let coin = Coin::new(1, "stake");
                    let also = Message::send(&prefix(), key(3).address(), key(1).address(), &coin);
                    vec![pay(1, "stake"), also]
                }
            }),
        ),
        (
            "nobody signs",
            with(|it| it.messages = || multi_send(&[], &[party(1, 1)])),
        ),
        ("the memo", with(|it| it.memo = 257)),
        ("the fee", with(|it| it.fee.0 = 999)),
        ("no fee", with(|it| it.fee.0 = 0)),
        ("a fee in another coin", with(|it| it.fee = (5_000, "nope"))),
        ("the fee's funds", with(|it| it.fee.0 = 20_000_000)),
        (
            "an unknown payer",
            with(|it| {
                it.messages = || {
                    let coin = Coin::new(1, "stake");
                    vec![Message::send(
                        &prefix(),
                        key(99).address(),
                        key(1).address(),
                        &coin,
                    )]
                }
            }),
        ),
        ("another's key", with(|it| it.key = 3)),
        ("a later sequence", with(|it| it.sequence = 4)),
        ("another chain", with(|it| it.chain = "tide-2")),
        ("another number", with(|it| it.number = 4)),
        ("a good one", with(|_| {})),
        (
            "its sequence again",
            with(|it| it.messages = || vec![pay(2, "stake")]),
        ),
    ];
    // What blocks hold.
    let executed: [(&str, Change); 13] = [
        ("gas for its check", |it| it.gas = 60_000),
        ("the next", |_| {}),
        ("more than it has", |it| {
            it.messages = || vec![pay(90_000_000, "stake")];
        }),
        ("after that", |_| {}),
        ("two messages", |it| {
            it.messages = || vec![pay(1, "stake"), pay(2, "stake")];
        }),
        ("two messages, one of them too much", |it| {
            it.messages = || vec![pay(1, "stake"), pay(90_000_000, "stake")];
        }),
        ("two recipients", |it| {
            it.messages = || multi_send(&[party(2, 5)], &[party(1, 2), party(5, 3)]);
        }),
        ("two recipients of more than is paid", |it| {
            it.messages = || multi_send(&[party(2, 4)], &[party(1, 2), party(5, 3)]);
        }),
        ("two payers that are one", |it| {
            it.messages = || multi_send(&[party(2, 1), party(2, 1)], &[party(1, 2)]);
        }),
        ("nobody paid", |it| {
            it.messages = || multi_send(&[party(2, 1)], &[]);
        }),
        ("nothing", |it| it.messages = || vec![pay(0, "stake")]),
        ("a coin that is not there", |it| {
            it.messages = || vec![pay(1, "nope")];
        }),
        ("another chain's recipient", |it| {
            it.messages = || {
                let osmo = Prefix::new("osmo").unwrap();
                let to = osmo.write(key(1).address());
                let mut value = Vec::new();
                proto::bytes(&mut value, 1, prefix().write(key(2).address()).as_bytes());
                proto::bytes(&mut value, 2, to.as_bytes());
                proto::nested(&mut value, 3, |out| Coin::new(1, "stake").write(out));
                vec![Message::new("/cosmos.bank.v1beta1.MsgSend", value)]
            }
        }),
    ];
    for (sequence, (name, change)) in (1..).zip(executed) {
        let mut trial = Trial {
            sequence,
            gas: 200_000,
            fee: (2_000, "stake"),
            ..good
        };
        change(&mut trial);
        all.push((name, trial.sign()));
    }
    all
}

/// What a node says of all transactions, and of some questions, by their names.
pub(super) fn said(url: &str) -> Map<String, Value> {
    let mut said = Map::new();
    let mut taken = Vec::new();
    for (name, tx) in trials() {
        let text = base64_simd::STANDARD.encode_to_string(&tx);
        let answer = call(url, "broadcast_tx_sync", &json!({"tx": text}));
        if answer["code"] == 0 {
            taken.push((name, tx));
        } else {
            said.insert(name.to_owned(), answer);
        }
    }
    for (name, tx) in taken {
        said.insert(name.to_owned(), result_in_block(url, &tx));
    }
    let simulated = |name: &str| {
        let trial = trials().into_iter().find(|(it, _)| *it == name);
        query::simulate_request(&trial.unwrap().1)
    };
    let unknown = prefix().write(key(99).address());
    for (name, path, request) in [
        (
            "query: no account",
            query::ACCOUNT,
            query::account_request(&unknown),
        ),
        (
            "query: a balance of nothing",
            query::BALANCE,
            query::balance_request(&unknown, "stake"),
        ),
        ("query: no path", "/own.v1.Query/Do", Vec::new()),
        (
            "query: an old sequence",
            query::SIMULATE,
            simulated("the next"),
        ),
        (
            "query: a simulated unknown type",
            query::SIMULATE,
            simulated("an unknown type"),
        ),
    ] {
        let params =
            json!({"path": path, "data": hex_simd::encode_to_string(request, AsciiCase::Lower)});
        let mut answer = call(url, "abci_query", &params)["response"].take();
        answer["height"].take();
        said.insert(name.to_owned(), answer);
    }
    said.values_mut().for_each(without_details);
    said
}

/// Without events, and words without where in the SDK's source they come from, and without where and with how much the
/// gas ended.
fn without_details(said: &mut Value) {
    if let Some(fields) = said.as_object_mut() {
        fields.remove("events");
    }
    if let Some(log) = said["log"].as_str() {
        let ends = [" [", " with gas used: ", " in location: "];
        let end = ends.iter().filter_map(|end| log.find(end)).min();
        said["log"] = log[..end.unwrap_or(log.len())].into();
    }
}

/// What a node's block says of a transaction.
fn result_in_block(url: &str, tx: &[u8]) -> Value {
    let hash = base64_simd::STANDARD.encode_to_string(Sha256::digest(tx));
    let mut found = Value::Null;
    wait_until("the transaction in a block", || {
        found = call(url, "tx", &json!({"hash": hash}))["tx_result"].take();
        found.is_object()
    });
    found
}

/// A built-in node with the accounts of the chain.
fn bank() -> Node {
    let config = Config {
        chain_id: Simd::CHAIN.to_owned(),
        max_block_gas: Some(2_000_000),
        ..Config::default()
    };
    // Number 0 is the validator's there.
    let accounts = [30].into_iter().chain(0..20).map(|number| {
        let amount = 10_000_000;
        let address = prefix().write(key(number).address());
        BankAccount { address, amount }
    });
    let config = config.with(BankConfig {
        min_gas_price: "0.01stake".to_owned(),
        accounts: accounts.collect(),
        ..BankConfig::default()
    });
    let kind = &BankKind;
    Node::start(Blueprint { kind, config })
}

/// What simd (ibc-go v8.8.0, Cosmos SDK 0.50.9) says.
pub(super) fn recorded() -> Map<String, Value> {
    serde_json::from_str(include_str!("simd-0.50.json")).unwrap()
}

/// What is said differently, as `name: field`; a hundredth of the gas used is not: simd counts it read by read, the bank
/// by a model.
pub(super) fn differences(
    ours: &Map<String, Value>,
    theirs: &Map<String, Value>,
) -> BTreeMap<String, [Value; 2]> {
    let none = json!({});
    let mut differences = BTreeMap::new();
    for name in ours.keys().chain(theirs.keys()) {
        let [ours, theirs] = [ours, theirs].map(|said| said.get(name).unwrap_or(&none));
        let fields = [ours, theirs].map(|said| said.as_object().unwrap().keys());
        for field in fields.into_iter().flatten() {
            let pair = [ours, theirs].map(|said| &said[field]);
            let gas = |said: &Value| said.as_str().and_then(|gas| gas.parse::<f64>().ok());
            let differs = match pair.map(gas) {
                [Some(used), Some(counted)] if field == "gas_used" => {
                    (used / counted - 1.0).abs() >= 0.01
                }
                _ => pair[0] != pair[1],
            };
            if differs {
                differences.insert(format!("{name}: {field}"), pair.map(Value::clone));
            }
        }
    }
    differences
}

/// The built-in node's bank refuses what simd refuses, with its code, its name space and its words; its blocks say of the rest
/// what simd's do, except events, which the bank has none of. At b2c1579 a fee in another coin was free, and nothing but
/// funds made a message fail.
#[test]
fn the_built_in_bank_says_what_simd_says() {
    assert_eq!(
        differences(&said(&bank().url()), &recorded()),
        BTreeMap::new()
    );
}
