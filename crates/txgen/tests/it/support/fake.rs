//! A node that passes the preflight and then answers broadcasts as badly as a test wants, and a
//! relay that gives a node a second address.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use testkit::{FrameKind, ScriptedConnection, ScriptedServer, frame, http_answer};

/// What becomes of one broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
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
    /// A good answer to somebody else's question.
    OtherId,
    /// Nothing.
    Silence,
}

/// What a fake node says about itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) chain_id: &'static str,
    pub(crate) catching_up: bool,
    /// Whether its chain grows with what it is given; it gives no block.
    pub(crate) grows: bool,
    /// What it says to every `abci_query`, which it refuses; it has none where this is empty.
    pub(crate) no_query: &'static str,
    /// Whether it agrees to WebSockets; without it the upgrade is never answered.
    pub(crate) websocket: bool,
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            chain_id: "fake",
            catching_up: false,
            grows: false,
            no_query: "",
            websocket: true,
        }
    }
}

/// A scripted node without blocks (use `--no-follow`).
pub(crate) struct FakeNode {
    server: ScriptedServer,
    received: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl FakeNode {
    /// A node that does the same with every broadcast.
    pub(crate) fn always(behaviour: Behaviour) -> Self {
        Self::start(Identity::default(), move |_| behaviour)
    }

    /// A node that decides by the number of the broadcast, from 0.
    pub(crate) fn start(
        identity: Identity,
        behaviour: impl Fn(usize) -> Behaviour + Send + Sync + 'static,
    ) -> Self {
        let received = Arc::new(Mutex::new(Vec::new()));
        let script = Script {
            identity,
            received: received.clone(),
            behaviour: Box::new(behaviour),
        };
        Self {
            server: ScriptedServer::start(move |connection| script.play(connection)),
            received,
        }
    }

    pub(crate) fn url(&self) -> String {
        self.server.http_url()
    }

    pub(crate) fn ws_url(&self) -> String {
        self.server.ws_url()
    }

    /// Connections accepted so far, those of the preflight among them.
    pub(crate) fn connections(&self) -> usize {
        self.server.connections()
    }

    /// Broadcasts received so far.
    pub(crate) fn broadcasts(&self) -> usize {
        self.received.lock().unwrap().len()
    }

    /// The transactions received so far.
    pub(crate) fn transactions(&self) -> Vec<Vec<u8>> {
        self.received.lock().unwrap().clone()
    }
}

type Decide = Box<dyn Fn(usize) -> Behaviour + Send + Sync>;

struct Script {
    identity: Identity,
    received: Arc<Mutex<Vec<Vec<u8>>>>,
    behaviour: Decide,
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

impl Script {
    fn play(&self, connection: &mut ScriptedConnection) {
        while let Some(request) = connection.read_request() {
            if request.head.to_lowercase().contains("upgrade: websocket") {
                if self.identity.websocket && connection.agree_to_websocket(&request) {
                    self.play_websocket(connection);
                } else {
                    connection.freeze();
                }
                return;
            }
            if !self.answer(connection, Wire::Http, &request.body) {
                return;
            }
        }
    }

    fn play_websocket(&self, connection: &mut ScriptedConnection) {
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
        let request: Value = serde_json::from_slice(body).unwrap();
        let method = request["method"].as_str().unwrap();
        let id = &request["id"];
        if method.starts_with("broadcast_tx_") {
            let text = request["params"]["tx"].as_str().unwrap();
            let tx = base64_simd::STANDARD.decode_to_vec(text).unwrap();
            let hash = Sha256::digest(&tx);
            let number = {
                let mut received = self.received.lock().unwrap();
                received.push(tx);
                received.len() - 1
            };
            return behave((self.behaviour)(number), connection, wire, id, &hash);
        }
        let grown = match self.identity.grows {
            true => self.received.lock().unwrap().len(),
            false => 0,
        };
        let answer = match method {
            "status" => json!({"jsonrpc": "2.0", "id": id, "result": {
                "node_info": {"network": self.identity.chain_id, "moniker": "fake", "version": "0.38.17"},
                "sync_info": {
                    "latest_block_height": (5 + grown / 10).to_string(),
                    "earliest_block_height": "1",
                    "catching_up": self.identity.catching_up,
                },
            }}),
            "abci_query" if !self.identity.no_query.is_empty() => {
                json!({"jsonrpc": "2.0", "id": id, "result": {"response": {
                    "code": 38, "codespace": "sdk", "log": self.identity.no_query, "value": null,
                }}})
            }
            _ => json!({"jsonrpc": "2.0", "id": id, "error": {
                "code": -32601, "message": "Method not found", "data": "",
            }}),
        };
        connection.send(wire.wrap(200, &answer.to_string()));
        true
    }
}

/// Does as told; false when the connection is to end.
fn behave(
    behaviour: Behaviour,
    connection: &mut ScriptedConnection,
    wire: Wire,
    id: &Value,
    hash: &[u8],
) -> bool {
    let hash: String = hash.iter().map(|byte| format!("{byte:02X}")).collect();
    let verdict = |id: &Value, code: u32| {
        json!({"jsonrpc": "2.0", "id": id, "result": {
            "code": code, "data": "", "log": "", "codespace": "", "hash": hash,
        }})
        .to_string()
    };
    match behaviour {
        Behaviour::Accept => connection.send(wire.wrap(200, &verdict(id, 0))),
        Behaviour::AcceptAfter(delay) => {
            thread::sleep(delay);
            connection.send(wire.wrap(200, &verdict(id, 0)));
        }
        Behaviour::Reject(code) => connection.send(wire.wrap(200, &verdict(id, code))),
        Behaviour::Html => connection.send(wire.wrap(200, "<html>It works!</html>")),
        Behaviour::BadGateway => connection.send(wire.wrap(502, "<html>Bad Gateway</html>")),
        Behaviour::Noise => connection.send([0xff; 64]),
        Behaviour::OtherShape => {
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"weather": "fine"}});
            connection.send(wire.wrap(200, &answer.to_string()));
        }
        Behaviour::HalfThenClose => {
            let answer = wire.wrap(200, &verdict(id, 0));
            connection.send(&answer[..answer.len() / 2]);
            return false;
        }
        Behaviour::Close => return false,
        Behaviour::Reset => {
            connection.reset();
            return false;
        }
        Behaviour::OtherId => {
            let other = json!(id.as_u64().unwrap() + 1_000_000);
            connection.send(wire.wrap(200, &verdict(&other, 0)));
        }
        Behaviour::Silence => {}
    }
    true
}

/// A second address of a server: every connection is carried over as it is.
pub(crate) struct Relay {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
    acceptor: Option<JoinHandle<()>>,
}

impl Relay {
    pub(crate) fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let stopped = Arc::new(AtomicBool::new(false));
        let sockets = Arc::new(Mutex::new(Vec::new()));
        let acceptor = {
            let (stopped, sockets) = (stopped.clone(), sockets.clone());
            thread::spawn(move || {
                for near in listener.incoming().map_while(Result::ok) {
                    if stopped.load(Ordering::Acquire) {
                        break;
                    }
                    let Ok(far) = TcpStream::connect(target) else {
                        continue;
                    };
                    for socket in [&near, &far] {
                        socket.set_nodelay(true).unwrap();
                        sockets.lock().unwrap().push(socket.try_clone().unwrap());
                    }
                    carry(near.try_clone().unwrap(), far.try_clone().unwrap());
                    carry(far, near);
                }
            })
        };
        Self {
            address,
            stopped,
            sockets,
            acceptor: Some(acceptor),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Carries one direction on a thread that ends with either socket.
fn carry(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    });
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        drop(TcpStream::connect(self.address));
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().unwrap();
        }
        for socket in self.sockets.lock().unwrap().drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}
