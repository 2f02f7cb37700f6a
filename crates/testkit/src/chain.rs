//! The chain of a fake node, and what the node answers about it.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// What the node does with a request to become a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upgrades {
    /// It agrees.
    Agreed,
    /// It closes the connection.
    Refused,
    /// It never answers.
    Unanswered,
}

/// What the node has, and how it behaves.
#[derive(Debug, Clone)]
pub struct FakeChain {
    /// Its name.
    pub chain_id: String,
    /// Part of every hash: another salt is another chain.
    pub salt: u8,
    /// The transactions of block 1, 2, …
    pub blocks: Vec<Vec<Vec<u8>>>,
    /// Whether it knows methods that read blocks, and subscriptions.
    pub gives_blocks: bool,
    /// Without blocks: a height that rises by one with every tenth broadcast, instead of one that stays.
    pub grows: bool,
    /// The lowest height that it has.
    pub earliest: u64,
    /// A height whose block it has and does not give.
    pub withheld: Option<u64>,
    /// Whether it reports that it is catching up.
    pub catching_up: bool,
    /// The log with which it refuses every `abci_query`; it has no such method where this is empty.
    pub no_query: &'static str,
    /// Whether it becomes a WebSocket.
    pub upgrades: Upgrades,
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
    /// How often a block was asked for that is withheld.
    pub withheld_asked: usize,
    /// The transactions that were broadcast.
    pub received: Vec<Vec<u8>>,
}

impl Default for FakeChain {
    fn default() -> Self {
        Self {
            chain_id: "fake".into(),
            salt: 0,
            blocks: Vec::new(),
            gives_blocks: true,
            grows: false,
            earliest: 1,
            withheld: None,
            catching_up: false,
            no_query: "",
            upgrades: Upgrades::Agreed,
            up: true,
            refuse_results: 0,
            succeed: false,
            results_name: "txs_results",
            results_asked: Vec::new(),
            asked: Vec::new(),
            withheld_asked: 0,
            received: Vec::new(),
        }
    }
}

impl FakeChain {
    /// A node at height 5 that gives no block.
    pub fn without_blocks() -> Self {
        Self {
            gives_blocks: false,
            ..Self::default()
        }
    }

    pub(crate) fn announces(&self) -> bool {
        self.up && self.upgrades == Upgrades::Agreed
    }

    pub(crate) fn height(&self) -> usize {
        match (self.gives_blocks, self.grows) {
            (true, _) => self.blocks.len(),
            (false, true) => 5 + self.received.len() / 10,
            (false, false) => 5,
        }
    }
}

/// Code, message and data of a JSON-RPC error.
type Refusal = (i32, &'static str, &'static str);

const fn internal(data: &'static str) -> Refusal {
    (-32603, "Internal error", data)
}

/// The result of a method that reads.
pub(crate) fn result(
    chain: &mut FakeChain,
    method: &str,
    params: &Value,
) -> Result<Value, Refusal> {
    let height = params["height"].as_str().unwrap_or_default();
    let height: usize = height.parse().unwrap_or_default();
    match method {
        "status" => Ok(status(chain)),
        "abci_query" if !chain.no_query.is_empty() => Ok(json!({"response": {
            "code": 38, "codespace": "sdk", "log": chain.no_query, "value": null,
        }})),
        _ if !chain.gives_blocks => Err((-32601, "Method not found", "")),
        "block" | "block_results" if height > chain.blocks.len() => Err(internal(
            "height must be less than or equal to the current blockchain height",
        )),
        "block" | "block_results" if (height as u64) < chain.earliest => {
            Err(internal("height is not available"))
        }
        "block" if chain.withheld == Some(height as u64) => {
            chain.withheld_asked += 1;
            Err(internal("access denied"))
        }
        "block" => {
            chain.asked.push(height as u64);
            Ok(block(chain, height))
        }
        "block_results" => {
            chain.results_asked.push(height as u64);
            if chain.refuse_results > 0 {
                chain.refuse_results -= 1;
                return Err(internal("could not find results for height"));
            }
            Ok(results(chain, height))
        }
        "blockchain" if params["minHeight"].is_string() => Ok(headers(chain, params)),
        "blockchain" | "consensus_params" | "num_unconfirmed_txs" => {
            Err((-32601, "Method not found", ""))
        }
        other => panic!("the fake node has no {other}"),
    }
}

fn status(chain: &FakeChain) -> Value {
    json!({
        "node_info": {"network": chain.chain_id, "moniker": "fake", "version": "0.38.17"},
        "sync_info": {
            "latest_block_height": chain.height().to_string(),
            "earliest_block_height": chain.earliest.to_string(),
            "catching_up": chain.catching_up,
        },
    })
}

fn block_hash(chain: &FakeChain, height: usize) -> String {
    if height == 0 {
        return String::new();
    }
    hex(&Sha256::digest([chain.salt, height as u8]))
}

fn block(chain: &FakeChain, height: usize) -> Value {
    let txs = chain.blocks[height - 1].iter();
    let txs: Vec<_> = txs
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
}

/// The code of each transaction of a block.
fn codes(chain: &FakeChain, height: usize) -> impl Iterator<Item = u32> {
    let succeed = chain.succeed;
    let places = 0..chain.blocks[height - 1].len();
    places.map(move |at| if succeed { 0 } else { code(at) })
}

fn results(chain: &FakeChain, height: usize) -> Value {
    let results: Vec<_> = codes(chain, height)
        .map(|code| json!({"code": code, "log": "", "events": [{"type": "app"}]}))
        .collect();
    json!({"height": height.to_string(), chain.results_name: results})
}

/// The header of the one height that is asked for.
fn headers(chain: &FakeChain, params: &Value) -> Value {
    assert_eq!(params["minHeight"], params["maxHeight"]);
    let height = params["minHeight"].as_str().unwrap_or_default();
    let height: usize = height.parse().expect("a height");
    // A result of code 0 has no bytes, any other has its code.
    let leaves: Vec<Vec<u8>> = codes(chain, height - 1)
        .map(|code| match code {
            0 => vec![],
            code => vec![8, code as u8],
        })
        .collect();
    let root = hex(&root(&leaves));
    let header = json!({"height": height.to_string(), "last_results_hash": root});
    json!({"last_height": chain.blocks.len().to_string(), "block_metas": [{"header": header}]})
}

/// RFC 6962, section 2.1.
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

/// What a transaction ended with: every seventh of a block fails with its place as code.
pub(crate) const fn code(at: usize) -> u32 {
    if at % 7 == 6 { at as u32 } else { 0 }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
