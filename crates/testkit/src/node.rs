//! A node of CometBFT's RPC whose chain and answers a test writes, over a scripted server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::chain::{self, FakeChain, Upgrades, hex, result};
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
    /// The error of a node that has the transaction already.
    Duplicate,
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
        chain::code(at)
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

    /// Confirms the subscription, then sends every new height until the node goes away.
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

/// Runs an order; false when the connection is to end.
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
        Behaviour::Duplicate => {
            let data = "tx already exists in cache";
            let error = json!({"code": -32_603, "message": "Internal error", "data": data});
            let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
            connection.send(wire.wrap(200, &answer.to_string()));
        }
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
