//! The upstream side against the built-in node, against servers that misbehave, and against the
//! real node.

mod cached;
mod comet;
mod doors;
mod hub;
mod latest;
mod nodes;
mod questions;
mod reads;
mod results;
mod scripted;
mod spread;
mod stuck;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use devnode::{DevNode, Worker};
use fairq::{ClientKey, KeyScheme};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{ClientLink, Hub, NodeEvent, Nodes, Reads, RelayEvent, RelayLink as _, RelayMessage};
use crate::budget::Ledger;
use crate::config::Config;
use crate::refusal::Refusal;
use crate::respond::KeptId;
use crate::shared_context::SharedContext;
use wire::calls::{Call, Classified, JsonLimits, classify_message};

/// The upstream side of a proxy, running.
pub(super) struct Rig {
    pub(super) nodes: Nodes,
    pub(super) reads: Reads,
    pub(super) hub: Hub,
    pub(super) events: mpsc::Receiver<NodeEvent>,
    pub(super) ledger: Ledger,
    shutdown: CancellationToken,
    tasks: JoinSet<()>,
}

/// The longest a test waits for what must come.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn config(urls: &[String]) -> Config {
    let mut config = Config::default();
    config.upstream.urls = urls.iter().map(|url| url.parse().unwrap()).collect();
    config.fixed.health_interval = Duration::from_millis(50);
    config.fixed.mempool_interval = Duration::from_millis(20);
    config
}

impl Rig {
    pub(super) fn start(config: &Config) -> Self {
        let shared_context = SharedContext {
            seed: [1, 2],
            ..SharedContext::new(config.clone(), CancellationToken::new())
        };
        let (ledger, shutdown) = (shared_context.ledger.clone(), shared_context.end.clone());
        let (nodes, events, worker) = Nodes::start(shared_context).unwrap();
        let reads = Reads::new(config, &nodes);
        let (hub, subscribing) = Hub::new(config, &nodes, &reads);
        let mut tasks = JoinSet::new();
        tasks.spawn(worker.run());
        tasks.spawn(subscribing.run());
        Self {
            nodes,
            reads,
            hub,
            events,
            ledger,
            shutdown,
            tasks,
        }
    }

    pub(super) fn to(urls: &[String]) -> Self {
        Self::start(&config(urls))
    }

    /// To one node, once it is up.
    pub(super) async fn up(url: String) -> Self {
        let mut rig = Self::to(&[url]);
        rig.ready(0).await;
        rig
    }

    /// The next event that `pick` wants.
    pub(super) async fn until<T>(&mut self, mut pick: impl FnMut(NodeEvent) -> Option<T>) -> T {
        let wait = async {
            loop {
                let event = self.events.recv().await.expect("the nodes are watched");
                if let Some(found) = pick(event) {
                    return found;
                }
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("in time")
    }

    pub(super) async fn until_up(&mut self, node: usize) {
        self.until(|event| {
            matches!(event, NodeEvent::Up { node: up, .. } if up == node).then_some(())
        })
        .await;
    }

    /// Waits until a node is up, and goes on taking events, as the lane does.
    pub(super) async fn ready(&mut self, node: usize) {
        self.until_up(node).await;
        let (_, never) = mpsc::channel(1);
        let mut events = std::mem::replace(&mut self.events, never);
        self.tasks
            .spawn(async move { while events.recv().await.is_some() {} });
    }

    /// Ends everything; every task ends and every byte comes back.
    pub(super) async fn stop(mut self) {
        self.shutdown.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        tokio::time::timeout(PATIENCE, ended)
            .await
            .expect("in time");
        drop((self.hub, self.reads, self.nodes));
        assert_eq!(self.ledger.used(), 0);
    }
}

/// A built-in node that runs as long as this.
pub(super) struct Running {
    pub(super) node: DevNode,
    worker: JoinSet<()>,
}

pub(super) async fn devnode(config: devnode::Config) -> Running {
    let (node, worker): (_, Worker) = DevNode::bind(config).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(worker);
    Running {
        node,
        worker: tasks,
    }
}

/// A built-in node with short blocks.
pub(super) async fn quick() -> Running {
    devnode(short_blocks()).await
}

/// A built-in node with short blocks and other settings of its RPC.
pub(super) async fn with_rpc(change: impl FnOnce(&mut devnode::RpcConfig)) -> Running {
    let mut config = short_blocks();
    change(&mut config.rpc);
    devnode(config).await
}

/// One of that chain, at that address.
pub(super) async fn of_chain(name: &str, listen: SocketAddr) -> Running {
    devnode(devnode::Config {
        listen,
        chain_id: name.to_owned(),
        ..short_blocks()
    })
    .await
}

fn short_blocks() -> devnode::Config {
    devnode::Config {
        block_interval: Duration::from_millis(20),
        ..devnode::Config::default()
    }
}

impl Running {
    pub(super) fn url(&self) -> String {
        self.node.rpc_url()
    }

    pub(super) async fn stop(mut self) {
        self.node.shutdown();
        while self.worker.join_next().await.is_some() {}
    }
}

/// Asks the first node itself.
pub(super) fn client_of(rig: &Rig) -> chain_cometbft::Client {
    chain_cometbft::Client::new(rig.nodes.endpoint(0), PATIENCE).unwrap()
}

pub(super) fn client(last: u8) -> ClientKey {
    KeyScheme::default().key(std::net::IpAddr::from([127, 0, 0, last]))
}

/// A WebSocket of this client.
pub(super) fn open(rig: &Rig, last: u8) -> ClientLink {
    ClientLink::new((&rig.reads, &rig.hub), &rig.ledger, (client(last), 0), 5)
}

/// A text as the front reads it.
pub(super) fn message(text: &str) -> RelayMessage {
    let text = Bytes::copy_from_slice(text.as_bytes());
    let limits = JsonLimits {
        depth: 64,
        batch: 10,
    };
    let (id, method) = match classify_message(&text, &limits).unwrap() {
        Classified::One(Call::Read { id, method }) => {
            (Some(KeptId::from(id.as_str())), Some(method.into()))
        }
        _ => (None, None),
    };
    RelayMessage {
        text: text.clone(),
        id,
        method,
    }
}

pub(super) fn subscribe(link: &mut ClientLink, id: &str, query: &str) -> Result<(), Refusal> {
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"subscribe","params":{{"query":"{query}"}}}}"#
    );
    link.send(&message(&text), 1)
}

/// What comes next.
pub(super) async fn hear(link: &mut ClientLink) -> RelayEvent {
    let heard = poll_fn(|context| link.poll_event(context));
    tokio::time::timeout(PATIENCE, heard)
        .await
        .expect("in time")
}

/// The next text for the client.
pub(super) async fn text(link: &mut ClientLink) -> String {
    let bytes = match hear(link).await {
        RelayEvent::Text(text) | RelayEvent::Answer { text, .. } => text.to_vec(),
        RelayEvent::Event { head, rest } => [head, rest].concat(),
        other => panic!("a text and not {other:?}"),
    };
    String::from_utf8(bytes).unwrap()
}

/// Sends a request and returns its answer, which may come between events.
pub(super) async fn ask(link: &mut ClientLink, request: &str) -> String {
    link.send(&message(request), 1).unwrap();
    loop {
        let text = text(link).await;
        if !text.contains(r#""data":{"type""#) {
            return text;
        }
    }
}

/// The height in an event.
pub(super) fn height_of(event: &str) -> u64 {
    let value: serde_json::Value = serde_json::from_str(event).unwrap();
    let value = &value["result"]["data"]["value"];
    let header = value.get("header").unwrap_or(&value["block"]["header"]);
    header["height"].as_str().unwrap().parse().unwrap()
}
