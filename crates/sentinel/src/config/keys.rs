//! Every key that can be set: its type, default, kind of value, flag, help and range, in one table.
//! `docs/sentinel.md` gives the reasons for the defaults.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use control::PaceSettings;
use fairq::Network;
use pacing::Rate;
use rpc::Endpoint;
use tracing::Level;

use super::value::{
    ABOVE_ZERO, Address, Bits, Choice, Count, Given, Kind, Learn, List, Maybe, Off, Share, Size,
    Span, Text, Weights, check,
};
use super::{AsyncAck, PaceMode, PauseAction, PauseMode, PauseSettings, WriteOrder};

/// One key of the configuration.
pub struct Key {
    /// Its full name, `section.key`.
    pub name: &'static str,
    /// What it does, for the help.
    pub help: &'static str,
    /// Its flag, if it has one of its own.
    pub flag: Option<Flag>,
    /// The words it takes, where these are few.
    pub words: &'static [&'static str],
    /// Whether it is a list: its flag may be given several times.
    pub is_list: bool,
    /// Changes the configuration.
    pub(super) set: fn(&mut Config, &Given) -> Result<(), String>,
    /// Writes the value in TOML.
    pub(super) show: fn(&Config) -> String,
    /// Refuses a value outside of its range.
    pub(super) check: fn(&Config) -> Result<(), String>,
}

/// A flag that sets a key.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its name without the dashes.
    pub name: &'static str,
    /// What stands for its value in the help.
    pub value: &'static str,
}

impl Key {
    /// The part before the point.
    pub fn section(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(section, _)| section)
    }

    /// The part behind the point.
    pub fn leaf(&self) -> &'static str {
        self.name
            .split_once('.')
            .map_or(self.name, |(_, leaf)| leaf)
    }

    /// The value in TOML.
    pub fn value(&self, config: &Config) -> String {
        (self.show)(config)
    }

    /// The variable that sets it: `SENTINEL_FAIR__MAX_REQ` for `fair.max_req`.
    pub fn variable(&self) -> String {
        let (section, leaf) = (self.section(), self.leaf());
        format!("{VARIABLE_PREFIX}{section}__{leaf}").to_ascii_uppercase()
    }
}

/// What the names of all variables begin with.
pub(super) const VARIABLE_PREFIX: &str = "SENTINEL_";

/// The key of this name and its place in [`KEYS`].
pub(super) fn find(name: &str) -> Option<usize> {
    KEYS.iter().position(|key| key.name == name)
}

/// The sections, in their order.
pub(super) fn sections() -> impl Iterator<Item = &'static str> {
    let mut last = "";
    KEYS.iter().filter_map(move |key| {
        let section = key.section();
        (std::mem::replace(&mut last, section) != section).then_some(section)
    })
}

/// A key whose value stands in one field, which has the key's name unless another is given: its
/// field, kind, flag, help, and range if it has one.
macro_rules! key {
    ($section:ident . $field:ident, $($rest:tt)+) => {
        key!($section.$field as concat!(stringify!($section), ".", stringify!($field)), $($rest)+)
    };
    ($section:ident . $field:ident as $name:expr, $kind:ty, $flag:expr, $help:literal $(, $range:expr)?) => {
        Key {
            name: $name,
            help: $help,
            flag: $flag,
            words: <$kind as Kind>::WORDS,
            is_list: <$kind as Kind>::IS_LIST,
            set: |config, given| {
                config.$section.$field = <$kind as Kind>::read(given)?;
                Ok(())
            },
            show: |config| <$kind as Kind>::toml(&config.$section.$field),
            check: |_config| {
                $(check::<$kind>(&_config.$section.$field, $range)?;)?
                Ok(())
            },
        }
    };
}

/// A section: its fields with the values they have when they are not set. One whose fields have no
/// types here is another crate's.
macro_rules! section {
    ($(#[$about:meta])* $name:ident { $($field:ident: $type:ty = $default:expr, $help:literal;)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $(#[doc = $help] pub $field: $type,)* }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
    ($($of_another_crate:tt)*) => {};
}

/// Defines the sections, [`Config`] and [`KEYS`].
macro_rules! settings {
    ($(
        $(#[$about:meta])*
        $section:ident: $name:ident {$(
            $field:ident $(as $key:literal)? $(: $type:ty = $default:expr)?;
            $kind:ty, $flag:expr, $help:literal $(, $range:expr)?;
        )*}
    )*) => {
        $(section! { $(#[$about])* $name { $($field $(: $type = $default)?, $help;)* } })*

        /// The whole configuration, every default filled in.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Config { $($(#[$about])* pub $section: $name,)* }

        /// Every key, section by section.
        pub const KEYS: &[Key] =
            &[$($(key!($section.$field $(as $key)?, $kind, $flag, $help $(, $range)?),)*)*];
    };
}

const fn flag(name: &'static str, value: &'static str) -> Option<Flag> {
    Some(Flag { name, value })
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;
const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
/// What must take some time and never takes more than an hour.
const TIMEOUT: RangeInclusive<Duration> = MILLISECOND..=HOUR;
const UP_TO_AN_HOUR: RangeInclusive<Duration> = Duration::ZERO..=HOUR;
/// A longer burst would be a flood for the node.
const BURST: RangeInclusive<Duration> = MILLISECOND..=Duration::from_millis(20);

fn per_second(rate: u64) -> Rate {
    Rate::per_second(rate).expect("the defaults are below the highest rate")
}

fn default_node() -> Endpoint {
    let node = "http://127.0.0.1:26657".parse();
    node.expect("the default address is an address")
}

/// What a node carries out only for its operator, in all versions, and what costs it a check as a write does and
/// would go past the write lane.
fn refused() -> Vec<String> {
    [
        "unsafe_*",
        "dial_seeds",
        "dial_peers",
        "check_tx",
        "broadcast_evidence",
    ]
    .map(str::to_owned)
    .into()
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

settings! {
    /// `[listen]` Where clients connect.
    listen: Listen {
        addr: SocketAddr = loopback(26680); Address, flag("listen", "ADDR"),
            "Where clients connect";
        threads: usize = 1; Count, flag("threads", "N"),
            "Threads that serve clients; one forwards more than a node can take", 1..=64;
    }

    /// `[upstream]` The nodes behind.
    upstream: Upstream {
        urls: Vec<Endpoint> = vec![default_node()]; List<Endpoint>, flag("upstream", "URL"),
            "The nodes; may be repeated. The writes of one client stay on one node while it is healthy";
        connections: usize = 1; Count, None,
            "Write connections to each node; --pace adaptive opens more, up to 16, where that raises the rate of answers", 1..=64;
        health_interval: Duration = Duration::from_secs(1); Span, None,
            "Interval of the health checks of each node", TIMEOUT;
        connect_timeout: Duration = Duration::from_secs(5); Span, None,
            "How long a connect to a node may take", TIMEOUT;
        read_timeout: Duration = Duration::from_secs(20); Span, None,
            "How long a node may take to begin the answer to a read", TIMEOUT;
        // A node under load answers nothing while it commits a block, up to 12 s were seen. Shorter than the
        // queue's deadline, so that writes which were under way have time to be offered again.
        write_timeout: Duration = Duration::from_secs(20); Span, None,
            "How long a write may stay without an answer before its connection is given up", TIMEOUT;
        any_version: bool = false; Choice<bool>, flag("any-version", "BOOL"),
            "Whether nodes of versions are used that were not tested; --any-version alone means true";
        retain_bytes: usize = 32 * MIB; Size, None,
            "Accepted transactions kept until they are committed, to be offered again after a restart of the node; 0 keeps none";
    }

    /// `[trust]` Who a client is.
    trust: Trust {
        proxies: Vec<Network> = Vec::new(); List<Network>, flag("trusted-proxy", "NETWORK"),
            "Networks whose X-Forwarded-For is believed; may be repeated";
        ipv4_prefix: u8 = 32; Bits<32>, None,
            "Leading bits of an IPv4 address that make a client";
        ipv6_prefix: u8 = 64; Bits<128>, flag("ipv6-prefix", "BITS"),
            "Leading bits of an IPv6 address that make a client";
        allow: Vec<Network> = Vec::new(); List<Network>, flag("allow", "NETWORK"),
            "Networks that may connect, none for all; may be repeated";
        deny: Vec<Network> = Vec::new(); List<Network>, flag("deny", "NETWORK"),
            "Networks that may not, unless a longer prefix allows them; may be repeated";
    }

    /// `[limits]` Bounds on what a client may send.
    limits: Limits {
        connections: usize = 20_000; Count, None,
            "Connections in all", 1..;
        connections_per_client: usize = 1_000; Count, None,
            "Connections of one client", 1..;
        connect_rate_per_client: Rate = per_second(500); Text<Rate>, None,
            "New connections a second of one client; as many as it may have may come at once", ABOVE_ZERO;
        // The node's own.
        body_bytes: usize = 1_000_000; Size, None,
            "Largest body or WebSocket message", KIB..=GIB;
        header_bytes: usize = 32 * KIB; Size, None,
            "Largest head of a request", KIB..=MIB;
        headers: usize = 100; Count, None,
            "Header lines of a request", 1..;
        uri_bytes: usize = 16 * KIB; Size, None,
            "Longest request target", 64..=MIB;
        // The node's own.
        batch: usize = 10; Count, None,
            "Calls in a batch", 1..;
        depth: usize = 64; Count, None,
            "Depth of JSON", 1..=1_000;
        header_timeout: Duration = Duration::from_secs(10); Span, None,
            "From the first byte of a head to its last", TIMEOUT;
        body_timeout: Duration = Duration::from_secs(10); Span, None,
            "From the end of the head to the last byte of the body", TIMEOUT;
        idle_timeout: Duration = Duration::from_secs(60); Span, None,
            "How long a connection may be idle between requests", TIMEOUT;
        write_timeout: Duration = Duration::from_secs(10); Span, None,
            "Within this a client has to take 64 KiB of its answer, or all of it", TIMEOUT;
    }

    /// `[reads]` The read lane.
    reads: Reads {
        rate_per_client: Rate = per_second(200); Text<Rate>, None,
            "Reads a second of one client", ABOVE_ZERO;
        burst_per_client: Duration = Duration::from_secs(1); Span, None,
            "How many reads may come at once, as time at that rate", TIMEOUT;
        concurrency_per_client: usize = 32; Count, None,
            "Reads of one client under way", 1..;
        concurrency: usize = 256; Count, None,
            "Reads under way in all", 1..;
        allow_methods: Vec<String> = Vec::new(); List<String>, None,
            "Methods that may be called, none for every method that is not refused; a trailing * stands for any rest";
        refuse_methods: Vec<String> = refused(); List<String>, None,
            "Methods that are refused, writes among them; a trailing * stands for any rest";
        window_bytes: usize = 256 * KIB; Size, None,
            "Bytes of an answer held while a slow client takes them", 4 * KIB..=GIB;
    }

    /// `[fair]` How write capacity is shared.
    fair: Fair {
        max_req: Rate = per_second(2_000); Text<Rate>, flag("max-req", "RATE"),
            "Most writes a second to all nodes together: the ceiling of --pace adaptive, the rate of --pace fixed, without effect in --pace off", ABOVE_ZERO;
        queue_per_client: usize = 1_024; Count, flag("queue-per-client", "N"),
            "Writes of one client that may wait", 1..=1 << 20;
        clients_max: usize = 100_000; Count, None,
            "Clients with a state of their own; while so many have writes waiting, those of others are refused", 16..=10_000_000;
        queue_timeout: Duration = Duration::from_secs(30); Span, flag("queue-timeout", "DURATION"),
            "How long a write may wait here before it is answered with an error", TIMEOUT;
        order: WriteOrder = WriteOrder::Connection; Choice<WriteOrder>, None,
            "Which writes stay in order: those of a connection, all of a client, or also those of a Cosmos SDK's account";
        weights: Vec<(Network, u32)> = Vec::new(); Weights, None,
            "Weights of networks; everybody else has 1";
        async_ack: AsyncAck = AsyncAck::Buffered; Choice<AsyncAck>, flag("async-ack", "WHEN"),
            "When broadcast_tx_async is answered: once it waits here, or once the node has answered";
        // The node's own.
        commit_timeout: Duration = Duration::from_secs(10); Span, None,
            "How long broadcast_tx_commit waits for its block after the check", TIMEOUT;
        commit_waiters: usize = 20_000; Count, None,
            "broadcast_tx_commit calls that may wait for a block", 1..;
    }

    /// `[buffer]` How much may be buffered.
    buffer: Buffer {
        // Requests read, waiting and under way, answers and events not yet taken.
        bytes: usize = 256 * MIB; Size, flag("buffer-bytes", "SIZE"),
            "Bytes of everything that is buffered", 64 * KIB..=1_024 * GIB;
    }

    /// `[pace]` How fast the node is fed.
    pace: Pace {
        mode: PaceMode = PaceSettings::default().mode; Choice<PaceMode>, flag("pace", "MODE"),
            "What bounds the writes: what the node does, the rate --max-req, or nothing but pace.inflight";
        min_req: Rate = PaceSettings::default().min_req; Text<Rate>, flag("min-req", "RATE"),
            "The adaptive pace never falls below this", ABOVE_ZERO;
        inflight_per_connection: usize = 256; Count, None,
            "Writes under way on one connection to a node", 1..;
        inflight: usize = 512; Count, None,
            "Writes under way in all", 1..;
        burst: Duration = PaceSettings::default().burst; Span, None,
            "How many writes may leave at once, as time at the current rate; at most 20ms", BURST;
        mempool_size: Option<usize> = PaceSettings::default().mempool_size; Maybe<Count, Learn>, None,
            "Transactions the node's mempool holds; learn takes it from the node's error when it is full";
        mempool_fill: f64 = PaceSettings::default().mempool_fill; Share, None,
            "Share of the mempool that may be filled", 0.05..=1.0;
        mempool_interval: Duration = Duration::from_millis(500); Span, None,
            "How often the depth of the mempool is asked for", TIMEOUT;
    }

    /// `[pause]` When the node is given a break.
    pause: PauseSettings {
        mode; Choice<PauseMode>, flag("pause-mode", "MODE"),
            "What gives the node a break: nothing, the clock, fallen throughput, or either";
        action; Choice<PauseAction>, flag("pause-action", "ACTION"),
            "What a break does: nothing is sent, or the write connections are replaced as well";
        interval; Span, flag("pause-interval", "DURATION"),
            "Time between breaks of the clock; alone it means --pause-mode interval", MILLISECOND..=DAY;
        length as "pause.for"; Span, flag("pause-for", "DURATION"),
            "How long a break lasts", TIMEOUT;
        min_tx_rate; Maybe<Text<Rate>, Learn>, flag("min-tx-rate", "RATE"),
            "A break comes when fewer transactions a second are committed under demand; alone it means --pause-mode threshold. learn goes by pause.min_fraction";
        min_fraction; Share, None,
            "The same as a share of the rate the node was seen to sustain; alone it means --pause-mode threshold", 0.05..=0.85;
    }

    /// `[ws]` WebSockets of clients.
    ws: Ws {
        // This and the next are the node's own. The second does not run while the client is not read.
        ping_interval: Duration = Duration::from_secs(27); Span, None,
            "How often a WebSocket client is pinged", TIMEOUT;
        read_timeout: Duration = Duration::from_secs(30); Span, None,
            "How long a WebSocket client may be silent, pongs included", TIMEOUT;
        out_bytes: usize = MIB; Size, None,
            "Answers and events that wait for one slow WebSocket client", 16 * KIB..=GIB;
        // The node's own `rpc.max_subscriptions_per_client`.
        subscriptions: usize = 5; Count, None,
            "Subscriptions of one WebSocket client", 1..;
        // A node takes 100 by default, from everybody.
        subscribers: usize = 20; Count, None,
            "Connections to a node that subscribe for all clients, each to 5 distinct queries", 1..;
        // Empty as on the node.
        origins: Vec<String> = Vec::new(); List<String>, None,
            "Origins of web pages that may open a WebSocket, none for all";
    }

    /// `[admin]` The operator's side.
    admin: Admin {
        addr: Option<SocketAddr> = Some(loopback(26681)); Maybe<Address, Off>, flag("admin", "ADDR"),
            "Where the operator connects: metrics, health, clients; off for nowhere";
    }

    /// `[log]` What is written to stderr.
    log: Log {
        // One line per change of state, never one per request.
        level: Level = Level::INFO; Choice<Level>, flag("log", "LEVEL"),
            "Level of the log on stderr";
    }

    /// `[shutdown]` Shutdown.
    shutdown: Shutdown {
        drain: Duration = Duration::from_secs(10); Span, None,
            "How long queued writes may still be forwarded after SIGTERM", UP_TO_AN_HOUR;
    }
}
