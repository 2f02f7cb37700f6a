//! Everything that can be set, resolved: nothing behind this module parses text.

mod check;
mod default;
mod error;
mod keys;
mod layers;
mod origin;
mod print;
mod resolve;
mod suggest;
#[cfg(test)]
mod tests;
mod value;

use std::net::SocketAddr;
use std::time::Duration;

use control::PaceSettings;
use fairq::{KeyScheme, Network, Order};
use pacing::Rate;
use rpc::Endpoint;

pub use control::{PaceMode, PauseAction, PauseMode, PauseSettings};

pub use self::error::{ConfigError, ConfigErrors};
pub use self::keys::{Flag, KEYS, Key};
pub use self::layers::{FlagValue, Sources};
pub use self::origin::Origin;
pub use self::resolve::{Resolved, load, parse};

/// The whole configuration, every default filled in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Where clients connect.
    pub listen: Listen,
    /// The nodes behind.
    pub upstream: Upstream,
    /// Who a client is.
    pub trust: Trust,
    /// Bounds on what a client may send.
    pub limits: Limits,
    /// The read lane.
    pub reads: Reads,
    /// How write capacity is shared.
    pub fair: Fair,
    /// How much may be buffered.
    pub buffer: Buffer,
    /// How fast the node is fed.
    pub pace: Pace,
    /// When the node is given a break.
    pub pause: PauseSettings,
    /// WebSockets of clients.
    pub ws: Ws,
    /// The operator's side.
    pub admin: Admin,
    /// What is written to stderr.
    pub log: Log,
    /// The end.
    pub shutdown: Shutdown,
}

/// `[listen]`
#[derive(Clone, Debug, PartialEq)]
pub struct Listen {
    /// Address of the listener. Default 127.0.0.1:26680.
    pub addr: SocketAddr,
    /// Threads that serve clients. Default 1: one core forwards more than a node can take.
    pub threads: usize,
}

/// `[upstream]`
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    /// The nodes. Default one, <http://127.0.0.1:26657>.
    pub urls: Vec<Endpoint>,
    /// Write connections to each node. Default 1.
    pub connections: usize,
    /// How often each node's health is asked for. Default 1 s.
    pub health_interval: Duration,
    /// How long a connect may take. Default 5 s.
    pub connect_timeout: Duration,
    /// How long a read may take until the head of its answer is there. Default 30 s.
    pub read_timeout: Duration,
    /// How long a write may stay without an answer before its connection is given up. A node under
    /// load answers nothing while it commits a block, up to 12 s were seen. Default 30 s.
    pub write_timeout: Duration,
    /// Bytes of accepted, not yet committed transactions kept to be offered again should the node
    /// lose them in a restart; 0 keeps none. Default 32 MiB.
    pub retain_bytes: usize,
}

/// `[trust]`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trust {
    /// Networks whose `X-Forwarded-For` is believed. Default none.
    pub proxies: Vec<Network>,
    /// Prefix lengths that make a client: IPv4 /32 and IPv6 /64 by default.
    pub scheme: KeyScheme,
    /// Networks that may use the proxy; empty means all.
    pub allow: Vec<Network>,
    /// Networks that may not, unless a longer prefix allows them.
    pub deny: Vec<Network>,
}

/// `[limits]`
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Connections in all. Default 20,000.
    pub connections: usize,
    /// Connections of one client. Default 1,000.
    pub connections_per_client: usize,
    /// Bytes of a body or of a WebSocket message. Default 1,000,000, the node's own.
    pub body_bytes: usize,
    /// Bytes of a head. Default 32 KiB.
    pub header_bytes: usize,
    /// Header lines. Default 100.
    pub headers: usize,
    /// Bytes of a request target. Default 16 KiB.
    pub uri_bytes: usize,
    /// Elements of a batch. Default 10, the node's own.
    pub batch: usize,
    /// Depth of JSON. Default 64.
    pub depth: usize,
    /// From the first byte of a head to its last. Default 10 s.
    pub header_timeout: Duration,
    /// From the end of the head to the last byte of the body. Default 10 s.
    pub body_timeout: Duration,
    /// How long a connection may be idle between requests. Default 60 s.
    pub idle_timeout: Duration,
    /// How long a client may take nothing of an answer. Default 10 s.
    pub write_timeout: Duration,
    /// How long an HTTP connection is not read from, at most, whose client asks on and on although
    /// it is refused; zero for never. Default 250 ms.
    pub refusal_rest: Duration,
}

/// `[reads]`
#[derive(Clone, Debug, PartialEq)]
pub struct Reads {
    /// Requests a second of one client. Default 200/s.
    pub rate_per_client: Rate,
    /// How many of them may come at once. Default 1 s worth.
    pub burst_per_client: Duration,
    /// Requests under way of one client. Default 32.
    pub concurrency_per_client: usize,
    /// Requests under way in all. Default 256.
    pub concurrency: usize,
    /// Methods that may be called; empty means every method that is not refused.
    pub allow_methods: Vec<String>,
    /// Methods that are refused; `unsafe_*` by default. A trailing `*` stands for any rest.
    pub refuse_methods: Vec<String>,
    /// Bytes of an answer that are held at most while a slow client takes them. Default 256 KiB.
    pub window_bytes: usize,
}

/// `[fair]`
#[derive(Clone, Debug, PartialEq)]
pub struct Fair {
    /// Most writes a second to all nodes together. Default 2,000/s.
    pub max_req: Rate,
    /// Writes of one client that may wait. Default 1,024.
    pub queue_per_client: usize,
    /// Clients with a state of their own. Default 100,000.
    pub clients_max: usize,
    /// How long a write may wait here before it is answered with an error. Default 30 s.
    pub queue_timeout: Duration,
    /// What stays in order inside a client.
    pub order: Order,
    /// Weights of networks; 1 for everybody else.
    pub weights: Vec<(Network, u32)>,
    /// When a `broadcast_tx_async` is answered.
    pub async_ack: AsyncAck,
    /// How long a `broadcast_tx_commit` waits for its block after CheckTx. Default 10 s, the node's.
    pub commit_timeout: Duration,
    /// `broadcast_tx_commit` calls that may wait for a block. Default 20,000.
    pub commit_waiters: usize,
}

/// When a `broadcast_tx_async` is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncAck {
    /// When it was admitted, with the hash computed here: the default.
    Buffered,
    /// When the node has answered.
    Forwarded,
}

/// `[buffer]`
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Bytes of everything that is buffered: requests read, waiting, under way, answers and events
    /// not yet taken. Default 256 MiB.
    pub bytes: usize,
}

/// `[pace]`
#[derive(Clone, Debug, PartialEq)]
pub struct Pace {
    /// Whether the rate follows the node.
    pub mode: PaceMode,
    /// The rate is never steered below this. Default 50/s.
    pub min_req: Rate,
    /// Writes under way on one connection. Default 256.
    pub inflight_per_connection: usize,
    /// Writes under way in all. Default 512.
    pub inflight: usize,
    /// How much may be sent at once, as time at the current rate; at most 20 ms. Default 20 ms.
    pub burst: Duration,
    /// Transactions the node's mempool holds at most, if known; else it is learnt from the node's
    /// own words when it is full.
    pub mempool_size: Option<usize>,
    /// Share of the mempool that may be filled. Default 0.97.
    pub mempool_fill: f64,
    /// How often the depth of the mempool is asked for. Default 500 ms.
    pub mempool_interval: Duration,
}

impl Pace {
    /// What the pacer has to know of it.
    pub const fn settings(&self) -> PaceSettings {
        PaceSettings {
            mode: self.mode,
            min_req: self.min_req,
            burst: self.burst,
            mempool_size: self.mempool_size,
            mempool_fill: self.mempool_fill,
        }
    }
}

/// `[ws]`
#[derive(Clone, Debug, PartialEq)]
pub struct Ws {
    /// How often a client is pinged. Default 27 s, the node's.
    pub ping_interval: Duration,
    /// How long a client may be silent, pongs included. Default 30 s, the node's. Does not run
    /// while we do not read from it.
    pub read_timeout: Duration,
    /// Pings a second of a client that are answered. Default 10.
    pub pings_per_second: u32,
    /// Bytes of answers and events that wait for one slow client. Default 1 MiB.
    pub out_bytes: usize,
    /// Origins of web pages that may connect; empty means all, as on the node.
    pub origins: Vec<String>,
}

/// `[admin]`
#[derive(Clone, Debug, PartialEq)]
pub struct Admin {
    /// Address of the operator's listener; none switches it off. Default 127.0.0.1:26681.
    pub addr: Option<SocketAddr>,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// What is worth a line. Default info: one line per change of state, never one per request.
    pub level: LogLevel,
}

/// What is worth a line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Somebody must act.
    Error,
    /// Something went wrong and was dealt with.
    Warn,
    /// Changes of state.
    Info,
    /// Decisions.
    Debug,
    /// Single requests.
    Trace,
}

/// `[shutdown]`
#[derive(Clone, Debug, PartialEq)]
pub struct Shutdown {
    /// How long queued writes may still be forwarded after SIGTERM. Default 10 s.
    pub drain: Duration,
}
