//! The built-in node beside a real btcd: its blocks are valid there.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs btcd"]
async fn its_blocks_are_valid_to_btcd() {
    let wallet = Wallet::new(9);
    let (running, own) = node(&wallet, AdmissionMode::Serial).await;
    let btcd = Btcd::start(&wallet.address());
    let mut pair = Pair {
        own,
        btcd,
        height: 0,
    };
    // The subsidy is halved at 150.
    pair.generate(151);
    let coin_of = |height: u64| {
        let hash = pair.own.call("getblockhash", &json!([height]));
        super::wallet::coinbase(&pair.own.call("getblock", &json!([hash])))
    };
    let fan = wallet.pay(
        &[coin_of(1)],
        &[SUBSIDY / 4, SUBSIDY / 4, SUBSIDY / 4, SUBSIDY / 4 - FEE],
    );
    let joined = wallet.pay(
        &[coin(&fan, 0), coin(&fan, 1)],
        &[SUBSIDY / 4, SUBSIDY / 4 - FEE],
    );
    let other = wallet.pay(&[coin_of(2)], &[SUBSIDY - FEE]);
    for tx in [&fan, &joined, &other] {
        pair.own.call("sendrawtransaction", &json!([hex(tx)]));
    }
    pair.generate(1);
    let tips = [&pair.own, &pair.btcd.client].map(|node| node.call("getbestblockhash", &json!([])));
    assert_eq!(tips[0], tips[1]);
    assert_eq!(running.node.block(152).unwrap().txs.len(), 4);
    running.stop().await;
}
