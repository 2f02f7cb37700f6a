//! Every key that can be set: its name, what it means, its flag, its range, and where it goes.

use std::ops::RangeInclusive;
use std::time::Duration;

use fairq::{KeyScheme, Network, Order};
use pacing::Rate;
use rpc::Endpoint;

use super::value::{
    ABOVE_ZERO, Address, Choice, Count, Given, Kind, Learn, List, Maybe, Off, Share, Size, Span,
    Text, Weights, check, prefix,
};
use super::{AsyncAck, Config, KIB, LogLevel, MIB, PaceMode, PauseAction, PauseMode};

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

/// One half of the key scheme: the bits of an address that make a client.
macro_rules! prefix_key {
    ($name:literal, $family:ident, $v4:expr, $v6:expr, $flag:expr, $help:literal) => {
        Key {
            name: $name,
            help: $help,
            flag: $flag,
            words: &[],
            is_list: false,
            set: |config, given| {
                let (scheme, bits) = (config.trust.scheme, prefix(given)?);
                config.trust.scheme = KeyScheme::new($v4(scheme, bits), $v6(scheme, bits))
                    .map_err(|error| error.to_string())?;
                Ok(())
            },
            show: |config| config.trust.scheme.$family().to_string(),
            check: |_| Ok(()),
        }
    };
}

const fn flag(name: &'static str, value: &'static str) -> Option<Flag> {
    Some(Flag { name, value })
}

const GIB: usize = 1 << 30;
const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
/// What must take some time and never takes more than an hour.
const TIMEOUT: RangeInclusive<Duration> = MILLISECOND..=HOUR;
const UP_TO_AN_HOUR: RangeInclusive<Duration> = Duration::ZERO..=HOUR;
/// A longer burst would be a flood for the node.
const BURST: RangeInclusive<Duration> = MILLISECOND..=Duration::from_millis(20);

/// Every key, section by section.
#[rustfmt::skip] // One key, one row: this is a table.
pub const KEYS: &[Key] = &[
    key!(listen.addr, Address, flag("listen", "ADDR"),
        "Where clients connect"),
    key!(listen.threads, Count, flag("threads", "N"),
        "Threads that serve clients; one forwards more than a node can take", 1..=64),

    key!(upstream.urls, List<Endpoint>, flag("upstream", "URL"),
        "The nodes; may be repeated. The writes of one client stay on one node while it is healthy"),
    key!(upstream.connections, Count, None,
        "Write connections to each node", 1..=64),
    key!(upstream.health_interval, Span, None,
        "Interval of the health checks of each node", TIMEOUT),
    key!(upstream.connect_timeout, Span, None,
        "How long a connect to a node may take", TIMEOUT),
    key!(upstream.read_timeout, Span, None,
        "How long a node may take to begin the answer to a read", TIMEOUT),
    key!(upstream.write_timeout, Span, None,
        "How long a write may stay without an answer before its connection is given up", TIMEOUT),
    key!(upstream.retain_bytes, Size, None,
        "Accepted transactions kept until they are committed, to be offered again after a restart of the node; 0 keeps none"),

    key!(trust.proxies, List<Network>, flag("trusted-proxy", "NETWORK"),
        "Networks whose X-Forwarded-For is believed; may be repeated"),
    prefix_key!("trust.ipv4_prefix", v4_prefix, |_, bits| bits, |scheme: KeyScheme, _| scheme.v6_prefix(), None,
        "Leading bits of an IPv4 address that make a client"),
    prefix_key!("trust.ipv6_prefix", v6_prefix, |scheme: KeyScheme, _| scheme.v4_prefix(), |_, bits| bits, flag("ipv6-prefix", "BITS"),
        "Leading bits of an IPv6 address that make a client"),
    key!(trust.allow, List<Network>, flag("allow", "NETWORK"),
        "Networks that may connect, none for all; may be repeated"),
    key!(trust.deny, List<Network>, flag("deny", "NETWORK"),
        "Networks that may not, unless a longer prefix allows them; may be repeated"),

    key!(limits.connections, Count, None,
        "Connections in all", 1..),
    key!(limits.connections_per_client, Count, None,
        "Connections of one client", 1..),
    key!(limits.body_bytes, Size, None,
        "Largest body or WebSocket message", KIB..=GIB),
    key!(limits.header_bytes, Size, None,
        "Largest head of a request", KIB..=MIB),
    key!(limits.headers, Count, None,
        "Header lines of a request", 1..),
    key!(limits.uri_bytes, Size, None,
        "Longest request target", 64..=MIB),
    key!(limits.batch, Count, None,
        "Calls in a batch", 1..),
    key!(limits.depth, Count, None,
        "Depth of JSON", 1..=1_000),
    key!(limits.header_timeout, Span, None,
        "From the first byte of a head to its last", TIMEOUT),
    key!(limits.body_timeout, Span, None,
        "From the end of the head to the last byte of the body", TIMEOUT),
    key!(limits.idle_timeout, Span, None,
        "How long a connection may be idle between requests", TIMEOUT),
    key!(limits.write_timeout, Span, None,
        "How long a client may take nothing of its answer", TIMEOUT),
    key!(limits.refusal_rest, Span, None,
        "Longest time for which an HTTP connection is not read after refusals in a row; 0s for never"),

    key!(reads.rate_per_client, Text<Rate>, None,
        "Reads a second of one client", ABOVE_ZERO),
    key!(reads.burst_per_client, Span, None,
        "How many reads may come at once, as time at that rate", TIMEOUT),
    key!(reads.concurrency_per_client, Count, None,
        "Reads of one client under way", 1..),
    key!(reads.concurrency, Count, None,
        "Reads under way in all", 1..),
    key!(reads.allow_methods, List<String>, None,
        "Methods that may be called, none for every method that is not refused; a trailing * stands for any rest"),
    key!(reads.refuse_methods, List<String>, None,
        "Methods that are refused; a trailing * stands for any rest"),
    key!(reads.window_bytes, Size, None,
        "Bytes of an answer held while a slow client takes them", 4 * KIB..=GIB),

    key!(fair.max_req, Text<Rate>, flag("max-req", "RATE"),
        "Most writes a second to all nodes together: the ceiling of --pace adaptive, the rate of --pace fixed", ABOVE_ZERO),
    key!(fair.queue_per_client, Count, flag("queue-per-client", "N"),
        "Writes of one client that may wait", 1..=1 << 20),
    key!(fair.clients_max, Count, None,
        "Clients with a state of their own; more share hashed ones", 16..=10_000_000),
    key!(fair.queue_timeout, Span, flag("queue-timeout", "DURATION"),
        "How long a write may wait here before it is answered with an error", TIMEOUT),
    key!(fair.order, Choice<Order>, None,
        "Whether the writes of a connection or all writes of a client stay in order"),
    key!(fair.weights, Weights, None,
        "Weights of networks; everybody else has 1"),
    key!(fair.async_ack, Choice<AsyncAck>, flag("async-ack", "WHEN"),
        "When broadcast_tx_async is answered: once it waits here, or once the node has answered"),
    key!(fair.commit_timeout, Span, None,
        "How long broadcast_tx_commit waits for its block after the check", TIMEOUT),
    key!(fair.commit_waiters, Count, None,
        "broadcast_tx_commit calls that may wait for a block", 1..),

    key!(buffer.bytes, Size, flag("buffer-bytes", "SIZE"),
        "Bytes of everything that is buffered", 64 * KIB..=1_024 * GIB),

    key!(pace.mode, Choice<PaceMode>, flag("pace", "MODE"),
        "Whether the rate follows the node, or is --max-req always"),
    key!(pace.min_req, Text<Rate>, flag("min-req", "RATE"),
        "The adaptive rate never falls below this", ABOVE_ZERO),
    key!(pace.inflight_per_connection, Count, None,
        "Writes under way on one connection to a node", 1..),
    key!(pace.inflight, Count, None,
        "Writes under way in all", 1..),
    key!(pace.burst, Span, None,
        "How many writes may leave at once, as time at the current rate; at most 20ms", BURST),
    key!(pace.mempool_size, Maybe<Count, Learn>, None,
        "Transactions the node's mempool holds; learn takes it from the node's error when it is full"),
    key!(pace.mempool_fill, Share, None,
        "Share of the mempool that may be filled", 0.05..=1.0),
    key!(pace.mempool_interval, Span, None,
        "How often the depth of the mempool is asked for", TIMEOUT),

    key!(pause.mode, Choice<PauseMode>, flag("pause-mode", "MODE"),
        "What gives the node a break: nothing, the clock, fallen throughput, or either"),
    key!(pause.action, Choice<PauseAction>, flag("pause-action", "ACTION"),
        "What a break does: nothing is sent, or the write connections are replaced as well"),
    key!(pause.interval, Span, flag("pause-interval", "DURATION"),
        "Time between breaks of the clock; alone it means --pause-mode interval", MILLISECOND..=DAY),
    key!(pause.length as "pause.for", Span, flag("pause-for", "DURATION"),
        "How long a break lasts", TIMEOUT),
    key!(pause.min_tx_rate, Maybe<Text<Rate>, Learn>, flag("min-tx-rate", "RATE"),
        "A break comes when fewer transactions a second are committed under demand; alone it means --pause-mode threshold. learn goes by pause.min_fraction"),
    key!(pause.min_fraction, Share, None,
        "The same as a share of the rate the node was seen to sustain; alone it means --pause-mode threshold", 0.05..=0.85),
    key!(pause.min_run, Span, None,
        "Shortest time between two breaks", Duration::ZERO..=DAY),
    key!(pause.max_pause, Span, None,
        "Longest break, draining included", TIMEOUT),
    key!(pause.drain, Span, None,
        "How long answers are awaited before a break", UP_TO_AN_HOUR),
    key!(pause.ramp, Span, None,
        "From a quarter of the rate to all of it after a break", UP_TO_AN_HOUR),
    key!(pause.jitter, Share, None,
        "Random part of the interval", 0.0..=0.5),

    key!(ws.ping_interval, Span, None,
        "How often a WebSocket client is pinged", TIMEOUT),
    key!(ws.read_timeout, Span, None,
        "How long a WebSocket client may be silent, pongs included", TIMEOUT),
    key!(ws.pings_per_second, Count<u32>, None,
        "Pings a second of a WebSocket client that are answered"),
    key!(ws.out_bytes, Size, None,
        "Answers and events that wait for one slow WebSocket client", 16 * KIB..=GIB),
    key!(ws.origins, List<String>, None,
        "Origins of web pages that may open a WebSocket, none for all"),

    key!(admin.addr, Maybe<Address, Off>, flag("admin", "ADDR"),
        "Where the operator connects: metrics, health, clients; off for nowhere"),

    key!(log.level, Choice<LogLevel>, flag("log", "LEVEL"),
        "Level of the log on stderr"),

    key!(shutdown.drain, Span, None,
        "How long queued writes may still be forwarded after SIGTERM", UP_TO_AN_HOUR),
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
            for word in key.words {
                let mut config = Config::default();
                (key.set)(&mut config, &Given::Text((*word).to_owned())).unwrap();
                assert_eq!(key.value(&config), format!("\"{word}\""), "{}", key.name);
            }
        }
    }
}
