//! What values mean together. Each error names the values, their origins and a remedy.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rpc::Endpoint;

use super::{Config, MinTxRate, PaceMode, Resolved};

/// What is wrong; what is odd goes to the notices.
pub(super) fn check(resolved: &mut Resolved) -> Vec<String> {
    let mut check = Check {
        resolved,
        errors: Vec::new(),
    };
    let config = check.resolved.config.clone();
    if config.limits.body_bytes > config.buffer.bytes {
        check.above("limits.body_bytes", "buffer.bytes");
    }
    check.lists(&config);
    check.addresses(&config);
    check.breaks(&config);
    check.cluster(&config);
    check.traces(&config);
    check.notices(&config);
    check.errors
}

struct Check<'a> {
    resolved: &'a mut Resolved,
    errors: Vec<String>,
}

impl Check<'_> {
    fn wrong(&mut self, key: &'static str, reason: impl Display) {
        let origin = self.resolved.origin(key);
        self.errors.push(format!("{origin}: {key}: {reason}"));
    }

    fn notice(&mut self, text: impl Into<String>) {
        self.resolved.notices.push(text.into());
    }

    /// A key with its value and where it comes from, for sentences.
    fn setting(&self, key: &'static str) -> String {
        self.setting_of(key, self.resolved.config.text(key))
    }

    /// The same with one value of a list.
    fn setting_of(&self, key: &str, value: impl Display) -> String {
        format!("{key} = {value} ({})", self.resolved.origin(key))
    }

    fn above(&mut self, lower: &'static str, upper: &'static str) {
        let (low, high) = (self.setting(lower), self.setting(upper));
        self.errors.push(format!(
            "{low} is above {high}; lower {lower} or raise {upper}"
        ));
    }

    fn traces(&mut self, c: &Config) {
        let Some(collector) = &c.log.traces else {
            return;
        };
        if !cfg!(feature = "otlp") {
            let reason = "this program was built without the feature otlp";
            self.wrong("log.traces", reason);
        } else if !(collector.starts_with("http://") || collector.starts_with("https://")) {
            self.wrong(
                "log.traces",
                "an address as http://127.0.0.1:4318 is needed",
            );
        }
    }

    fn cluster(&mut self, c: &Config) {
        let cluster = &c.cluster;
        if cluster.nats.is_none() {
            return;
        }
        if !cfg!(feature = "cluster") {
            self.wrong(
                "cluster.nats",
                "this program was built without the feature cluster",
            );
        }
        if cluster.key_file.is_none() {
            self.wrong("cluster.nats", "cluster.key_file is missing");
        }
        if c.pace.mode == PaceMode::Off {
            self.notice("cluster.nats has no effect while pace.mode is off");
        }
    }

    fn breaks(&mut self, c: &Config) {
        if c.pause.interval == Some(Duration::ZERO) {
            self.wrong(
                "pause.interval",
                "0s is out of range; use 1ms or more, or off",
            );
        }
        if let MinTxRate::Rate(rate) = c.pause.min_tx_rate
            && rate > c.fair.max_req
        {
            self.above("pause.min_tx_rate", "fair.max_req");
        }
    }

    fn lists(&mut self, c: &Config) {
        let methods = [
            ("reads.allow_methods", &c.reads.allow_methods),
            ("reads.refuse_methods", &c.reads.refuse_methods),
        ];
        for (key, patterns) in methods {
            for pattern in patterns {
                if pattern.strip_suffix('*').unwrap_or(pattern).contains('*') {
                    let reason = "is no method; a * may stand at the end only";
                    self.wrong(key, format!("{pattern:?} {reason}"));
                }
            }
        }
        for (index, (network, _)) in c.fair.weights.iter().enumerate() {
            let mut before = c.fair.weights[..index].iter();
            if before.any(|(other, _)| other == network) {
                let reason = format!("{network} is given twice; keep one");
                self.wrong("fair.weights", reason);
            }
        }
        let (allow, deny) = (&c.trust.allow, &c.trust.deny);
        for network in allow.iter().filter(|network| deny.contains(network)) {
            let allowed = self.setting_of("trust.allow", network);
            let denied = self.setting_of("trust.deny", network);
            self.errors.push(format!(
                "{allowed} conflicts with {denied}; keep one of the two"
            ));
        }
    }

    fn addresses(&mut self, c: &Config) {
        let (key, urls) = ("upstream.urls", &c.upstream.urls);
        if urls.is_empty() {
            let reason = "name at least one node, for instance http://127.0.0.1:26657";
            self.wrong(key, reason);
        }
        if urls.len() > MAX_NODES {
            self.wrong(key, format!("more than {MAX_NODES} nodes"));
        }
        for (index, url) in urls.iter().enumerate() {
            if urls[..index].iter().any(|other| other.same_node(url)) {
                self.wrong(key, format!("{url} is named twice; keep one"));
            }
            if leads_to(url, c.listen.addr) {
                let listener = self.setting("listen.addr");
                let remedy = "name the node, or listen elsewhere";
                self.wrong(
                    key,
                    format!("{url} is this proxy itself, {listener}; {remedy}"),
                );
            }
        }
        for (key, listeners) in [("grpc.node", &c.grpc.node), ("rest.node", &c.rest.node)] {
            if listeners.is_empty() || listeners.len() > urls.len() {
                let reason = "name the listeners of the nodes in upstream.urls, in their order";
                self.wrong(key, reason);
            }
        }
        let listeners = [
            ("listen.addr", Some(c.listen.addr)),
            ("admin.addr", c.admin.addr),
            ("grpc.listen", c.grpc.listen),
            ("rest.listen", c.rest.listen),
        ];
        for (place, (later, one)) in listeners.into_iter().enumerate() {
            for (earlier, other) in &listeners[..place] {
                if one
                    .zip(*other)
                    .is_some_and(|(one, other)| clash(one, other))
                {
                    let (one, other) = (self.setting(later), self.setting(earlier));
                    self.errors.push(format!(
                        "{one} clashes with {other}; use another port, or {later} = \"off\""
                    ));
                }
            }
        }
    }

    /// What is legal but probably not meant.
    fn notices(&mut self, c: &Config) {
        if c.limits.shadow {
            self.notice(format!(
                "{}: nothing is refused, and writes go to the node at once",
                self.setting("limits.shadow")
            ));
        }
        if c.admin.addr.is_some_and(|admin| !admin.ip().is_loopback()) {
            self.notice(format!(
                "{} can be reached from outside: it has no authentication, names clients and takes orders",
                self.setting("admin.addr")
            ));
        }
        if c.tls.certificates.is_empty() && c.tls.client_ca.is_some() {
            self.notice("tls.client_ca has no effect without tls.certificates");
        }
        let proxies = c.trust.proxies.iter();
        for proxy in proxies.filter(|proxy| proxy.network.prefix() == 0) {
            let way = if proxy.by_connection {
                "takes a PROXY header of all hosts: none can do without, and"
            } else {
                "believes X-Forwarded-For of all hosts:"
            };
            self.notice(format!(
                "{} {way} any client can choose its own address",
                self.setting_of("trust.proxies", proxy)
            ));
        }
        let has_breaks = c.pause.interval.is_some() || c.pause.min_tx_rate != MinTxRate::Off;
        if !has_breaks && self.resolved.origin("pause.action").is_given() {
            self.notice(
                "pause.action has no effect without breaks; add --pause-interval or --min-tx-rate",
            );
        }
        if has_breaks && c.pause.length > c.fair.queue_timeout {
            self.notice(format!(
                "{} is longer than {}: clients will see errors in a break",
                self.setting("pause.for"),
                self.setting("fair.queue_timeout"),
            ));
        }
    }
}

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
