//! A client of bitcoind's JSON-RPC.

use std::net::SocketAddr;
use std::time::Duration;

use devnode::{AdmissionConfig, AdmissionMode, BitcoinConfig, Config};
use serde_json::{Value, json};
use testkit::{Http, HttpAnswer};

use super::wallet::{Coin, Wallet, coinbase};
use crate::support::{Running, start};

pub(super) struct Client {
    http: Http,
    authorization: String,
}

impl Client {
    pub(super) fn new(address: SocketAddr) -> Self {
        let credentials = base64_simd::STANDARD.encode_to_string("txgen:txgen");
        Self {
            http: Http::new(address, Duration::from_secs(30)),
            authorization: format!("Basic {credentials}"),
        }
    }

    /// A request as it is.
    pub(super) fn send(&self, authorization: &str, body: &str) -> HttpAnswer {
        let headers = [("Authorization", authorization)];
        self.http
            .request("POST", "/", &headers, body.as_bytes())
            .unwrap()
    }

    /// The body of an answer.
    pub(super) fn raw(&self, body: &str) -> String {
        let answer = self.send(&self.authorization, body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text()
    }

    /// The whole reply.
    pub(super) fn reply(&self, method: &str, params: &Value) -> Value {
        let request = json!({"jsonrpc": "1.0", "id": 7, "method": method, "params": params});
        serde_json::from_str(&self.raw(&request.to_string())).unwrap()
    }

    /// The result of a request that succeeds.
    pub(super) fn call(&self, method: &str, params: &Value) -> Value {
        let mut reply = self.reply(method, params);
        assert_eq!(reply["error"], Value::Null, "{method} {params}: {reply}");
        reply["result"].take()
    }

    /// Code and text of a request that fails.
    pub(super) fn error(&self, method: &str, params: &Value) -> (i64, String) {
        let reply = self.reply(method, params);
        let error = &reply["error"];
        let text = error["message"].as_str().unwrap_or_default().to_owned();
        (error["code"].as_i64().unwrap_or_default(), text)
    }

    /// The replies of a batch.
    pub(super) fn batch(&self, method: &str, params: &[Value]) -> Vec<Value> {
        let request =
            |(id, params)| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let requests: Vec<Value> = params.iter().enumerate().map(request).collect();
        serde_json::from_str(&self.raw(&Value::from(requests).to_string())).unwrap()
    }

    /// Generates blocks and returns the coins that they made.
    pub(super) fn generate(&self, blocks: u32) -> Vec<Coin> {
        let hashes = self.call("generate", &json!([blocks]));
        let hashes = hashes.as_array().unwrap();
        let coin = |hash: &Value| coinbase(&self.call("getblock", &json!([hash])));
        hashes.iter().map(coin).collect()
    }
}

/// A node that makes blocks on demand, and pays them to a wallet.
pub(super) fn config(wallet: &Wallet, mode: AdmissionMode) -> Config {
    Config {
        block_interval: Duration::from_secs(100_000),
        admission: AdmissionConfig {
            mode: Some(mode),
            validators: 2,
            ..AdmissionConfig::default()
        },
        bitcoin: BitcoinConfig {
            mining_address: Some(wallet.address()),
            ..BitcoinConfig::default()
        },
        ..Config::bitcoin()
    }
}

/// Starts it.
pub(super) async fn node(wallet: &Wallet, mode: AdmissionMode) -> (Running, Client) {
    let running = start(config(wallet, mode)).await;
    let client = Client::new(running.node.rpc_address());
    (running, client)
}
