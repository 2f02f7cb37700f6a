//! The same on a real chain of the Cosmos SDK, and the built-in bank beside it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::time::Duration;

use cosmos::{Coin, Message, Prefix, proto, query};
use devnode::{Application, Config};
use hex_simd::AsciiCase;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use testkit::Simd;

use crate::support::{Node, Place, wait_until};

/// Writes the accounts of seed 7 into a genesis.
fn funded(place: &Place, genesis: &Path) {
    place
        .txgen(&format!(
            "cosmos prepare --seed 7 --accounts 20 --amount 10000000stake --genesis {}",
            genesis.display()
        ))
        .expect(0)
        .prints("20 accounts");
}

#[test]
#[ignore = "needs simd"]
fn a_real_chain_commits_what_is_sent() {
    let place = Place::new();
    let chain = Simd::start("0.01stake", |genesis| funded(&place, genesis)).unwrap();
    for (out, more) in [
        ("http", String::new()),
        ("ws", "--transport ws --connections 2".to_owned()),
        ("cold", "--recipients cold --messages 2".to_owned()),
        (
            "multi",
            "--workload cosmos-multisend --messages 3".to_owned(),
        ),
    ] {
        let kind = if out == "multi" {
            ""
        } else {
            "--workload cosmos-send"
        };
        let ended = place.txgen(&format!(
            "constant --rate 40 --duration 3s {kind} {more} --accounts 20 --seed 7 --chain-id {} --endpoints {} --out {out}",
            Simd::CHAIN,
            chain.rpc_url()
        ));
        let summary = place.run(out).summary();
        ended.ends_as_judged(0, &summary);
        summary.assert_all_committed(120);
        let blocks = place.run(out).table("blocks.csv");
        let gas = |column: &str| blocks.column(column).filter(|gas| !gas.is_empty()).count();
        assert!(gas("gas_wanted") > 0 && gas("gas_used") > 0, "gas is read");
    }
}

#[test]
#[ignore = "needs simd"]
fn accounts_are_funded_and_swept_over_the_rpc() {
    let place = Place::new();
    let chain = Simd::start("0stake", |_| {}).unwrap();
    let url = chain.rpc_url();
    let wallet = [("TXGEN_FUNDER", Simd::WALLET)];
    place
        .txgen_with(
            &wallet,
            &format!(
                "cosmos prepare --seed 9 --accounts 120 --amount 1000000stake --endpoints {url}"
            ),
        )
        .expect(0)
        .prints("120 accounts have 1000000stake more each");
    let first = cosmos::Keys::from_mnemonic(Simd::WALLET, "m/44'/118'/0'/0").unwrap();
    let prefix = Prefix::new("cosmos").unwrap();
    let to = prefix.write(first.key(0).unwrap().address());
    place
        .txgen(&format!(
            "cosmos sweep --seed 9 --accounts 120 --to {to} --endpoints {url}"
        ))
        .expect(0)
        .prints("120 of 120 accounts sent 120000000stake");
}

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

fn key(number: u32) -> cosmos::Key {
    cosmos::Keys::from_seed(7).key(number).unwrap()
}

fn prefix() -> Prefix {
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
fn call(url: &str, method: &str, params: &Value) -> Value {
    let address = url.strip_prefix("http://").unwrap().parse().unwrap();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let http = testkit::Http::new(address, Duration::from_secs(10));
    let answer = http.post("/", body.as_bytes()).unwrap().text();
    serde_json::from_str::<Value>(&answer).unwrap()["result"].take()
}

/// Transactions by their names, in the order in which they are sent.
fn trials() -> Vec<(&'static str, Vec<u8>)> {
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
fn said(url: &str) -> Map<String, Value> {
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
    said.values_mut().for_each(without_places);
    said
}

/// Words without where in the SDK's source they come from, and without where and with how much the gas ended.
fn without_places(said: &mut Value) {
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
    let mut config = Config {
        app: Application::Bank,
        chain_id: Simd::CHAIN.to_owned(),
        max_block_gas: Some(2_000_000),
        ..Config::default()
    };
    config.bank.min_gas_price = "0.01stake".to_owned();
    // Number 0 is the validator's there.
    let accounts = [30].into_iter().chain(0..20).map(|number| {
        let amount = 10_000_000;
        let address = prefix().write(key(number).address());
        devnode::BankAccount { address, amount }
    });
    config.bank.accounts = accounts.collect();
    Node::start(config)
}

/// The chain of the built-in node.
fn endowed(place: &Place, genesis: &Path) {
    funded(place, genesis);
    let text = fs::read_to_string(genesis).unwrap();
    let mut whole: Value = serde_json::from_str(&text).unwrap();
    whole["consensus"]["params"]["block"]["max_gas"] = json!("2000000");
    fs::write(genesis, whole.to_string()).unwrap();
}

/// What simd (ibc-go v8.8.0, Cosmos SDK 0.50.9) says.
fn recorded() -> Map<String, Value> {
    serde_json::from_str(include_str!("simd-0.50.json")).unwrap()
}

/// What is said differently, as `name: field`; a hundredth of the gas used is not: simd counts it read by read, the bank
/// by a model.
fn differences(
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
/// what simd's do, events included. At b2c1579 they had no events, a fee in another coin was free, and nothing but funds
/// made a message fail.
#[test]
fn the_built_in_bank_says_what_simd_says() {
    assert_eq!(
        differences(&said(&bank().url()), &recorded()),
        BTreeMap::new()
    );
}

#[test]
#[ignore = "needs simd"]
fn simd_still_says_what_was_recorded_of_it() {
    let place = Place::new();
    let chain = Simd::start("0.01stake", |genesis| endowed(&place, genesis)).unwrap();
    let said = said(&chain.rpc_url());
    if let Some(path) = std::env::var_os("TXGEN_RECORD_SIMD") {
        fs::write(path, serde_json::to_string_pretty(&said).unwrap()).unwrap();
        return;
    }
    assert_eq!(differences(&said, &recorded()), BTreeMap::new());
}

/// What the bank says is Cosmos SDK 0.50's; of 0.53 it differs in this.
#[test]
#[ignore = "needs simd of SDK 0.53"]
fn unordered_transactions_are_not_all_that_sdk_0_53_says_differently() {
    let place = Place::new();
    let chain = Simd::start_unordered("0.01stake", |genesis| endowed(&place, genesis)).unwrap();
    let said = said(&chain.rpc_url());
    let found = differences(&said, &recorded());
    // Its chain here has no circuit breaker, which takes 2,000 for each message.
    let found = found.keys().filter(|it| !it.ends_with(": gas_used"));
    let expected = [
        "a transaction of the key-value store: log",
        "an unknown type: log",
        "query: a simulated unknown type: log",
        "two recipients: events",
        "unordered: code",
        "unordered: log",
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

/// Readers of events find a transfer as on a chain.
#[test]
fn a_transfer_is_found_by_its_events() {
    let node = bank();
    let all: HashMap<_, _> = trials().into_iter().collect();
    for name in ["a good one", "gas for its check", "the next"] {
        let tx = base64_simd::STANDARD.encode_to_string(&all[name]);
        call(&node.url(), "broadcast_tx_sync", &json!({"tx": tx}));
        result_in_block(&node.url(), &all[name]);
    }
    let [from, to] = [2, 1].map(|number| prefix().write(key(number).address()));
    let signature = cosmos::SignedTx::read(&all["the next"]).unwrap();
    let signature = base64_simd::STANDARD.encode_to_string(signature.signature());
    for (query, found) in [
        (format!("transfer.recipient='{to}'"), "2"),
        (format!("tx.acc_seq='{from}/2'"), "1"),
        (
            format!("tx.fee_payer='{from}' AND message.action='/cosmos.bank.v1beta1.MsgSend'"),
            "2",
        ),
        (format!("tx.signature='{signature}'"), "1"),
        ("tx.fee='2000stake'".to_owned(), "2"),
        (format!("coin_spent.spender='{to}'"), "0"),
    ] {
        let answer = call(&node.url(), "tx_search", &json!({"query": query}));
        assert_eq!(answer["total_count"], found, "{query}");
    }
}

/// A node that has not caught up, for ever: it has a chain's genesis and no peers.
#[test]
#[ignore = "needs simd"]
fn a_node_that_is_catching_up_is_not_measured() {
    let place = Place::new();
    let chain = Simd::start("0stake", |genesis| funded(&place, genesis)).unwrap();
    let behind = Simd::start_alone(&chain).unwrap();
    let url = behind.rpc_url();
    let phrase = format!(
        "the node at {url} is catching up (height 0); wait until its status says catching_up false"
    );
    for line in [
        "constant --rate 5 --duration 1s --out run --workload cosmos-send",
        "cosmos sweep --to cosmos1",
    ] {
        let ended = place.txgen(&format!("{line} --accounts 20 --seed 7 --endpoints {url}"));
        ended.says(&phrase);
        assert!(!place.path().join("run").exists(), "nothing was recorded");
    }
}

/// The node is started by the run, with the accounts in its genesis and blocks of 20 transfers.
#[test]
#[ignore = "needs simd"]
fn a_scenario_starts_its_own_chain_with_blocks_limited_by_gas() {
    let place = Place::new();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/cosmos-gas.toml");
    let ended = place.txgen(&format!(
        "run {} --node simd --scale 0.2 --set node.genesis.consensus.params.block.max_gas=4000000 --out run --no-tui",
        file.display()
    ));
    let summary = place.run("run").summary();
    ended.ends_as_judged(0, &summary);
    summary.assert_all_committed(1_000);
    let blocks = place.run("run").table("blocks.csv");
    let wanted = blocks
        .column("gas_wanted")
        .filter_map(|gas| gas.parse::<u64>().ok());
    assert_eq!(wanted.max(), Some(4_000_000), "the fullest block is full");
    let nodes = place.run("run").table("nodes.csv");
    let sum = |column: &str| -> f64 {
        nodes
            .column(column)
            .filter_map(|it| it.parse::<f64>().ok())
            .sum()
    };
    assert!(
        sum("checks") > 900.0,
        "the node's own metrics are read: {}",
        sum("checks")
    );
    assert!(sum("executing_s") > 0.0 && sum("commit_step_s") > sum("executing_s"));
    let home = fs::read_dir(place.path()).unwrap().filter_map(Result::ok);
    let left = home.map(|entry| entry.file_name().into_string().unwrap());
    let left: Vec<String> = left.filter(|name| name.starts_with(".simd-")).collect();
    assert_eq!(left, Vec::<String>::new(), "its home is removed");
}

#[test]
fn a_chain_is_started_for_its_own_transactions_only() {
    let place = Place::new();
    let run = |name: &str| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
        let file = file.join(name);
        place.txgen(&format!(
            "run {} --node simd --simd /nowhere",
            file.display()
        ))
    };
    run("constant.toml")
        .expect(2)
        .says("a simd takes transactions of a Cosmos SDK chain; use workload = \"cosmos-send\"");
    run("cosmos-ramp.toml")
        .expect(1)
        .says("cannot run /nowhere");
}

/// Cosmos SDK 0.53, which has unordered transactions since ADR-070.
#[test]
#[ignore = "needs simd of SDK 0.53"]
fn unordered_transactions_are_committed_by_a_chain_that_takes_them_for_so_long() {
    let place = Place::new();
    let chain = Simd::start_unordered("0stake", |genesis| funded(&place, genesis)).unwrap();
    let run = |more: &str, out: &str| {
        place.txgen(&format!(
            "constant --rate 40 --duration 3s --workload cosmos-send {more} --transport ws --accounts 20 --seed 7 \
             --endpoints {} --out {out}",
            chain.rpc_url()
        ))
    };
    let ended = run("--unordered 5m", "unordered");
    let summary = place.run("unordered").summary();
    ended.ends_as_judged(0, &summary);
    summary.assert_all_committed(120);
    // The accounts' sequences are where they were, and nothing else is.
    run("", "ordered");
    place.run("ordered").summary().assert_all_committed(120);
    run("--unordered 20m", "long")
        .expect(2)
        .says("unordered tx ttl exceeds 10m0s");
}
