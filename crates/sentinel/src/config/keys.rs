//! Every key that can be set: its type, default, flag, help and range, in one table. `docs/sentinel.md` gives the
//! reasons for the defaults. What no key sets are constants ([`Fixed`]); they are fields so that a test can vary them.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use control::{MinTxRate, PaceMode, PauseAction, PauseSettings};
use fairq::{Network, Weight};
use pacing::{Rate, Size};
use rpc::Endpoint;
use tracing::Level;

use super::value::{
    ABOVE_ZERO, AsyncAck, CertificateFiles, Threads, TrustedProxy, Value, WriteOrder, within,
};
use crate::keys::KnownKeys;

/// One key of the configuration.
pub struct Key {
    /// Its full name, `section.key`.
    pub name: &'static str,
    /// What it does, for the help.
    pub help: &'static str,
    /// Its flag with what stands for its value in the help, if it has a flag of its own.
    pub flag: Option<(&'static str, &'static str)>,
    /// The words it takes, where these are few.
    pub words: &'static [&'static str],
    /// Whether it is a list: its flag may be given several times.
    pub is_list: bool,
    /// Whether a new value takes effect while the program runs. Any other one decides what is opened, allocated or
    /// promised at the start.
    pub is_live: bool,
    /// Sets the value from its text; the error names the fault and the correct form.
    pub(crate) set: fn(&mut Config, &str) -> Result<(), String>,
    /// The value as text, from which it reads back as the same; of a list, with commas.
    pub(crate) text: fn(&Config) -> String,
}

impl Key {
    /// The key of this name and its place in [`KEYS`].
    pub(super) fn find(name: &str) -> Option<(usize, &'static Self)> {
        KEYS.iter().enumerate().find(|(_, key)| key.name == name)
    }

    /// The parts before and behind the point.
    pub fn parts(&self) -> (&'static str, &'static str) {
        self.name.split_once('.').unwrap_or(("", self.name))
    }

    /// The variable that sets it: `SENTINEL_FAIR__MAX_REQ` for `fair.max_req`.
    pub fn variable(&self) -> String {
        let (section, leaf) = self.parts();
        format!("{VARIABLE_PREFIX}{section}__{leaf}").to_ascii_uppercase()
    }
}

/// What the names of all variables begin with.
pub(super) const VARIABLE_PREFIX: &str = "SENTINEL_";

/// The sections, in their order.
pub(super) fn sections() -> Vec<&'static str> {
    let mut sections: Vec<_> = KEYS.iter().map(|key| key.parts().0).collect();
    sections.dedup();
    sections
}

/// Defines the sections, [`Config`] and [`KEYS`]: for each key its field, name unless that is the field's, type, kind
/// of value unless that is the type, default, flag, `live` if a reload changes it, help, and range if it has one.
macro_rules! settings {
    (@name $section:ident $field:ident) => {
        concat!(stringify!($section), ".", stringify!($field))
    };
    (@name $section:ident $field:ident $name:literal) => { $name };
    (@kind $type:ty) => { $type };
    (@kind $type:ty, $kind:ty) => { $kind };
    (@live) => { false };
    (@live live) => { true };
    ($(
        $(#[$about:meta])*
        $section:ident: $name:ident {$(
            $field:ident $(as $key:literal)?: $type:ty $(as $kind:ty)? = $default:expr;
            $flag:expr, $($live:ident,)? $help:literal $(, $range:expr)?;
        )*}
    )*) => {
        $(
            $(#[$about])*
            #[derive(Clone, Debug, PartialEq)]
            pub struct $name { $(#[doc = $help] pub $field: $type,)* }

            impl Default for $name {
                fn default() -> Self {
                    Self { $($field: $default,)* }
                }
            }
        )*

        /// The whole configuration, every default filled in.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Config {
            $($(#[$about])* pub $section: $name,)*
            /// The clients that the file of keys names, once it is read.
            pub known: Arc<KnownKeys>,
            /// What no key sets.
            pub fixed: Fixed,
        }

        /// Every key, section by section.
        pub const KEYS: &[Key] = &[$($(Key {
            name: settings!(@name $section $field $($key)?),
            help: $help,
            flag: $flag,
            words: <settings!(@kind $type $(, $kind)?) as Value>::WORDS,
            is_list: <settings!(@kind $type $(, $kind)?) as Value>::IS_LIST,
            is_live: settings!(@live $($live)?),
            set: |config, text| {
                let value = <settings!(@kind $type $(, $kind)?)>::read(text)?;
                $(within(&value, $range)?;)?
                config.$section.$field = value.into();
                Ok(())
            },
            text: |config| <settings!(@kind $type $(, $kind)?)>::from(config.$section.$field.clone()).text(),
        },)*)*];
    };
}

const fn flag(name: &'static str, value: &'static str) -> Option<(&'static str, &'static str)> {
    Some((name, value))
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;
/// What must take some time and never takes more than an hour.
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_hours(1);

fn per_second(rate: u64) -> Rate {
    Rate::per_second(rate).expect("the defaults are below the highest rate")
}

fn local(address: &str) -> Endpoint {
    let node = address.parse();
    node.expect("the default address is an address")
}

/// What a node carries out only for its operator, in all versions, and what costs it a check as a write does and
/// would go past the write lane.
fn refused() -> Vec<String> {
    let names = "unsafe_* dial_seeds dial_peers check_tx broadcast_evidence";
    names.split(' ').map(str::to_owned).collect()
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

settings! {
    /// `[listen]` Where clients connect.
    listen: Listen {
        addr: SocketAddr = loopback(26680); flag("listen", "ADDR"),
            "Where clients connect";
        threads: Threads = Threads::AUTO; flag("threads", "N"),
            "Threads that serve clients; auto for the machine's cores less one";
        handover: Option<String> = None; None,
            "Unix socket over which a new process takes the listening sockets over from this one; off for none";
    }

    /// `[tls]` TLS of all listeners of clients.
    tls: Tls {
        certificates: Vec<CertificateFiles> = Vec::new(); None, live,
            "Certificates in PEM, each CHAIN=KEY or one file with both; a client gets the first that has its name, else the first of all. None for no TLS";
        client_ca: Option<String> = None; None, live,
            "File with the authorities whose certificates clients have to present, or may where keys.file is set; off for none";
    }

    /// `[upstream]` The nodes behind.
    upstream: Upstream {
        urls: Vec<Endpoint> = vec![local("http://127.0.0.1:26657")]; flag("upstream", "URL"),
            "The nodes; may be repeated. The writes of one client stay on one node while it is healthy";
        // A node under load answers nothing while it commits a block, up to 12 s were seen. Shorter than the
        // queue's deadline, so that writes which were under way have time to be offered again.
        timeout: Duration = Duration::from_secs(20); None,
            "How long a node may take to begin the answer to a read, or to answer a write before its connection is given up", TIMEOUT;
        any_version: bool = false; flag("any-version", "BOOL"),
            "Whether nodes of versions are used that were not tested; --any-version alone means true";
    }

    /// `[trust]` How a client is identified.
    trust: Trust {
        proxies: Vec<TrustedProxy> = Vec::new(); flag("trusted-proxy", "NETWORK"), live,
            "Networks whose X-Forwarded-For is believed, or \"NETWORK proxy-protocol\"";
        ipv6_prefix: u8 = 64; flag("ipv6-prefix", "BITS"), live,
            "Leading bits of an IPv6 address that make a client", 0..=128;
        allow: Vec<Network> = Vec::new(); flag("allow", "NETWORK"), live,
            "Networks that may connect, none for all; may be repeated";
        deny: Vec<Network> = Vec::new(); flag("deny", "NETWORK"), live,
            "Networks that may not, unless a longer prefix allows them; may be repeated";
    }

    /// `[keys]` Clients that are known by a key, whatever their network.
    keys: KeySettings {
        file: Option<String> = None; None, live,
            "TOML file of clients that are known by a key; off for none";
    }

    /// `[limits]` Bounds on what a client may send.
    limits: Limits {
        // This and the next are the node's own.
        body_bytes: usize as Size = 1_000_000; None, live,
            "Largest body or WebSocket message", Size(KIB)..=Size(GIB);
        batch: usize = 10; None, live,
            "Calls in a batch", 1..;
        shadow: bool = false; flag("shadow", "BOOL"), live,
            "Decide and count what would be refused, and refuse nothing: writes go to the node at once; --shadow alone means true";
    }

    /// `[reads]` The read lane.
    reads: Reads {
        rate_per_client: Rate = per_second(200); None, live,
            "Reads a second of one client, as many of which may come at once", ABOVE_ZERO;
        concurrency: usize = 256; None,
            "Reads under way in all", 1..;
        allow_methods: Vec<String> = Vec::new(); None, live,
            "Methods that may be called, none for every method that is not refused; a trailing * stands for any rest";
        refuse_methods: Vec<String> = refused(); None, live,
            "Methods that are refused, writes among them; a trailing * stands for any rest";
    }

    /// `[fair]` How write capacity is shared.
    fair: Fair {
        max_req: Rate = per_second(2_000); flag("max-req", "RATE"), live,
            "Most writes a second to all nodes together: the ceiling of --pace adaptive, the rate of --pace fixed, without effect in --pace off", ABOVE_ZERO;
        queue_per_client: usize = 1_024; flag("queue-per-client", "N"), live,
            "Writes of one client that may wait", 1..=1 << 20;
        queue_timeout: Duration = Duration::from_secs(30); flag("queue-timeout", "DURATION"), live,
            "How long a write may wait here before it is answered with an error", TIMEOUT;
        order: WriteOrder = WriteOrder::Connection; None,
            "Which writes of a client stay in order: those of a connection, or also those of a Cosmos SDK's account";
        weights: Vec<(Network, Weight)> = Vec::new(); None, live,
            "Weights of networks, 1 to 1000 each; all others have 1";
        async_ack: AsyncAck = AsyncAck::Buffered; flag("async-ack", "WHEN"), live,
            "When broadcast_tx_async is answered: once it waits here, or once the node has answered";
    }

    /// `[buffer]` How much may be buffered.
    buffer: Buffer {
        // Requests read, waiting and under way, answers and events not yet taken.
        bytes: usize as Size = 256 * MIB; flag("buffer-bytes", "SIZE"),
            "Bytes of everything that is buffered", Size(64 * KIB)..=Size(1_024 * GIB);
    }

    /// `[pace]` How fast the node is fed.
    pace: Pace {
        mode: PaceMode = PaceMode::default(); flag("pace", "MODE"),
            "What bounds the writes: what the node does, the rate --max-req, or nothing but how many may be under way";
    }

    /// `[pause]` When the node is given a break.
    pause: Pause {
        interval: Option<Duration> = PauseSettings::default().interval; flag("pause-interval", "DURATION"), live,
            "Time from one break of the clock to the next; off for none", ..=Some(Duration::from_hours(24));
        min_tx_rate: MinTxRate = PauseSettings::default().min_tx_rate; flag("min-tx-rate", "RATE"), live,
            "A break comes when fewer transactions a second are committed under demand: a rate, a share of the rate the node was seen to sustain such as 60%, learn for 55%, or off";
        length as "pause.for": Duration = PauseSettings::default().length; flag("pause-for", "DURATION"), live,
            "How long a break lasts", TIMEOUT;
        action: PauseAction = PauseSettings::default().action; flag("pause-action", "ACTION"), live,
            "What a break does: nothing is sent, or the write connections are replaced as well";
    }

    /// `[cors]` Web pages of other origins.
    cors: Cors {
        // Empty as on the node.
        origins: Vec<String> = Vec::new(); None, live,
            "Origins whose pages may read answers written here and open a WebSocket, * for all; with none no page may read, any may open";
    }

    /// `[grpc]` The gRPC of a Cosmos SDK chain.
    grpc: Grpc {
        listen: Option<SocketAddr> = None; None,
            "Where clients of gRPC connect; off for nowhere";
        node: Vec<Endpoint> = vec![local("http://127.0.0.1:9090")]; None,
            "The gRPC listeners of the nodes, in the order of upstream.urls: of all, or of the first ones";
    }

    /// `[rest]` The REST API of a Cosmos SDK chain.
    rest: Rest {
        listen: Option<SocketAddr> = None; None,
            "Where clients of REST connect; off for nowhere";
        node: Vec<Endpoint> = vec![local("http://127.0.0.1:1317")]; None,
            "The REST listeners of the nodes, in the order of upstream.urls: of all, or of the first ones";
    }

    /// `[admin]` The operator's side.
    admin: Admin {
        addr: Option<SocketAddr> = Some(loopback(26681)); flag("admin", "ADDR"),
            "Where the operator connects: metrics, health, clients; off for nowhere";
    }

    /// `[cluster]` Several sentinels that share one limit (builds with the feature `cluster`).
    cluster: Cluster {
        nats: Option<String> = None; None,
            "NATS server over which sentinels share fair.max_req, such as nats://10.0.0.1:4222; off for none";
        key_file: Option<String> = None; None,
            "File with the secret that all sentinels of the cluster have, 16 bytes or more; the cluster and its clients are named on the bus by hashes under it";
    }

    /// `[log]` What is written down.
    log: Log {
        // One line per change of state, never one per request.
        level: Level = Level::INFO; flag("log", "LEVEL"), live,
            "Level of the log on stderr";
        access: Option<String> = None; None,
            "File to which a line of JSON is appended for each request; off for none";
        access_sample: usize = 1; None,
            "One request in so many has a line in log.access, and a span in log.traces", 1..;
        traces: Option<String> = None; None,
            "Collector that spans of requests are sent to by OTLP over HTTP, such as http://127.0.0.1:4318; off for none (builds with the feature `otlp`)";
    }

    /// `[shutdown]` Shutdown.
    shutdown: Shutdown {
        drain: Duration = Duration::from_secs(10); None, live,
            "How long queued writes may still be forwarded after SIGTERM", Duration::ZERO..=Duration::from_hours(1);
    }
}

base::settings! {
    /// Values that no key sets, each with its reason.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Fixed {
        /// Interval of the health checks of each node: the time of a block on a fast chain.
        pub health_interval: Duration = Duration::from_secs(1),
        /// How long a connect to a node may take: TCP repeats a lost first packet after 1 and 3 s (RFC 6298).
        pub connect_timeout: Duration = Duration::from_secs(5),
        /// Connections of clients for which there are files.
        pub most_connections: usize = usize::MAX,
        /// New connections a second of one client.
        pub connect_rate_per_client: Rate = Rate::per_second(500).expect("500/s is a rate"),
        /// How many may come at once, as time at that rate: browsers of hundreds of users behind one address.
        pub connect_burst: Duration = Duration::from_secs(2),
        /// Largest head of a request: four buffers of nginx's `large_client_header_buffers`.
        pub header_bytes: usize = 32 << 10,
        /// Header lines of a request: Apache's `LimitRequestFields`.
        pub headers: usize = 100,
        /// Longest request target, well above a broadcast by GET of a usual transaction.
        pub uri_bytes: usize = 16 << 10,
        /// How long a connection may be idle between requests: nginx's `keepalive_timeout`, so that a load balancer, with a
        /// minute as a rule, ends its own first.
        pub idle_timeout: Duration = Duration::from_secs(75),
        /// How long calls of gRPC go over a connection to a node on which nothing is answered: a quarter of
        /// `upstream.timeout`, so that those which wait for their turn are answered in time over another one.
        pub link_silence: Duration = Duration::from_secs(5),
        /// Depth of JSON: calls of the node's RPC need 4.
        pub depth: usize = 64,
        /// From the first byte of a head to its last: the node's `ReadHeaderTimeout` (`rpc/jsonrpc/server`).
        pub header_timeout: Duration = Duration::from_secs(10),
        /// From the end of the head to the last byte of the body: the node's `ReadTimeout`.
        pub body_timeout: Duration = Duration::from_secs(10),
        /// Within this a client has to take 64 KiB of its answer, or all of it: the node's `WriteTimeout`.
        pub write_timeout: Duration = Duration::from_secs(10),
        /// How many reads of a client may come at once, as time at its rate.
        pub read_burst: Duration = Duration::from_secs(1),
        /// Reads of one client under way: an eighth of `reads.concurrency`'s default.
        pub reads_per_client: usize = 32,
        /// Bytes of an answer held while a slow client takes them.
        pub window_bytes: usize = 256 << 10,
        /// Clients with a state of their own; while so many have writes waiting, those of others are refused.
        pub clients_max: usize = 100_000,
        /// Writes under way on one connection to a node.
        pub inflight_per_connection: usize = 256,
        /// How often the depth of the mempool is asked for: twice in the shortest usual block.
        pub mempool_interval: Duration = Duration::from_millis(500),
        /// `broadcast_tx_commit` calls that may wait for a block: as many as come within the next time at the default
        /// `max_req`.
        pub commit_waiters: usize = 20_000,
        /// How long `broadcast_tx_commit` waits for its block: the node's `timeout_broadcast_tx_commit`.
        pub commit_timeout: Duration = Duration::from_secs(10),
        /// Subscriptions of one WebSocket client: the node's `max_subscriptions_per_client`.
        pub subscriptions: usize = 5,
        /// Connections to a node that subscribe for all clients, each to 5 distinct queries: a node takes 100 from all its
        /// clients (`max_subscription_clients`).
        pub subscribers: usize = 20,
        /// How often a WebSocket client is pinged: the node's `defaultWSPingPeriod`.
        pub ping_interval: Duration = Duration::from_secs(27),
        /// How long a WebSocket client may be silent, pongs included, while it is read: the node's `defaultWSReadWait`.
        pub silence_limit: Duration = Duration::from_secs(30),
        /// Answers and events that wait for one slow WebSocket client.
        pub out_bytes: usize = 1 << 20,
    }
}
