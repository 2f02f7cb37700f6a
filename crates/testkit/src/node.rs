//! A node of CometBFT's RPC whose chain and answers a test writes, over a scripted server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{FrameKind, ScriptedConnection, ScriptedServer, frame, http_answer};

/// What becomes of one broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Code 0.
    Accept,
    /// Code 0, late.
    AcceptAfter(Duration),
    /// This code.
    Reject(u32),
    /// A page of HTML with status 200.
    Html,
    /// A page of HTML with status 502.
    BadGateway,
    /// Bytes that are neither HTTP nor a WebSocket frame.
    Noise,
    /// JSON-RPC with a result that no broadcast has.
    OtherShape,
    /// The first half of a good answer, then the end of the connection.
    HalfThenClose,
    /// The end of the connection.
    Close,
    /// A reset of the connection.
    Reset,
    /// A good answer to another request.
    OtherId,
    /// Nothing.
    Silence,
}

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
    /// Whether it says that it is catching up.
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

    fn announces(&self) -> bool {
        self.up && self.upgrades == Upgrades::Agreed
    }

    fn height(&self) -> usize {
        match (self.gives_blocks, self.grows) {
            (true, _) => self.blocks.len(),
            (false, true) => 5 + self.received.len() / 10,
            (false, false) => 5,
        }
    }
}

/// The node.
pub struct FakeNode {
    server: Option<ScriptedServer>,
    shared: Arc<Shared>,
}

type Decide = Box<dyn Fn(usize) -> Behaviour + Send + Sync>;

struct Shared {
    chain: Mutex<FakeChain>,
    changed: Condvar,
    /// How often the node stopped announcing: a subscription of before ends, however soon the node is back.
    endings: AtomicU64,
    behaviour: Decide,
}

impl FakeNode {
    /// A node that decides on a broadcast by its number, from 0.
    pub fn start(
        chain: FakeChain,
        behaviour: impl Fn(usize) -> Behaviour + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            chain: Mutex::new(chain),
            changed: Condvar::new(),
            endings: AtomicU64::new(0),
            behaviour: Box::new(behaviour),
        });
        let server = Arc::clone(&shared);
        let server = ScriptedServer::start(move |connection| server.serve(connection));
        Self {
            server: Some(server),
            shared,
        }
    }

    /// A node without blocks that does the same with every broadcast.
    pub fn always(behaviour: Behaviour) -> Self {
        Self::start(FakeChain::without_blocks(), move |_| behaviour)
    }

    /// A node with an empty chain.
    pub fn with_blocks() -> Self {
        Self::start(FakeChain::default(), |_| Behaviour::Accept)
    }

    fn server(&self) -> &ScriptedServer {
        self.server.as_ref().expect("it is there until the drop")
    }

    /// `http://address`.
    pub fn url(&self) -> String {
        self.server().http_url()
    }

    /// `ws://address/websocket`.
    pub fn ws_url(&self) -> String {
        self.server().ws_url()
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.server().connections()
    }

    /// Broadcasts received so far.
    pub fn broadcasts(&self) -> usize {
        self.shared.lock().received.len()
    }

    /// Changes the chain or the behaviour, and wakes the subscriptions.
    pub fn change<T>(&self, change: impl FnOnce(&mut FakeChain) -> T) -> T {
        let mut chain = self.shared.lock();
        let announced = chain.announces();
        let output = change(&mut chain);
        if announced && !chain.announces() {
            self.shared.endings.fetch_add(1, Ordering::Relaxed);
        }
        self.shared.changed.notify_all();
        output
    }

    /// Adds blocks with so many transactions each.
    pub fn grow(&self, blocks: impl IntoIterator<Item = usize>) {
        self.change(|chain| {
            for count in blocks {
                let height = chain.blocks.len() + 1;
                let txs = (0..count).map(|at| Self::tx(height, at)).collect();
                chain.blocks.push(txs);
            }
        });
    }

    /// The transaction of a place in the chain.
    pub fn tx(height: usize, at: usize) -> Vec<u8> {
        format!("{height}/{at}=value").into_bytes()
    }

    /// What it ended with: every seventh of a block fails with its place as code.
    pub const fn code(at: usize) -> u32 {
        if at % 7 == 6 { at as u32 } else { 0 }
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.change(|chain| chain.up = false);
        self.server = None;
    }
}

/// How answers are wrapped.
#[derive(Clone, Copy)]
enum Wire {
    Http,
    WebSocket,
}

impl Wire {
    fn wrap(self, status: u16, text: &str) -> Vec<u8> {
        match self {
            Self::Http => http_answer(status, text),
            Self::WebSocket => frame(FrameKind::Whole(1), text.as_bytes()),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, FakeChain> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, connection: &mut ScriptedConnection) {
        while let Some(request) = connection.read_request() {
            let (up, upgrades) = {
                let chain = self.lock();
                (chain.up, chain.upgrades)
            };
            if !up {
                return connection.reset();
            }
            if request.head.to_lowercase().contains("upgrade: websocket") {
                match upgrades {
                    Upgrades::Agreed if connection.agree_to_websocket(&request) => {
                        self.serve_websocket(connection);
                    }
                    Upgrades::Unanswered => connection.freeze(),
                    Upgrades::Agreed | Upgrades::Refused => {}
                }
                return;
            }
            if !self.answer(connection, Wire::Http, &request.body) {
                return;
            }
        }
    }

    fn serve_websocket(&self, connection: &mut ScriptedConnection) {
        while let Some(received) = connection.read_frame() {
            let goes_on = match received.opcode {
                1 => self.answer(connection, Wire::WebSocket, &received.payload),
                opcode => opcode != 8,
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Answers one request; false when the connection is to end.
    fn answer(&self, connection: &mut ScriptedConnection, wire: Wire, body: &[u8]) -> bool {
        let request: Value = serde_json::from_slice(body).expect("requests are JSON");
        let method = request["method"].as_str().unwrap_or_default();
        let id = &request["id"];
        if method.starts_with("broadcast_tx_") {
            let text = request["params"]["tx"].as_str().unwrap_or_default();
            let tx = base64_simd::STANDARD.decode_to_vec(text);
            let tx = tx.expect("transactions are base64");
            let hash = hex(&Sha256::digest(&tx));
            let number = {
                let received = &mut self.lock().received;
                received.push(tx);
                received.len() - 1
            };
            return behave((self.behaviour)(number), connection, wire, id, &hash);
        }
        let mut chain = self.lock();
        if method == "subscribe" && chain.gives_blocks {
            self.announce(chain, connection, &request);
            return false;
        }
        let answer = match result(&mut chain, method, &request["params"]) {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, message, data)) => {
                let error = json!({"code": code, "message": message, "data": data});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        };
        connection.send(wire.wrap(200, &answer.to_string()));
        true
    }

    /// Confirms the subscription, then tells every new height until the node goes away.
    fn announce(
        &self,
        mut chain: MutexGuard<'_, FakeChain>,
        connection: &mut ScriptedConnection,
        request: &Value,
    ) {
        assert_eq!(request["params"]["query"], "tm.event='NewBlockHeader'");
        let mut told = chain.blocks.len();
        let id = &request["id"];
        connection.send_text(json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string());
        let endings = self.endings.load(Ordering::Relaxed);
        while chain.announces() && self.endings.load(Ordering::Relaxed) == endings {
            told = told.min(chain.blocks.len());
            while told < chain.blocks.len() {
                told += 1;
                let header = json!({"height": told.to_string()});
                let value = json!({"header": header});
                let data = json!({"type": "tendermint/event/NewBlockHeader", "value": value});
                let event = json!({"jsonrpc": "2.0", "id": id, "result": {"data": data}});
                connection.send_text(event.to_string());
            }
            let waited = self.changed.wait(chain);
            chain = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Code, message and data of a JSON-RPC error.
type Refusal = (i32, &'static str, &'static str);

const fn internal(data: &'static str) -> Refusal {
    (-32603, "Internal error", data)
}

fn result(chain: &mut FakeChain, method: &str, params: &Value) -> Result<Value, Refusal> {
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
        "block" if chain.withheld == Some(height as u64) => Err(internal("access denied")),
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
        "blockchain" => Ok(headers(chain, params)),
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
    places.map(move |at| if succeed { 0 } else { FakeNode::code(at) })
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Does as told; false when the connection is to end.
fn behave(
    behaviour: Behaviour,
    connection: &mut ScriptedConnection,
    wire: Wire,
    id: &Value,
    hash: &str,
) -> bool {
    let verdict = |id: &Value, code: u32| {
        let result = json!({"code": code, "data": "", "log": "", "codespace": "", "hash": hash});
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
        wire.wrap(200, &answer.to_string())
    };
    match behaviour {
        Behaviour::Accept => connection.send(verdict(id, 0)),
        Behaviour::AcceptAfter(delay) => {
            thread::sleep(delay);
            connection.send(verdict(id, 0));
        }
        Behaviour::Reject(code) => connection.send(verdict(id, code)),
        Behaviour::Html => connection.send(wire.wrap(200, "<html>It works!</html>")),
        Behaviour::BadGateway => connection.send(wire.wrap(502, "<html>Bad Gateway</html>")),
        Behaviour::Noise => connection.send([0xff; 64]),
        Behaviour::OtherShape => {
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"weather": "fine"}});
            connection.send(wire.wrap(200, &answer.to_string()));
        }
        Behaviour::HalfThenClose => {
            let answer = verdict(id, 0);
            connection.send(&answer[..answer.len() / 2]);
            return false;
        }
        Behaviour::Close => return false,
        Behaviour::Reset => {
            connection.reset();
            return false;
        }
        Behaviour::OtherId => {
            let other = json!(id.as_u64().unwrap_or_default() + 1_000_000);
            connection.send(verdict(&other, 0));
        }
        Behaviour::Silence => {}
    }
    true
}
