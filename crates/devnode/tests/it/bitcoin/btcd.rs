//! The built-in node beside a real btcd: its blocks are valid there, and every answer is the same.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use bitcoin::Transaction;
use devnode::AdmissionMode;
use serde_json::{Value, json};
use servers::{BtcdOptions, Wait};

use super::client::{Client, node};
use super::wallet::{FEE, SUBSIDY, Wallet, coin, hex};

/// A btcd, and what asks it.
struct Btcd {
    _node: servers::Btcd,
    client: Client,
}

impl Btcd {
    fn start(miner: &str) -> Self {
        let program = env::var_os("BTCD_BIN").map(PathBuf::from);
        let options = BtcdOptions {
            binary: program.expect("BTCD_BIN names a btcd; .ci/btcd builds one"),
            mining_address: miner.to_owned(),
            ..BtcdOptions::default()
        };
        let mut wait = Wait {
            timeout: Duration::from_secs(60),
            is_ready: &mut |address| std::net::TcpStream::connect(address).is_ok(),
            is_cancelled: &|| false,
        };
        let node = servers::Btcd::start(&options, &mut wait).unwrap();
        let client = Client::new(node.address());
        Self {
            _node: node,
            client,
        }
    }
}

/// Both nodes, with the same chain.
struct Pair {
    own: Client,
    btcd: Btcd,
    height: u64,
}

impl Pair {
    /// Generates blocks here and hands them to btcd, which checks them as a peer's.
    fn generate(&mut self, blocks: u32) {
        self.own.call("generate", &json!([blocks]));
        let top = self.height + u64::from(blocks);
        for height in self.height + 1..=top {
            let hash = self.own.call("getblockhash", &json!([height]));
            let block = self.own.call("getblock", &json!([hash, 0]));
            let reply = self.btcd.client.reply("submitblock", &json!([block]));
            assert_eq!(
                (&reply["result"], &reply["error"]),
                (&Value::Null, &Value::Null),
                "{height}"
            );
        }
        self.height = top;
    }

    /// Sends a request to both and compares the replies.
    fn same(&self, method: &str, params: &Value) -> Value {
        let own = self.own.reply(method, params);
        let theirs = self.btcd.client.reply(method, params);
        assert_eq!(plain(own.clone()), plain(theirs), "{method} {params}");
        own
    }
}

/// A reply with what may differ taken out: the order of a mempool, the second in which a transaction came,
/// the words of the libraries that decode JSON and transactions; and numbers as floats, since Go writes
/// whole ones without a fraction.
fn plain(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::String(text) => {
            let cut = ["TX decode failed: ", "Failed to parse request: "];
            let cut = cut.into_iter().find(|start| text.starts_with(start));
            Value::from(cut.map_or(text.clone(), str::to_owned))
        }
        Value::Array(mut values) => {
            if values.iter().all(|value| value.is_string()) {
                values.sort_by_key(Value::to_string);
            }
            Value::from(values.into_iter().map(plain).collect::<Vec<_>>())
        }
        Value::Object(mut members) => {
            // The mempool's entries; a block's time is compared.
            if members.contains_key("startingpriority") {
                members.remove("time");
            }
            members
                .into_iter()
                .map(|(name, value)| (name, plain(value)))
                .collect()
        }
        other => other,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs btcd"]
async fn its_blocks_are_valid_to_btcd_and_its_answers_are_the_same() {
    let wallet = Wallet::new(9);
    let (running, own) = node(&wallet, AdmissionMode::Serial).await;
    let btcd = Btcd::start(&wallet.address());
    let mut pair = Pair {
        own,
        btcd,
        height: 0,
    };
    for (method, params) in [
        ("getblockcount", json!([])),
        ("getinfo", json!([])),
        ("getbestblockhash", json!([])),
    ] {
        pair.same(method, &params);
    }
    pair.generate(151);
    let hash_at =
        |pair: &Pair, height: u64| pair.same("getblockhash", &json!([height]))["result"].clone();
    // The subsidy is halved at 150.
    for height in [0, 1, 16, 17, 128, 149, 150, 151] {
        let hash = hash_at(&pair, height);
        for verbosity in [0, 1, 2] {
            pair.same("getblock", &json!([hash, verbosity]));
        }
        pair.same("getblock", &json!([hash]));
    }
    let coins: Vec<_> = (1..40_u64)
        .map(|height| {
            let hash = hash_at(&pair, height);
            super::wallet::coinbase(&pair.own.call("getblock", &json!([hash])))
        })
        .collect();

    let send = |pair: &Pair, tx: &Transaction| pair.same("sendrawtransaction", &json!([hex(tx)]));
    let fan = wallet.pay(
        &coins[..1],
        &[SUBSIDY / 4, SUBSIDY / 4, SUBSIDY / 4, SUBSIDY / 4 - FEE],
    );
    let pair_up = wallet.pay(
        &[coin(&fan, 0), coin(&fan, 1)],
        &[SUBSIDY / 4, SUBSIDY / 4 - FEE],
    );
    send(&pair, &pair_up);
    send(&pair, &fan);
    send(&pair, &pair_up);
    send(&pair, &pair_up);
    let rival = wallet.pay(&coins[..1], &[SUBSIDY - 2 * FEE]);
    send(&pair, &rival);
    // An old, large coin is worth a transaction without a fee; one of the mempool is not.
    send(&pair, &wallet.pay(&coins[1..2], &[SUBSIDY]));
    send(&pair, &wallet.pay(&[coin(&fan, 2)], &[SUBSIDY / 4]));
    send(&pair, &wallet.pay(&coins[2..3], &[SUBSIDY + 1]));
    send(
        &pair,
        &wallet.pay(&coins[2..3], &[3 * 2_100_000_000_000_000]),
    );
    send(&pair, &wallet.pay(&coins[2..3], &[u64::MAX]));
    send(&pair, &wallet.pay(&[coins[2], coins[2]], &[SUBSIDY]));
    send(&pair, &wallet.pay(&coins[2..3], &[]));
    send(&pair, &Wallet::new(8).pay(&coins[2..3], &[SUBSIDY - FEE]));
    let mut changed = wallet.pay(&coins[2..3], &[SUBSIDY - FEE]);
    changed.output[0].value -= bitcoin::Amount::ONE_SAT;
    send(&pair, &changed);
    let young = hash_at(&pair, 140);
    let young = super::wallet::coinbase(&pair.own.call("getblock", &json!([young])));
    send(&pair, &wallet.pay(&[young], &[SUBSIDY - FEE]));
    for text in ["", "0", "zz", "00", "0100000001", "0100"] {
        pair.same("sendrawtransaction", &json!([text]));
    }
    pair.same(
        "sendrawtransaction",
        &json!([format!("{}00", hex(&changed))]),
    );
    for params in [
        json!([]),
        json!([1]),
        json!(["00", false, 1]),
        json!([null]),
    ] {
        pair.same("sendrawtransaction", &params);
    }
    for params in [json!([]), json!([false]), json!([true])] {
        pair.same("getrawmempool", &params);
    }
    pair.same("getmempoolinfo", &json!([]));
    for verbose in [0, 1] {
        pair.same(
            "getrawtransaction",
            &json!([fan.compute_txid().to_string(), verbose]),
        );
    }
    pair.same(
        "getrawtransaction",
        &json!([rival.compute_txid().to_string(), 1]),
    );

    let unspent = |pair: &Pair, tx: &Transaction, vout: u32| {
        let txid = tx.compute_txid().to_string();
        for params in [
            json!([txid, vout]),
            json!([txid, vout, true]),
            json!([txid, vout, false]),
        ] {
            pair.same("gettxout", &params);
        }
    };
    for vout in [0, 1, 3, 4] {
        unspent(&pair, &fan, vout);
    }
    unspent(&pair, &rival, 0);
    for params in [json!([]), json!(["zz", 0]), json!(["00", "0"])] {
        pair.same("gettxout", &params);
    }

    pair.generate(1);
    for vout in [0, 3, 4] {
        unspent(&pair, &fan, vout);
    }
    pair.same("getrawmempool", &json!([]));
    pair.same("getmempoolinfo", &json!([]));
    let tip = hash_at(&pair, 152);
    for verbosity in [0, 1, 2] {
        pair.same("getblock", &json!([tip, verbosity]));
    }
    pair.same("getblock", &json!([hash_at(&pair, 151)]));
    send(&pair, &fan);
    send(&pair, &pair_up);
    send(&pair, &rival);

    for (method, params) in [
        ("getblockhash", json!([153])),
        ("getblockhash", json!([-1])),
        ("getblockhash", json!(["1"])),
        ("getblockhash", json!([])),
        ("getblockcount", json!([1])),
        ("getblock", json!(["00"])),
        ("getblock", json!(["zz"])),
        ("getblock", json!([7])),
        ("getblock", json!([])),
        ("generate", json!([0])),
        ("generate", json!([-1])),
        ("nosuchmethod", json!([])),
        ("invalidateblock", json!(["11"])),
        ("", json!([])),
    ] {
        pair.same(method, &params);
    }

    // Both take the newest block back, and have its transactions in the mempool again.
    pair.same("invalidateblock", &json!([tip]));
    pair.same("getblockcount", &json!([]));
    pair.same("getrawmempool", &json!([]));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs btcd"]
async fn its_http_is_btcds() {
    let wallet = Wallet::new(10);
    let (running, own) = node(&wallet, AdmissionMode::Serial).await;
    let btcd = Btcd::start(&wallet.address());
    let theirs = &btcd.client;
    let basic = format!(
        "Basic {}",
        base64_simd::STANDARD.encode_to_string("txgen:txgen")
    );
    let basic = basic.as_str();
    // Left out is a single request that has no id or cannot be read: btcd closes the connection without
    // sending a response.
    for (authorization, body) in [
        (
            basic,
            r#"{"jsonrpc":"1.0","id":1,"method":"getblockcount","params":[]}"#,
        ),
        (
            basic,
            r#"{"jsonrpc":"2.0","id":"a","method":"getblockcount","params":[]}"#,
        ),
        (
            basic,
            r#"{"jsonrpc":"1.0","id":1,"method":"getblockcount"}"#,
        ),
        (basic, r#"{"id":1,"method":"getblockcount","params":[]}"#),
        (
            basic,
            r#"{"jsonrpc":"1.0","id":[1],"method":"getblockcount","params":[]}"#,
        ),
        (basic, r#"{"jsonrpc":"1.0","id":1,"method":"","params":[]}"#),
        (basic, "[]"),
        (basic, "[1]"),
        (basic, "[{"),
        (
            basic,
            r#"[{"jsonrpc":"2.0","id":1,"method":"getblockcount","params":[]},{"jsonrpc":"2.0","method":"getinfo","params":[]},{"jsonrpc":"2.0","id":2,"method":"x","params":[]}]"#,
        ),
        ("Basic bm9ib2R5OnB3", "{}"),
        ("", "{}"),
    ] {
        let (one, other) = (
            own.send(authorization, body),
            theirs.send(authorization, body),
        );
        assert_eq!(one.status, other.status, "{body}");
        for name in ["content-type", "connection", "www-authenticate"] {
            assert_eq!(one.header(name), other.header(name), "{body}: {name}");
        }
        let json = |text: &str| {
            serde_json::from_str(text)
                .map(plain)
                .map_err(|_| text.to_owned())
        };
        assert_eq!(json(&one.text()), json(&other.text()), "{body}");
    }
    running.stop().await;
}
