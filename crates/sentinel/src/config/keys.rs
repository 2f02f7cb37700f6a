//! Every key that can be set: its name, what it means, its flag, and where it goes.

use fairq::{Network, Order};
use rpc::Endpoint;

use super::value::{
    Address, Choice, Count, Given, Kind, Learn, List, Maybe, Off, PerSecond, Share, Size,
    SmallCount, Span, Weights, with_v4_prefix, with_v6_prefix,
};
use super::{AsyncAck, Config, LogLevel, PaceMode, PauseAction, PauseMode};

/// One key of the configuration.
pub struct Key {
    /// Its full name, `section.key`.
    pub name: &'static str,
    /// What it does, for the help.
    pub help: &'static str,
    /// Its flag, if it has one of its own.
    pub flag: Option<Flag>,
    /// Changes the configuration.
    pub(super) set: fn(&mut Config, &Given) -> Result<(), String>,
    /// Writes the value in TOML.
    pub(super) show: fn(&Config) -> String,
}

/// A flag that sets a key.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its name without the dashes.
    pub name: &'static str,
    /// What stands for its value in the help.
    pub value: &'static str,
    /// The words it takes, where these are few.
    pub words: &'static [&'static str],
    /// Whether it may be given several times, each time adding to a list.
    pub repeats: bool,
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

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
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

/// A key whose value stands in one field.
macro_rules! key {
    ($name:literal, $section:ident . $field:ident, $kind:ty, $flag:expr, $help:literal) => {
        Key {
            name: $name,
            help: $help,
            flag: $flag,
            set: |config, given| {
                config.$section.$field = <$kind as Kind>::read(given)?;
                Ok(())
            },
            show: |config| <$kind as Kind>::toml(&config.$section.$field),
        }
    };
}

const fn flag(name: &'static str, value: &'static str) -> Option<Flag> {
    Some(Flag {
        name,
        value,
        words: &[],
        repeats: false,
    })
}

/// The flag of a list.
const fn flags(name: &'static str, value: &'static str) -> Option<Flag> {
    Some(Flag {
        name,
        value,
        words: &[],
        repeats: true,
    })
}

const fn choice(
    name: &'static str,
    value: &'static str,
    words: &'static [&'static str],
) -> Option<Flag> {
    Some(Flag {
        name,
        value,
        words,
        repeats: false,
    })
}

/// Every key, section by section.
#[rustfmt::skip] // One key, one row: this is a table.
pub const KEYS: &[Key] = &[
    key!("listen.addr", listen.addr, Address, flag("listen", "ADDR"),
        "Where clients connect"),
    key!("listen.threads", listen.threads, Count, flag("threads", "N"),
        "Threads that serve clients; one forwards more than a node can take"),

    key!("upstream.urls", upstream.urls, List<Endpoint>, flags("upstream", "URL"),
        "The nodes; may be repeated. The writes of one client stay on one node while it is healthy"),
    key!("upstream.connections", upstream.connections, Count, None,
        "Write connections to each node"),
    key!("upstream.health_interval", upstream.health_interval, Span, None,
        "How often each node is asked how it is"),
    key!("upstream.connect_timeout", upstream.connect_timeout, Span, None,
        "How long a connect to a node may take"),
    key!("upstream.read_timeout", upstream.read_timeout, Span, None,
        "How long a node may take to begin the answer to a read"),
    key!("upstream.write_timeout", upstream.write_timeout, Span, None,
        "How long a write may stay without an answer before its connection is given up"),
    key!("upstream.retain_bytes", upstream.retain_bytes, Size, None,
        "Accepted transactions kept until they are committed, to be offered again after a restart of the node; 0 keeps none"),

    key!("trust.proxies", trust.proxies, List<Network>, flags("trusted-proxy", "NETWORK"),
        "Networks whose X-Forwarded-For is believed; may be repeated"),
    Key {
        name: "trust.ipv4_prefix",
        help: "Leading bits of an IPv4 address that make a client",
        flag: None,
        set: |config, given| { config.trust.scheme = with_v4_prefix(config.trust.scheme, given)?; Ok(()) },
        show: |config| config.trust.scheme.v4_prefix().to_string(),
    },
    Key {
        name: "trust.ipv6_prefix",
        help: "Leading bits of an IPv6 address that make a client",
        flag: flag("ipv6-prefix", "BITS"),
        set: |config, given| { config.trust.scheme = with_v6_prefix(config.trust.scheme, given)?; Ok(()) },
        show: |config| config.trust.scheme.v6_prefix().to_string(),
    },
    key!("trust.allow", trust.allow, List<Network>, flags("allow", "NETWORK"),
        "Networks that may connect, none for all; may be repeated"),
    key!("trust.deny", trust.deny, List<Network>, flags("deny", "NETWORK"),
        "Networks that may not, unless a longer prefix allows them; may be repeated"),

    key!("limits.connections", limits.connections, Count, None,
        "Connections in all"),
    key!("limits.connections_per_client", limits.connections_per_client, Count, None,
        "Connections of one client"),
    key!("limits.body_bytes", limits.body_bytes, Size, None,
        "Largest body or WebSocket message"),
    key!("limits.header_bytes", limits.header_bytes, Size, None,
        "Largest head of a request"),
    key!("limits.headers", limits.headers, Count, None,
        "Header lines of a request"),
    key!("limits.uri_bytes", limits.uri_bytes, Size, None,
        "Longest request target"),
    key!("limits.batch", limits.batch, Count, None,
        "Calls in a batch"),
    key!("limits.depth", limits.depth, Count, None,
        "Depth of JSON"),
    key!("limits.header_timeout", limits.header_timeout, Span, None,
        "From the first byte of a head to its last"),
    key!("limits.body_timeout", limits.body_timeout, Span, None,
        "From the end of the head to the last byte of the body"),
    key!("limits.idle_timeout", limits.idle_timeout, Span, None,
        "How long a connection may be idle between requests"),
    key!("limits.write_timeout", limits.write_timeout, Span, None,
        "How long a client may take nothing of its answer"),
    key!("limits.refusal_rest", limits.refusal_rest, Span, None,
        "How long an HTTP connection is not read from, at most, that goes on asking although it is refused; 0s for never"),

    key!("reads.rate_per_client", reads.rate_per_client, PerSecond, None,
        "Reads a second of one client"),
    key!("reads.burst_per_client", reads.burst_per_client, Span, None,
        "How many reads may come at once, as time at that rate"),
    key!("reads.concurrency_per_client", reads.concurrency_per_client, Count, None,
        "Reads of one client under way"),
    key!("reads.concurrency", reads.concurrency, Count, None,
        "Reads under way in all"),
    key!("reads.allow_methods", reads.allow_methods, List<String>, None,
        "Methods that may be called, none for every method that is not refused; a trailing * stands for any rest"),
    key!("reads.refuse_methods", reads.refuse_methods, List<String>, None,
        "Methods that are refused; a trailing * stands for any rest"),
    key!("reads.window_bytes", reads.window_bytes, Size, None,
        "Bytes of an answer held while a slow client takes them"),

    key!("fair.max_req", fair.max_req, PerSecond, flag("max-req", "RATE"),
        "Most writes a second to all nodes together: the ceiling of --pace adaptive, the rate of --pace fixed"),
    key!("fair.queue_per_client", fair.queue_per_client, Count, flag("queue-per-client", "N"),
        "Writes of one client that may wait"),
    key!("fair.clients_max", fair.clients_max, Count, None,
        "Clients with a state of their own; more share hashed ones"),
    key!("fair.queue_timeout", fair.queue_timeout, Span, flag("queue-timeout", "DURATION"),
        "How long a write may wait here before it is answered with an error"),
    key!("fair.order", fair.order, Choice<Order>, None,
        "Whether the writes of a connection or all writes of a client stay in order"),
    key!("fair.weights", fair.weights, Weights, None,
        "Weights of networks; everybody else has 1"),
    key!("fair.async_ack", fair.async_ack, Choice<AsyncAck>, choice("async-ack", "WHEN", &["buffered", "forwarded"]),
        "When broadcast_tx_async is answered: once it waits here, or once the node has answered"),
    key!("fair.commit_timeout", fair.commit_timeout, Span, None,
        "How long broadcast_tx_commit waits for its block after the check"),
    key!("fair.commit_waiters", fair.commit_waiters, Count, None,
        "broadcast_tx_commit calls that may wait for a block"),

    key!("buffer.bytes", buffer.bytes, Size, flag("buffer-bytes", "SIZE"),
        "Bytes of everything that is buffered"),

    key!("pace.mode", pace.mode, Choice<PaceMode>, choice("pace", "MODE", &["adaptive", "fixed"]),
        "Whether the rate follows the node, or is --max-req always"),
    key!("pace.min_req", pace.min_req, PerSecond, flag("min-req", "RATE"),
        "The adaptive rate never falls below this"),
    key!("pace.inflight_per_connection", pace.inflight_per_connection, Count, None,
        "Writes under way on one connection to a node"),
    key!("pace.inflight", pace.inflight, Count, None,
        "Writes under way in all"),
    key!("pace.burst", pace.burst, Span, None,
        "How many writes may leave at once, as time at the current rate; at most 20ms"),
    key!("pace.mempool_size", pace.mempool_size, Maybe<Count, Learn>, None,
        "Transactions the node's mempool holds; learn takes it from what the node says when it is full"),
    key!("pace.mempool_fill", pace.mempool_fill, Share, None,
        "Share of the mempool that may be filled"),
    key!("pace.mempool_interval", pace.mempool_interval, Span, None,
        "How often the depth of the mempool is asked for"),

    key!("pause.mode", pause.mode, Choice<PauseMode>, choice("pause-mode", "MODE", &["off", "interval", "threshold", "both"]),
        "What gives the node a break: nothing, the clock, fallen throughput, or either"),
    key!("pause.action", pause.action, Choice<PauseAction>, choice("pause-action", "ACTION", &["pause", "reconnect"]),
        "What a break does: nothing is sent, or the write connections are replaced as well"),
    key!("pause.interval", pause.interval, Span, flag("pause-interval", "DURATION"),
        "Time between breaks of the clock; alone it means --pause-mode interval"),
    key!("pause.for", pause.length, Span, flag("pause-for", "DURATION"),
        "How long a break lasts"),
    key!("pause.min_tx_rate", pause.min_tx_rate, Maybe<PerSecond, Learn>, flag("min-tx-rate", "RATE"),
        "A break comes when fewer transactions a second are committed under demand; alone it means --pause-mode threshold. learn goes by pause.min_fraction"),
    key!("pause.min_fraction", pause.min_fraction, Share, None,
        "The same as a share of the rate the node was seen to sustain; alone it means --pause-mode threshold"),
    key!("pause.min_run", pause.min_run, Span, None,
        "Shortest time between two breaks"),
    key!("pause.max_pause", pause.max_pause, Span, None,
        "Longest break, draining included"),
    key!("pause.drain", pause.drain, Span, None,
        "How long answers are awaited before a break"),
    key!("pause.ramp", pause.ramp, Span, None,
        "From a quarter of the rate to all of it after a break"),
    key!("pause.jitter", pause.jitter, Share, None,
        "Random part of the interval"),

    key!("ws.ping_interval", ws.ping_interval, Span, None,
        "How often a WebSocket client is pinged"),
    key!("ws.read_timeout", ws.read_timeout, Span, None,
        "How long a WebSocket client may be silent, pongs included"),
    key!("ws.pings_per_second", ws.pings_per_second, SmallCount, None,
        "Pings a second of a WebSocket client that are answered"),
    key!("ws.out_bytes", ws.out_bytes, Size, None,
        "Answers and events that wait for one slow WebSocket client"),
    key!("ws.origins", ws.origins, List<String>, None,
        "Origins of web pages that may open a WebSocket, none for all"),

    key!("admin.addr", admin.addr, Maybe<Address, Off>, flag("admin", "ADDR"),
        "Where the operator connects: metrics, health, clients; off for nowhere"),

    key!("log.level", log.level, Choice<LogLevel>, choice("log", "LEVEL", &["error", "warn", "info", "debug", "trace"]),
        "What is worth a line on stderr"),

    key!("shutdown.drain", shutdown.drain, Span, None,
        "How long queued writes may still be forwarded after SIGTERM"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_flags_and_variables_are_unique_and_sections_together() {
        let mut names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KEYS.len());
        let mut flags: Vec<&str> = KEYS.iter().filter_map(|key| Some(key.flag?.name)).collect();
        let count = flags.len();
        flags.sort_unstable();
        flags.dedup();
        assert_eq!(flags.len(), count);
        let mut together: Vec<&str> = sections().collect();
        let count = together.len();
        together.sort_unstable();
        together.dedup();
        assert_eq!(together.len(), count, "a section is torn apart");
    }

    #[test]
    fn a_key_knows_its_parts() {
        let key = &KEYS[find("fair.max_req").unwrap()];
        assert_eq!((key.section(), key.leaf()), ("fair", "max_req"));
        assert_eq!(key.variable(), "SENTINEL_FAIR__MAX_REQ");
        assert_eq!(key.value(&Config::default()), "\"2000/s\"");
    }

    #[test]
    fn the_words_of_a_flag_are_those_of_its_value() {
        for key in KEYS {
            for word in key.flag.map_or(&[][..], |flag| flag.words) {
                let mut config = Config::default();
                (key.set)(&mut config, &Given::Text((*word).to_owned())).unwrap();
                assert_eq!(key.value(&config), format!("\"{word}\""), "{}", key.name);
            }
        }
    }
}
