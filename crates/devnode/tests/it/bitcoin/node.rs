//! The built-in node alone.

use bitcoin::Transaction;
use devnode::{AdmissionMode, Config};
use serde_json::{Value, json};

use super::client::node;
use super::wallet::{FEE, SUBSIDY, Wallet, coin, hex};

const BOTH: [AdmissionMode; 2] = [AdmissionMode::Serial, AdmissionMode::Parallel];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_is_in_the_mempool_and_then_in_a_block() {
    for mode in BOTH {
        let wallet = Wallet::new(1);
        let (running, client) = node(&wallet, mode).await;
        let coins = client.generate(101);
        let tx = wallet.pay(&coins[..1], &[SUBSIDY / 2, SUBSIDY / 2 - FEE]);
        let txid = tx.compute_txid().to_string();
        assert_eq!(
            client.call("sendrawtransaction", &json!([hex(&tx)])),
            json!(txid)
        );
        assert_eq!(client.call("getrawmempool", &json!([])), json!([txid]));
        let info = client.call("getmempoolinfo", &json!([]));
        assert_eq!(info, json!({"size": 1, "bytes": tx.total_size()}));
        let snapshot = running.node.snapshot();
        assert_eq!((snapshot.height, snapshot.mempool_txs), (101, 1));
        assert_eq!(snapshot.admission.unwrap().accepted, 1);

        let hashes = client.call("generate", &json!([1]));
        let block = client.call("getblock", &json!([hashes[0]]));
        assert_eq!(block["height"], json!(102));
        assert_eq!(block["tx"][1], json!(txid));
        // The fee is the miner's.
        let paid = client.call("gettxout", &json!([block["tx"][0], 0]));
        let paid = paid["value"].as_f64().unwrap();
        assert!((paid - 50.000_01).abs() < 1e-9, "{paid}");
        assert_eq!(client.call("getrawmempool", &json!([])), json!([]));
        assert_eq!(client.call("getblockcount", &json!([])), json!(102));
        assert_eq!(client.call("getblockhash", &json!([102])), hashes[0]);
        assert_eq!(running.node.block(102).unwrap().txs.len(), 2);
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_breaks_a_rule_is_refused_with_its_code() {
    for mode in BOTH {
        let wallet = Wallet::new(2);
        let (running, client) = node(&wallet, mode).await;
        let coins = client.generate(102);
        let tx = wallet.pay(&coins[..1], &[SUBSIDY - FEE]);
        let send = |tx: &Transaction| client.error("sendrawtransaction", &json!([hex(tx)]));
        let refused = |tx: &Transaction, code, part: &str| {
            let (got, text) = send(tx);
            assert!(got == code && text.contains(part), "{got} {text}");
        };
        let orphan = wallet.pay(&[coin(&tx, 0)], &[SUBSIDY - 2 * FEE]);
        refused(&orphan, -25, "orphan transaction");
        client.call("sendrawtransaction", &json!([hex(&tx)]));
        refused(&tx, -26, "already have transaction in mempool");
        let rival = wallet.pay(&coins[..1], &[SUBSIDY - 2 * FEE]);
        refused(&rival, -26, "output already spent in mempool");
        let immature = wallet.pay(&coins[100..101], &[SUBSIDY - FEE]);
        refused(&immature, -25, "before required maturity of 100 blocks");
        let too_much = wallet.pay(&coins[1..2], &[SUBSIDY + 1]);
        refused(&too_much, -25, "less than the amount spent");
        let young = wallet.pay(&[coin(&tx, 0)], &[SUBSIDY - FEE]);
        refused(&young, -26, "has 0 fees which is under the required amount");
        let forged = Wallet::new(3).pay(&coins[1..2], &[SUBSIDY - FEE]);
        refused(&forged, -25, "OP_EQUALVERIFY failed");
        let mut changed = wallet.pay(&coins[1..2], &[SUBSIDY - FEE]);
        changed.output[0].value -= bitcoin::Amount::ONE_SAT;
        refused(&changed, -25, "signature not empty on failed checksig");
        let twice = wallet.pay(&[coins[1], coins[1]], &[SUBSIDY]);
        refused(&twice, -25, "duplicate inputs");
        client.generate(1);
        refused(&tx, -27, "already exists in blockchain");
        refused(&rival, -25, "fully-spent");
        for (hex, code) in [("zz", -22), ("00", -22), ("", -22)] {
            assert_eq!(
                client.error("sendrawtransaction", &json!([hex])).0,
                code,
                "{hex}"
            );
        }
        assert_eq!(running.node.snapshot().refused, 14);
        running.stop().await;
    }
}

/// A batch of a chain: every transaction finds its unconfirmed parent, however it is admitted; and of two
/// spends in a batch one is accepted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_answered_in_its_order() {
    for mode in BOTH {
        let wallet = Wallet::new(4);
        let (running, client) = node(&wallet, mode).await;
        let coins = client.generate(102);
        let mut chain = vec![wallet.pay(&coins[..1], &[SUBSIDY - FEE])];
        for depth in 2..=20 {
            let parent = chain.last().unwrap();
            let child = wallet.pay(&[coin(parent, 0)], &[SUBSIDY - depth * FEE]);
            chain.push(child);
        }
        let params: Vec<Value> = chain.iter().map(|tx| json!([hex(tx)])).collect();
        let replies = client.batch("sendrawtransaction", &params);
        for ((id, reply), tx) in (0..).zip(&replies).zip(&chain) {
            assert_eq!(reply["id"], json!(id));
            assert_eq!(
                reply["result"],
                json!(tx.compute_txid().to_string()),
                "{reply}"
            );
        }
        let rivals: Vec<Value> = (1..=8)
            .map(|fee| json!([hex(&wallet.pay(&coins[1..2], &[SUBSIDY - fee * FEE]))]))
            .collect();
        let replies = client.batch("sendrawtransaction", &rivals);
        let accepted = replies.iter().filter(|reply| reply["error"].is_null());
        assert_eq!(accepted.count(), 1);
        client.generate(1);
        assert_eq!(client.call("getrawmempool", &json!([])), json!([]));
        assert_eq!(running.node.block(103).unwrap().txs.len(), 22);
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rpc_wants_a_password_and_answers_nothing_without_an_id() {
    let wallet = Wallet::new(5);
    let (running, client) = node(&wallet, AdmissionMode::Serial).await;
    let request = r#"{"jsonrpc":"1.0","id":1,"method":"getblockcount","params":[]}"#;
    let refused = client.send("Basic bm9ib2R5OnB3", request);
    assert_eq!(refused.status, 401);
    assert_eq!(
        refused.header("www-authenticate"),
        Some(r#"Basic realm="btcd RPC""#)
    );
    let without_id = r#"{"jsonrpc":"1.0","method":"generate","params":[1]}"#;
    assert_eq!(client.raw(without_id), "\n");
    let batch = format!("[{request},{without_id},7]");
    let replies: Value = serde_json::from_str(&client.raw(&batch)).unwrap();
    assert_eq!(
        replies,
        json!([{"jsonrpc": "1.0", "result": 0, "error": null, "id": 1}])
    );
    assert_eq!(client.error("nosuchmethod", &json!([])).0, -32_601);
    assert_eq!(client.error("getblockhash", &json!([])).0, -32_602);
    assert_eq!(client.error("getblockhash", &json!([5])).0, -1);
    assert_eq!(client.error("getblock", &json!(["00"])).0, -5);
    running.stop().await;
}

/// Blocks that are taken back return their transactions; what spends a coin that exists no more is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reorganisation_returns_transactions_to_the_mempool() {
    for mode in BOTH {
        let wallet = Wallet::new(6);
        let (running, client) = node(&wallet, mode).await;
        let coins = client.generate(101);
        let tx = wallet.pay(&coins[..1], &[SUBSIDY - FEE]);
        client.call("sendrawtransaction", &json!([hex(&tx)]));
        client.generate(1);
        let child = wallet.pay(&[coin(&tx, 0)], &[SUBSIDY - 2 * FEE]);
        client.call("sendrawtransaction", &json!([hex(&child)]));
        // The second coin is mature at this height, and not below.
        let mature = wallet.pay(&coins[1..2], &[SUBSIDY - FEE]);
        client.call("sendrawtransaction", &json!([hex(&mature)]));
        let tip = client.call("getblockhash", &json!([102]));
        let below = client.call("getblockhash", &json!([101]));
        assert_eq!(client.call("invalidateblock", &json!([below])), Value::Null);
        assert_eq!(client.call("getblockcount", &json!([])), json!(100));
        assert_eq!(client.error("getblock", &json!([tip])).0, -5);
        // The first coin is of block 1, and mature in block 101; the second no more.
        let left = [&tx, &child].map(|tx| tx.compute_txid().to_string());
        assert_eq!(client.call("getrawmempool", &json!([])), json!(left));
        client.generate(1);
        assert_eq!(client.call("getrawmempool", &json!([])), json!([]));
        assert_eq!(running.node.block(101).unwrap().txs.len(), 3);
        running.stop().await;
    }
}

#[test]
fn addresses_of_other_networks_are_refused() {
    let mut config = Config::bitcoin();
    config.bitcoin.mining_address = Some("1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2".to_owned());
    let error = config.validate().unwrap_err().to_string();
    assert!(error.contains("regression-test network"), "{error}");
}
