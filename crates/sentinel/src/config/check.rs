//! Rules inside a value and between values. Each error names the value, its origin and a remedy.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};

use rpc::Endpoint;

use super::error::ConfigError;
use super::keys::{KEYS, find};
use super::resolve::{PAIRS, Resolved};
use super::value::plain_text;
use super::{Config, PaceMode, PauseMode};

/// What is wrong; what is odd goes to the notices.
pub(super) fn check(resolved: &mut Resolved) -> Vec<ConfigError> {
    let config = resolved.config.clone();
    let mut check = Check {
        resolved,
        errors: Vec::new(),
    };
    check.ranges(&config);
    check.orders(&config);
    check.addresses(&config);
    check.lists(&config);
    check.notices(&config);
    check.errors
}

struct Check<'a> {
    resolved: &'a mut Resolved,
    errors: Vec<ConfigError>,
}

impl Check<'_> {
    fn value(&mut self, key: &'static str, reason: impl Display) {
        let origin = self.resolved.origin_of(key);
        self.errors.push(ConfigError::value(key, origin, reason));
    }

    fn conflict(&mut self, text: String) {
        self.errors.push(ConfigError::conflict(text));
    }

    fn notice(&mut self, text: impl Into<String>) {
        self.resolved.notices.push(text.into());
    }

    /// A key with its value and where it comes from, for sentences.
    fn setting(&self, key: &'static str) -> String {
        let toml = find(key).map(|place| KEYS[place].value(&self.resolved.config));
        self.setting_of(key, plain_text(&toml.unwrap_or_default()))
    }

    /// The same with one value of a list.
    fn setting_of(&self, key: &str, value: impl Display) -> String {
        format!("{key} = {value} ({})", self.resolved.origin_of(key))
    }

    fn ranges(&mut self, c: &Config) {
        for key in KEYS {
            if let Err(reason) = (key.check)(c) {
                self.value(key.name, reason);
            }
        }
        if c.pace.mempool_size == Some(0) {
            self.value(
                "pace.mempool_size",
                "0 would let nothing through; use 1 or more",
            );
        }
    }

    /// The lower value must not be above the upper one.
    fn order(&mut self, lower: &'static str, upper: &'static str, is_above: bool) {
        if is_above {
            let (low, high) = (self.setting(lower), self.setting(upper));
            self.conflict(format!(
                "{low} is above {high}; lower {lower} or raise {upper}"
            ));
        }
    }

    fn orders(&mut self, c: &Config) {
        for pair in PAIRS {
            self.order(pair.lower, pair.upper, (pair.is_above)(c));
        }
        let (ws, pause) = (&c.ws, &c.pause);
        self.order(
            "ws.ping_interval",
            "ws.read_timeout",
            ws.ping_interval > ws.read_timeout,
        );
        if let Some(rate) = pause.min_tx_rate {
            if rate.is_zero() {
                let text = "throughput never falls below 0/s; use learn or a rate";
                self.value("pause.min_tx_rate", text);
            }
            self.order("pause.min_tx_rate", "fair.max_req", rate > c.fair.max_req);
        }
    }

    fn lists(&mut self, c: &Config) {
        let methods = [
            ("reads.allow_methods", &c.reads.allow_methods),
            ("reads.refuse_methods", &c.reads.refuse_methods),
        ];
        for (key, patterns) in methods {
            for pattern in patterns {
                let name = pattern.strip_suffix('*').unwrap_or(pattern);
                if name.contains('*') || pattern.is_empty() {
                    self.value(
                        key,
                        format!("{pattern:?} is no method; a * may stand at the end only"),
                    );
                }
            }
        }
        let networks = [
            ("trust.proxies", c.trust.proxies.len()),
            ("trust.allow", c.trust.allow.len()),
            ("trust.deny", c.trust.deny.len()),
            ("fair.weights", c.fair.weights.len()),
        ];
        for (key, count) in networks {
            if count > MAX_NETWORKS {
                self.value(key, format!("more than {MAX_NETWORKS} networks"));
            }
        }
        for (index, (network, weight)) in c.fair.weights.iter().enumerate() {
            if !(1..=MAX_WEIGHT).contains(weight) {
                self.value(
                    "fair.weights",
                    format!("{network} has weight {weight}; use 1 to {MAX_WEIGHT}"),
                );
            }
            if c.fair.weights[..index]
                .iter()
                .any(|(other, _)| other == network)
            {
                self.value(
                    "fair.weights",
                    format!("{network} is given twice; keep one"),
                );
            }
        }
        for network in c
            .trust
            .allow
            .iter()
            .filter(|network| c.trust.deny.contains(network))
        {
            let allowed = self.setting_of("trust.allow", network);
            let denied = self.setting_of("trust.deny", network);
            self.conflict(format!(
                "{allowed} conflicts with {denied}; keep one of the two"
            ));
        }
    }

    fn addresses(&mut self, c: &Config) {
        if c.upstream.urls.is_empty() {
            self.value(
                "upstream.urls",
                "name at least one node, for instance http://127.0.0.1:26657",
            );
        }
        if c.upstream.urls.len() > MAX_NODES {
            self.value("upstream.urls", format!("more than {MAX_NODES} nodes"));
        }
        for (index, url) in c.upstream.urls.iter().enumerate() {
            if c.upstream.urls[..index]
                .iter()
                .any(|other| other.same_node(url))
            {
                self.value("upstream.urls", format!("{url} is named twice; keep one"));
            }
            if leads_to(url, c.listen.addr) {
                let listener = self.setting("listen.addr");
                self.value(
                    "upstream.urls",
                    format!(
                        "{url} is this proxy itself, {listener}; name the node, or listen elsewhere"
                    ),
                );
            }
        }
        if c.admin
            .addr
            .is_some_and(|admin| clash(admin, c.listen.addr))
        {
            let (admin, listener) = (self.setting("admin.addr"), self.setting("listen.addr"));
            self.conflict(format!(
                "{admin} clashes with {listener}; use another port, or admin.addr = \"off\""
            ));
        }
    }

    /// What is legal but probably not meant.
    fn notices(&mut self, c: &Config) {
        if c.admin.addr.is_some_and(|admin| !admin.ip().is_loopback()) {
            self.notice(format!(
                "{} can be reached from outside: it has no authentication and names clients",
                self.setting("admin.addr")
            ));
        }
        for proxy in c
            .trust
            .proxies
            .iter()
            .filter(|network| network.prefix() == 0)
        {
            self.notice(format!(
                "{} believes X-Forwarded-For of everybody: any client can choose its own address",
                self.setting_of("trust.proxies", proxy)
            ));
        }
        if c.pace.mode != PaceMode::Adaptive && self.resolved.origin_of("pace.min_req").is_given() {
            self.notice("pace.min_req has no effect unless pace.mode is adaptive");
        }
        if c.pause.mode == PauseMode::Off && self.resolved.origin_of("pause.action").layer() > 1 {
            self.notice("pause.action has no effect while pause.mode is off; add --pause-interval or --min-tx-rate");
        }
        if c.pause.mode != PauseMode::Off && c.pause.length > c.fair.queue_timeout {
            self.notice(format!(
                "{} is longer than {}: clients will see errors in a break",
                self.setting("pause.for"),
                self.setting("fair.queue_timeout"),
            ));
        }
    }
}

/// Allow and deny share one table of 65,536; looking for doubles takes the square of this.
const MAX_NETWORKS: usize = 10_000;
const MAX_WEIGHT: u32 = 1_000;
const MAX_NODES: usize = 64;

/// Whether two listeners cannot both be opened.
fn clash(one: SocketAddr, other: SocketAddr) -> bool {
    let overlap = one.ip() == other.ip() || covers(one, other) || covers(other, one);
    one.port() != 0 && one.port() == other.port() && overlap
}

/// Whether a listener on all addresses takes the other's too; one on `[::]` takes IPv4's as well.
fn covers(wide: SocketAddr, narrow: SocketAddr) -> bool {
    wide.ip().is_unspecified() && (wide.is_ipv6() || narrow.is_ipv4())
}

/// Whether a node's address is that of our own listener. Names other than localhost are not looked
/// up: a configuration must mean the same everywhere.
fn leads_to(url: &Endpoint, listener: SocketAddr) -> bool {
    let host = url.host();
    let local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let same = host.parse() == Ok(listener.ip());
    let through =
        listener.ip().is_unspecified() || listener.ip().is_loopback() && host == "localhost";
    url.port() == listener.port() && (same || local && through)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_clash_on_a_port_of_the_same_or_every_address() {
        let clashes = |one: &str, other: &str| clash(one.parse().unwrap(), other.parse().unwrap());
        assert!(clashes("127.0.0.1:1", "127.0.0.1:1"));
        assert!(clashes("0.0.0.0:1", "127.0.0.1:1"));
        assert!(clashes("127.0.0.1:1", "0.0.0.0:1"));
        assert!(clashes("[::]:1", "127.0.0.1:1"));
        assert!(clashes("127.0.0.1:1", "[::]:1"));
        assert!(!clashes("127.0.0.1:0", "127.0.0.1:0"));
        assert!(!clashes("127.0.0.1:1", "127.0.0.1:2"));
        assert!(!clashes("127.0.0.1:1", "127.0.0.2:1"));
        assert!(!clashes("0.0.0.0:1", "[::1]:1"));
    }

    #[test]
    fn a_node_is_not_this_proxy() {
        let leads =
            |url: &str, listener: &str| leads_to(&url.parse().unwrap(), listener.parse().unwrap());
        assert!(leads("http://127.0.0.1:1", "127.0.0.1:1"));
        assert!(leads("http://localhost:1", "127.0.0.1:1"));
        assert!(leads("http://127.0.0.1:1", "0.0.0.0:1"));
        assert!(!leads("http://127.0.0.1:1", "10.0.0.1:1"));
        assert!(!leads("http://node.example:1", "0.0.0.0:1"));
        assert!(!leads("http://127.0.0.1:2", "127.0.0.1:1"));
    }
}
