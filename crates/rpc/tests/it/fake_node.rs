//! A node with a chain that a test writes, over a scripted server.

use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use testkit::{ScriptedConnection, ScriptedServer, http_answer};

/// Shared by the server's scripts and the test.
pub struct FakeNode {
    server: Option<ScriptedServer>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    chain: Mutex<Chain>,
    changed: Condvar,
}

/// What the node has and how it behaves.
pub struct Chain {
    pub chain_id: String,
    /// Part of every hash: another salt is another chain.
    pub salt: u8,
    /// The transactions of block 1, 2, …
    pub blocks: Vec<Vec<Vec<u8>>>,
    pub earliest: u64,
    /// A height whose block it has and does not give.
    pub withheld: Option<u64>,
    /// Whether subscriptions are taken.
    pub websocket: bool,
    /// Whether anything is answered at all.
    pub up: bool,
    /// How often the results of each height are still refused.
    pub refuse_results: u32,
    /// Whether every transaction succeeds; else every seventh fails.
    pub succeed: bool,
    /// Under which name results are listed.
    pub results_name: &'static str,
    /// Heights whose results were asked for, in order.
    pub results_asked: Vec<u64>,
    /// Heights whose block was asked for, in order.
    pub asked: Vec<u64>,
    stopped: bool,
}

impl Default for Chain {
    fn default() -> Self {
        Self {
            chain_id: "fake".into(),
            salt: 0,
            blocks: Vec::new(),
            earliest: 1,
            withheld: None,
            websocket: true,
            up: true,
            refuse_results: 0,
            succeed: false,
            results_name: "txs_results",
            results_asked: Vec::new(),
            asked: Vec::new(),
            stopped: false,
        }
    }
}

impl FakeNode {
    pub fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let server = {
            let shared = Arc::clone(&shared);
            ScriptedServer::start(move |connection| serve(&shared, connection))
        };
        Self {
            server: Some(server),
            shared,
        }
    }

    pub fn url(&self) -> String {
        self.server.as_ref().unwrap().http_url()
    }

    /// Changes the chain or the behaviour, and wakes the subscriptions.
    pub fn change<T>(&self, change: impl FnOnce(&mut Chain) -> T) -> T {
        let mut chain = self.shared.chain.lock().unwrap();
        let output = change(&mut chain);
        self.shared.changed.notify_all();
        output
    }

    /// Adds blocks with so many transactions each.
    pub fn grow(&self, blocks: impl IntoIterator<Item = usize>) {
        self.change(|chain| {
            for count in blocks {
                let height = chain.blocks.len() + 1;
                chain
                    .blocks
                    .push((0..count).map(|at| tx(height, at)).collect());
            }
        });
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.change(|chain| chain.stopped = true);
        self.server = None;
    }
}

/// The transaction of a place in the chain; every seventh fails with its place as code.
pub fn tx(height: usize, at: usize) -> Vec<u8> {
    format!("{height}/{at}=value").into_bytes()
}

pub fn code(at: usize) -> u32 {
    if at % 7 == 6 { at as u32 } else { 0 }
}

fn serve(shared: &Shared, connection: &mut ScriptedConnection) {
    while let Some(request) = connection.read_request() {
        let (up, websocket) = {
            let chain = shared.chain.lock().unwrap();
            (chain.up, chain.websocket)
        };
        if !up {
            return connection.reset();
        }
        if request.head.starts_with("GET /websocket") {
            if websocket && connection.agree_to_websocket(&request) {
                announce(shared, connection);
            }
            return;
        }
        let request: Value = serde_json::from_slice(&request.body).unwrap();
        let answer = answer(&mut shared.chain.lock().unwrap(), &request);
        connection.send(http_answer(200, &answer));
    }
}

/// Confirms the subscription, then tells every new height until the node goes away.
fn announce(shared: &Shared, connection: &mut ScriptedConnection) {
    let Some(frame) = connection.read_frame() else {
        return;
    };
    let request: Value = serde_json::from_slice(&frame.payload).unwrap();
    assert_eq!(request["params"]["query"], "tm.event='NewBlockHeader'");
    let mut chain = shared.chain.lock().unwrap();
    let mut told = chain.blocks.len();
    connection.send_text(json!({"jsonrpc": "2.0", "id": request["id"], "result": {}}).to_string());
    while chain.up && chain.websocket && !chain.stopped {
        told = told.min(chain.blocks.len());
        while told < chain.blocks.len() {
            told += 1;
            let header = json!({"height": told.to_string()});
            let data =
                json!({"type": "tendermint/event/NewBlockHeader", "value": {"header": header}});
            let event = json!({"jsonrpc": "2.0", "id": request["id"], "result": {"data": data}});
            connection.send_text(event.to_string());
        }
        chain = shared.changed.wait(chain).unwrap();
    }
}

fn answer(chain: &mut Chain, request: &Value) -> String {
    let height = request["params"]["height"]
        .as_str()
        .map_or(0, |text| text.parse().unwrap());
    let result = match request["method"].as_str().unwrap() {
        "status" => Ok(status(chain)),
        "block" | "block_results" if height > chain.blocks.len() => {
            Err("height must be less than or equal to the current blockchain height")
        }
        "block" | "block_results" if (height as u64) < chain.earliest => {
            Err("height is not available")
        }
        "block" if chain.withheld == Some(height as u64) => Err("access denied"),
        "block" => {
            chain.asked.push(height as u64);
            Ok(block(chain, height))
        }
        "block_results" => {
            chain.results_asked.push(height as u64);
            if chain.refuse_results > 0 {
                chain.refuse_results -= 1;
                Err("could not find results for height")
            } else {
                Ok(results(chain, height))
            }
        }
        "blockchain" => Ok(headers(chain, request)),
        other => panic!("the fake node has no {other}"),
    };
    let id = &request["id"];
    match result {
        Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        Err(data) => json!({
            "jsonrpc": "2.0", "id": id,
            "error": {"code": -32603, "message": "Internal error", "data": data},
        })
        .to_string(),
    }
}

fn status(chain: &Chain) -> String {
    json!({
        "node_info": {"network": chain.chain_id, "moniker": "fake", "version": "0.38.17"},
        "sync_info": {
            "latest_block_height": chain.blocks.len().to_string(),
            "earliest_block_height": chain.earliest.to_string(),
            "catching_up": false,
        },
    })
    .to_string()
}

fn block_hash(chain: &Chain, height: usize) -> String {
    let digest = Sha256::digest([chain.salt, height as u8]);
    if height == 0 {
        String::new()
    } else {
        digest.iter().map(|byte| format!("{byte:02X}")).collect()
    }
}

fn block(chain: &Chain, height: usize) -> String {
    let txs: Vec<_> = chain.blocks[height - 1]
        .iter()
        .map(|tx| base64_simd::STANDARD.encode_to_string(tx))
        .collect();
    json!({
        "block_id": {"hash": block_hash(chain, height)},
        "block": {
            "header": {
                "chain_id": chain.chain_id,
                "height": height.to_string(),
                "time": format!("2026-11-21T02:38:{:02}.5Z", height % 60),
                "last_block_id": {"hash": block_hash(chain, height - 1)},
                "proposer_address": "A5",
            },
            "data": {"txs": txs},
        },
    })
    .to_string()
}

/// The code of each transaction of a block.
fn codes(chain: &Chain, height: usize) -> impl Iterator<Item = u32> {
    let succeed = chain.succeed;
    (0..chain.blocks[height - 1].len()).map(move |at| if succeed { 0 } else { code(at) })
}

fn results(chain: &Chain, height: usize) -> String {
    let results: Vec<_> = codes(chain, height)
        .map(|code| json!({"code": code, "log": "", "events": [{"type": "app"}]}))
        .collect();
    json!({"height": height.to_string(), chain.results_name: results}).to_string()
}

/// The header of the one height that is asked for.
fn headers(chain: &Chain, request: &Value) -> String {
    let params = &request["params"];
    assert_eq!(params["minHeight"], params["maxHeight"]);
    let height: usize = params["minHeight"].as_str().unwrap().parse().unwrap();
    // A result of code 0 has no bytes, any other has its code.
    let leaves: Vec<Vec<u8>> = codes(chain, height - 1)
        .map(|code| {
            if code == 0 {
                vec![]
            } else {
                vec![8, code as u8]
            }
        })
        .collect();
    let header = json!({"height": height.to_string(), "last_results_hash": tree(&leaves)});
    json!({"last_height": chain.blocks.len().to_string(), "block_metas": [{"header": header}]})
        .to_string()
}

/// RFC 6962, section 2.1.
fn tree(leaves: &[Vec<u8>]) -> String {
    fn root(leaves: &[Vec<u8>]) -> Vec<u8> {
        match leaves {
            [] => Sha256::digest([]).to_vec(),
            [leaf] => Sha256::digest([&[0][..], leaf].concat()).to_vec(),
            _ => {
                let mut left = 1;
                while left * 2 < leaves.len() {
                    left *= 2;
                }
                let (left, right) = leaves.split_at(left);
                Sha256::digest([vec![1], root(left), root(right)].concat()).to_vec()
            }
        }
    }
    root(leaves)
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect()
}
