//! The same on a real chain of the Cosmos SDK, and the built-in bank beside it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use devnode::{Application, Config};
use serde_json::{Value, json};
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
    let prefix = cosmos::Prefix::new("cosmos").unwrap();
    let to = prefix.write(first.key(0).unwrap().address());
    place
        .txgen(&format!(
            "cosmos sweep --seed 9 --accounts 120 --to {to} --endpoints {url}"
        ))
        .expect(0)
        .prints("120 of 120 accounts sent 120000000stake");
}

/// One transaction of account `from` of seed 7 to account 1, with something wrong about it or nothing.
struct Trial {
    from: u32,
    chain: &'static str,
    number: u64,
    sequence: u64,
    gas: u64,
    fee: u128,
    memo: usize,
    amount: u128,
}

impl Trial {
    fn sign(&self) -> Vec<u8> {
        let (keys, prefix) = (
            cosmos::Keys::from_seed(7),
            cosmos::Prefix::new("cosmos").unwrap(),
        );
        let [key, to] = [self.from, 1].map(|number| keys.key(number).unwrap());
        let coin = cosmos::Coin::new(self.amount, "stake");
        let message = cosmos::Message::send(&prefix, key.address(), to.address(), &coin);
        let fee = cosmos::Fee {
            coins: vec![cosmos::Coin::new(self.fee, "stake")],
            gas: self.gas,
        };
        let memo = "x".repeat(self.memo);
        let draft = cosmos::Draft {
            memo: &memo,
            ..cosmos::Draft::new(std::slice::from_ref(&message), &fee)
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

/// Code, name space and words of a node's answer to `broadcast_tx_sync`.
fn answer(url: &str, tx: &[u8]) -> [String; 3] {
    let address = url.strip_prefix("http://").unwrap().parse().unwrap();
    let tx = base64_simd::STANDARD.encode_to_string(tx);
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"broadcast_tx_sync","params":{{"tx":"{tx}"}}}}"#
    );
    let http = testkit::Http::new(address, Duration::from_secs(10));
    let answer = http.post("/", body.as_bytes()).unwrap().text();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    ["code", "codespace", "log"].map(|field| answer["result"][field].to_string())
}

/// Trials by their names: what is refused, and what blocks hold.
fn trials() -> Vec<(&'static str, Trial)> {
    let good = Trial {
        from: 2,
        chain: Simd::CHAIN,
        number: 3,
        sequence: 0,
        gas: 100_000,
        fee: 1_000,
        memo: 0,
        amount: 1,
    };
    vec![
        ("the memo", Trial { memo: 257, ..good }),
        ("the first gas", Trial { gas: 1_000, ..good }),
        ("the fee", Trial { fee: 999, ..good }),
        (
            "the fee's funds",
            Trial {
                fee: 20_000_000,
                ..good
            },
        ),
        ("an unknown payer", Trial { from: 99, ..good }),
        (
            "a later sequence",
            Trial {
                sequence: 4,
                ..good
            },
        ),
        (
            "another chain",
            Trial {
                chain: "tide-2",
                ..good
            },
        ),
        ("another number", Trial { number: 4, ..good }),
        ("a good one", Trial { amount: 1, ..good }),
        ("its sequence again", Trial { amount: 2, ..good }),
        (
            "the next",
            Trial {
                sequence: 1,
                ..good
            },
        ),
        (
            "more than it has",
            Trial {
                sequence: 2,
                amount: 90_000_000,
                ..good
            },
        ),
        (
            "after that",
            Trial {
                sequence: 3,
                ..good
            },
        ),
    ]
}

/// A built-in node with the accounts of the chain.
fn bank() -> Node {
    let mut config = Config {
        app: Application::Bank,
        chain_id: Simd::CHAIN.to_owned(),
        ..Config::default()
    };
    config.bank.min_gas_price = "0.01stake".to_owned();
    // Number 0 is the validator's there.
    let (keys, prefix) = (
        cosmos::Keys::from_seed(7),
        cosmos::Prefix::new("cosmos").unwrap(),
    );
    let accounts = [30].into_iter().chain(0..20).map(|number| {
        let amount = 10_000_000;
        let address = prefix.write(keys.key(number).unwrap().address());
        devnode::BankAccount { address, amount }
    });
    config.bank.accounts = accounts.collect();
    Node::start(config)
}

/// The built-in node's bank refuses what simd refuses, with its code and its words, and its blocks say of the rest
/// what simd's do.
#[test]
#[ignore = "needs simd"]
fn the_built_in_bank_answers_as_simd_does() {
    let place = Place::new();
    let chain = Simd::start("0.01stake", |genesis| funded(&place, genesis)).unwrap();
    let node = bank();
    let urls = [node.url(), chain.rpc_url()];
    let mut committed = Vec::new();
    for (name, trial) in trials() {
        let tx = trial.sign();
        let [ours, theirs] = urls.each_ref().map(|url| answer(url, &tx));
        assert_eq!(ours, theirs, "{name}");
        if ours[0] == "0" {
            committed.push((name, tx));
        }
    }
    for (name, tx) in committed {
        let [ours, theirs] = urls.each_ref().map(|url| result_in_block(url, &tx));
        assert_are_equal(name, ours, theirs);
    }
}

/// What simd (ibc-go v8.8.0) said of the same in its blocks.
#[test]
fn the_built_in_bank_gives_results_as_simd_did() {
    let node = bank();
    let sent = json!({
        "code": 0, "codespace": "", "log": "", "info": "", "events": null, "gas_wanted": "100000",
        "data": "EiYKJC9jb3Ntb3MuYmFuay52MWJldGExLk1zZ1NlbmRSZXNwb25zZQ==",
    });
    let failed = json!({
        "code": 5, "codespace": "sdk", "info": "", "events": null, "gas_wanted": "100000", "data": null,
        "log": "failed to execute message; message index: 0: spendable balance 9996998stake is smaller than \
                90000000stake: insufficient funds",
    });
    let recorded = [
        ("a good one", &sent, "80561"),
        ("the next", &sent, "67392"),
        ("more than it has", &failed, "53607"),
        ("after that", &sent, "67392"),
    ];
    let url = node.url();
    for (name, result, gas_used) in recorded {
        let mut theirs = result.clone();
        theirs["gas_used"] = gas_used.into();
        let trial = trials().into_iter().find(|(it, _)| *it == name);
        let tx = trial.unwrap().1.sign();
        assert_eq!(answer(&url, &tx)[0], "0", "{name}");
        assert_are_equal(name, result_in_block(&url, &tx), theirs);
    }
}

/// Every member is, but for the gas used, which simd counts read by read and the bank by a model.
fn assert_are_equal(name: &str, ours: Value, theirs: Value) {
    let [(ours, used), (theirs, counted)] = [ours, theirs].map(|mut result| {
        let gas = result["gas_used"].take();
        (result, gas.as_str().unwrap().parse::<f64>().unwrap())
    });
    assert_eq!(ours, theirs, "{name}");
    assert!(
        (used / counted - 1.0).abs() < 0.01,
        "{name}: {used} {counted}"
    );
}

/// What a node's block says of a transaction, without its events.
fn result_in_block(url: &str, tx: &[u8]) -> Value {
    let address = url.strip_prefix("http://").unwrap().parse().unwrap();
    let http = testkit::Http::new(address, Duration::from_secs(10));
    let hash = hex_simd::encode_to_string(Sha256::digest(tx), hex_simd::AsciiCase::Upper);
    let mut found = Value::Null;
    wait_until("the transaction in a block", || {
        let answer = http.get(&format!("/tx?hash=0x{hash}")).unwrap().text();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        found = answer["result"]["tx_result"].clone();
        found.is_object()
    });
    found["events"].take();
    found
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
    let chain = Simd::start_unordered(|genesis| funded(&place, genesis)).unwrap();
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
