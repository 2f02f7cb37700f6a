//! Everything that can be set, resolved: nothing behind this module parses text.

mod check;
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

use std::net::{Ipv4Addr, SocketAddr};
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

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn per_second(rate: u64) -> Rate {
    Rate::per_second(rate).expect("the defaults are below the highest rate")
}

fn default_node() -> Endpoint {
    let node = "http://127.0.0.1:26657".parse();
    node.expect("the default address is an address")
}

/// Sections: their fields with the values they have when they are not set. `docs/sentinel.md` gives
/// the reasons.
macro_rules! sections {
    ($(
        $(#[$attribute:meta])*
        pub struct $name:ident {
            $($(#[$field_attribute:meta])* pub $field:ident: $type:ty = $default:expr,)*
        }
    )*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$field_attribute])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    )*};
}

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
    /// Shutdown.
    pub shutdown: Shutdown,
}

sections! {
    /// `[listen]`
    pub struct Listen {
        /// Address of the listener. Default 127.0.0.1:26680.
        pub addr: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 26680)),
        /// Threads that serve clients. Default 1: one core forwards more than a node can take.
        pub threads: usize = 1,
    }

    /// `[upstream]`
    pub struct Upstream {
        /// The nodes. Default one, <http://127.0.0.1:26657>.
        pub urls: Vec<Endpoint> = vec![default_node()],
        /// Write connections to each node. Default 1.
        pub connections: usize = 1,
        /// How often each node's health is asked for. Default 1 s.
        pub health_interval: Duration = Duration::from_secs(1),
        /// How long a connect may take. Default 5 s.
        pub connect_timeout: Duration = Duration::from_secs(5),
        /// How long a read may take until the head of its answer is there. Default 30 s.
        pub read_timeout: Duration = Duration::from_secs(30),
        /// How long a write may stay without an answer before its connection is given up. A node under
        /// load answers nothing while it commits a block, up to 12 s were seen. Default 30 s.
        pub write_timeout: Duration = Duration::from_secs(30),
        /// Bytes of accepted, not yet committed transactions kept to be offered again should the node
        /// lose them in a restart; 0 keeps none. Default 32 MiB.
        pub retain_bytes: usize = 32 * MIB,
    }

    /// `[limits]`
    pub struct Limits {
        /// Connections in all. Default 20,000.
        pub connections: usize = 20_000,
        /// Connections of one client. Default 1,000.
        pub connections_per_client: usize = 1_000,
        /// Bytes of a body or of a WebSocket message. Default 1,000,000, the node's own.
        pub body_bytes: usize = 1_000_000,
        /// Bytes of a head. Default 32 KiB.
        pub header_bytes: usize = 32 * KIB,
        /// Header lines. Default 100.
        pub headers: usize = 100,
        /// Bytes of a request target. Default 16 KiB.
        pub uri_bytes: usize = 16 * KIB,
        /// Elements of a batch. Default 10, the node's own.
        pub batch: usize = 10,
        /// Depth of JSON. Default 64.
        pub depth: usize = 64,
        /// From the first byte of a head to its last. Default 10 s.
        pub header_timeout: Duration = Duration::from_secs(10),
        /// From the end of the head to the last byte of the body. Default 10 s.
        pub body_timeout: Duration = Duration::from_secs(10),
        /// How long a connection may be idle between requests. Default 60 s.
        pub idle_timeout: Duration = Duration::from_secs(60),
        /// How long a client may take nothing of an answer. Default 10 s.
        pub write_timeout: Duration = Duration::from_secs(10),
        /// Longest time for which an HTTP connection is not read after refusals in a row; zero for
        /// never. Default 250 ms.
        pub refusal_rest: Duration = Duration::from_millis(250),
    }

    /// `[reads]`
    pub struct Reads {
        /// Requests a second of one client. Default 200/s.
        pub rate_per_client: Rate = per_second(200),
        /// How many of them may come at once. Default 1 s worth.
        pub burst_per_client: Duration = Duration::from_secs(1),
        /// Requests under way of one client. Default 32.
        pub concurrency_per_client: usize = 32,
        /// Requests under way in all. Default 256.
        pub concurrency: usize = 256,
        /// Methods that may be called; empty means every method that is not refused.
        pub allow_methods: Vec<String> = Vec::new(),
        /// Methods that are refused; `unsafe_*` by default. A trailing `*` stands for any rest.
        pub refuse_methods: Vec<String> = vec!["unsafe_*".to_owned()],
        /// Bytes of an answer that are held at most while a slow client takes them. Default 256 KiB.
        pub window_bytes: usize = 256 * KIB,
    }

    /// `[fair]`
    pub struct Fair {
        /// Most writes a second to all nodes together. Default 2,000/s.
        pub max_req: Rate = per_second(2_000),
        /// Writes of one client that may wait. Default 1,024.
        pub queue_per_client: usize = 1_024,
        /// Clients with a state of their own. Default 100,000.
        pub clients_max: usize = 100_000,
        /// How long a write may wait here before it is answered with an error. Default 30 s.
        pub queue_timeout: Duration = Duration::from_secs(30),
        /// What stays in order inside a client.
        pub order: Order = Order::Connection,
        /// Weights of networks; 1 for everybody else.
        pub weights: Vec<(Network, u32)> = Vec::new(),
        /// When a `broadcast_tx_async` is answered.
        pub async_ack: AsyncAck = AsyncAck::Buffered,
        /// How long a `broadcast_tx_commit` waits for its block after CheckTx. Default 10 s, the node's.
        pub commit_timeout: Duration = Duration::from_secs(10),
        /// `broadcast_tx_commit` calls that may wait for a block. Default 20,000.
        pub commit_waiters: usize = 20_000,
    }

    /// `[buffer]`
    pub struct Buffer {
        /// Bytes of everything that is buffered: requests read, waiting, under way, answers and events
        /// not yet taken. Default 256 MiB.
        pub bytes: usize = 256 * MIB,
    }

    /// `[pace]`
    pub struct Pace {
        /// Whether the rate follows the node.
        pub mode: PaceMode = PaceSettings::default().mode,
        /// The rate is never steered below this. Default 50/s.
        pub min_req: Rate = PaceSettings::default().min_req,
        /// Writes under way on one connection. Default 256.
        pub inflight_per_connection: usize = 256,
        /// Writes under way in all. Default 512.
        pub inflight: usize = 512,
        /// How much may be sent at once, as time at the current rate; at most 20 ms. Default 20 ms.
        pub burst: Duration = PaceSettings::default().burst,
        /// Transactions the node's mempool holds at most, if known; otherwise it is taken from the
        /// node's error when it is full.
        pub mempool_size: Option<usize> = PaceSettings::default().mempool_size,
        /// Share of the mempool that may be filled. Default 0.97.
        pub mempool_fill: f64 = PaceSettings::default().mempool_fill,
        /// How often the depth of the mempool is asked for. Default 500 ms.
        pub mempool_interval: Duration = Duration::from_millis(500),
    }

    /// `[ws]`
    pub struct Ws {
        /// How often a client is pinged. Default 27 s, the node's.
        pub ping_interval: Duration = Duration::from_secs(27),
        /// How long a client may be silent, pongs included. Default 30 s, the node's. Does not run
        /// while we do not read from it.
        pub read_timeout: Duration = Duration::from_secs(30),
        /// Pings a second of a client that are answered. Default 10.
        pub pings_per_second: u32 = 10,
        /// Bytes of answers and events that wait for one slow client. Default 1 MiB.
        pub out_bytes: usize = MIB,
        /// Origins of web pages that may connect; empty means all, as on the node.
        pub origins: Vec<String> = Vec::new(),
    }

    /// `[admin]`
    pub struct Admin {
        /// Address of the operator's listener; none switches it off. Default 127.0.0.1:26681.
        pub addr: Option<SocketAddr> = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 26681))),
    }

    /// `[log]`
    pub struct Log {
        /// The level. Default info: one line per change of state, never one per request.
        pub level: LogLevel = LogLevel::Info,
    }

    /// `[shutdown]`
    pub struct Shutdown {
        /// How long queued writes may still be forwarded after SIGTERM. Default 10 s.
        pub drain: Duration = Duration::from_secs(10),
    }
}

/// `[trust]`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trust {
    /// Networks whose `X-Forwarded-For` is trusted. Default none.
    pub proxies: Vec<Network>,
    /// Prefix lengths that make a client: IPv4 /32 and IPv6 /64 by default.
    pub scheme: KeyScheme,
    /// Networks that may use the proxy; empty means all.
    pub allow: Vec<Network>,
    /// Networks that may not, unless a longer prefix allows them.
    pub deny: Vec<Network>,
}

/// When a `broadcast_tx_async` is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncAck {
    /// When it was admitted, with the hash computed here: the default.
    Buffered,
    /// When the node has answered.
    Forwarded,
}

impl Pace {
    /// The settings of the pacer.
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

/// The level of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// An operator must act.
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
