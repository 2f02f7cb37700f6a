//! Addresses that must not be each other's.

use std::net::{IpAddr, SocketAddr};

use rpc::Endpoint;

use super::Check;
use crate::config::Config;

impl Check<'_> {
    pub(super) fn addresses(&mut self, c: &Config) {
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
