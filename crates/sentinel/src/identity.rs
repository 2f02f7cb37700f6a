//! Finds the client of a request, and whether its network may use the proxy.
//!
//! The socket's address is the client, unless the socket is a trusted proxy's: then the last
//! address in `X-Forwarded-For` that was written by a trusted proxy is. `Forwarded` and
//! `X-Real-IP` are never read: any client can send them, and no standard defines which hop wrote them last.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, Guard};
use fairq::{ClientKey, KeyScheme, Network, NetworkMap};
use pacing::Nanos;
use parking_lot::Mutex;

use crate::bans::{Ban, Bans};
use crate::config::Trust;
use crate::keys::is_reserved;
use crate::refusal::{Reason, Refusal};

/// The name of the header that trusted proxies append to, in lower case.
pub const FORWARDED_FOR: &str = "x-forwarded-for";

/// Tells clients apart.
#[derive(Clone, Debug)]
pub struct Identities {
    scheme: KeyScheme,
    proxies: Vec<Network>,
    /// Whether a network may use the proxy.
    rules: NetworkMap<bool>,
    /// The networks banned while the program runs, whatever the rules are.
    bans: NetworkMap<()>,
    /// Whether a network without a rule may.
    otherwise: bool,
}

/// The sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The client's own address, as far as it can be trusted.
    pub address: IpAddr,
    /// Whose share it uses.
    pub client: ClientKey,
    /// Whether its network may use the proxy.
    pub allowed: bool,
}

/// The other end of a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// The socket's own address and its client, headers unseen.
    pub(crate) identity: Identity,
    /// Whether it is a trusted proxy, whose headers name the client.
    pub(crate) is_proxy: bool,
}

/// The identities in force. Clones share them.
#[derive(Clone, Debug)]
pub struct LiveIdentities(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    current: ArcSwap<Identities>,
    /// Whether there are bans: they are looked up with every turn of a WebSocket.
    has_bans: AtomicBool,
    /// Held while these are replaced.
    bans: Mutex<Bans>,
}

impl Default for LiveIdentities {
    /// Those of the default configuration, without bans.
    fn default() -> Self {
        let first = Identities::new(&Trust::default());
        Self(Arc::new(Inner {
            current: ArcSwap::from_pointee(first.expect("the default lists no networks")),
            has_bans: AtomicBool::new(false),
            bans: Mutex::default(),
        }))
    }
}

impl LiveIdentities {
    /// A short look at them.
    pub fn load(&self) -> Guard<Arc<Identities>> {
        self.0.current.load()
    }

    /// Whether the operator has forbidden a network while the program runs.
    pub(crate) fn is_banned(&self, address: IpAddr) -> bool {
        self.0.has_bans.load(Ordering::Acquire) && self.load().is_banned(address)
    }

    /// From now on these; bans stay.
    pub(crate) fn follow(&self, identities: Identities) {
        self.replace(identities, &self.0.bans.lock());
    }

    /// Forbids a network, or the whole client it is a part of: which network that is.
    ///
    /// # Errors
    /// There are too many bans, or the network contains no client.
    pub(crate) fn ban(&self, mut ban: Ban) -> Result<Network, String> {
        let mut bans = self.0.bans.lock();
        let who = self.load().banned(ban.who)?;
        ban.who = who;
        bans.add(ban)?;
        self.replace(Identities::clone(&self.load()), &bans);
        Ok(who)
    }

    /// Takes a ban back: whether there was one.
    pub(crate) fn unban(&self, who: Network) -> bool {
        let mut bans = self.0.bans.lock();
        let who = self.load().banned(who).unwrap_or(who);
        let was_there = bans.remove(&who);
        self.replace(Identities::clone(&self.load()), &bans);
        was_there
    }

    /// The bans, those that are over ended.
    pub(crate) fn bans(&self, now: Nanos) -> Vec<Ban> {
        let mut bans = self.0.bans.lock();
        if bans.expire(now) {
            self.replace(Identities::clone(&self.load()), &bans);
        }
        bans.all().to_vec()
    }

    fn replace(&self, identities: Identities, bans: &Bans) {
        self.0.current.store(Arc::new(Identities {
            bans: bans.networks(),
            ..identities
        }));
        self.0
            .has_bans
            .store(!bans.all().is_empty(), Ordering::Release);
    }
}

impl Identities {
    /// From `[trust]`.
    ///
    /// # Errors
    /// More networks are listed than a [`NetworkMap`] holds.
    pub fn new(trust: &Trust) -> Result<Self, fairq::Error> {
        let mut rules = NetworkMap::new();
        for network in &trust.allow {
            rules.insert(*network, true)?;
        }
        // A network on both lists is denied: the careful reading of a contradiction.
        for network in &trust.deny {
            rules.insert(*network, false)?;
        }
        Ok(Self {
            scheme: KeyScheme::new(32, trust.ipv6_prefix)?,
            proxies: (trust.proxies.iter().filter(|proxy| !proxy.by_connection))
                .map(|proxy| proxy.network)
                .collect(),
            rules,
            bans: NetworkMap::new(),
            otherwise: trust.allow.is_empty(),
        })
    }

    /// Whether a socket belongs to a trusted proxy, which speaks for many clients.
    pub fn is_proxy(&self, address: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.contains(address))
    }

    /// The client behind a socket, headers unseen.
    pub fn of_peer(&self, peer: IpAddr) -> Identity {
        let address = peer.to_canonical();
        Identity {
            address,
            client: self.scheme.key(address),
            allowed: self.allows(address),
        }
    }

    /// Whether a network may use the proxy.
    pub fn allows(&self, address: IpAddr) -> bool {
        let allowed = self.rules.get(address).copied().unwrap_or(self.otherwise);
        // An address that stands for a key is no host's, whatever a header contains.
        allowed && !is_reserved(address) && !self.is_banned(address)
    }

    /// Whether the operator has forbidden a network while the program runs.
    pub fn is_banned(&self, address: IpAddr) -> bool {
        self.bans.get(address).is_some()
    }

    /// The clients that a ban of this network concerns: whole ones.
    ///
    /// # Errors
    /// The network contains no client: its trusted proxies name their clients themselves.
    fn banned(&self, who: Network) -> Result<Network, String> {
        let address = who.address();
        let is_inside =
            |proxies: &&Network| proxies.contains(address) && proxies.prefix() <= who.prefix();
        if let Some(proxies) = self.proxies.iter().find(is_inside) {
            return Err(format!(
                "{who} is a trusted proxy (trust.proxies has {proxies}), which speaks for others; ban the clients behind it"
            ));
        }
        let client = self.scheme.key(address).network();
        Ok(if client.prefix() < who.prefix() {
            client
        } else {
            who
        })
    }

    /// The client of a request: `lines` are the values of its `X-Forwarded-For` headers in the
    /// order in which they came. They are read only if the socket is a trusted proxy's.
    pub fn of_request<'a>(
        &self,
        peer: IpAddr,
        lines: impl DoubleEndedIterator<Item = &'a [u8]>,
    ) -> Identity {
        let mut address = peer.to_canonical();
        let hops = lines
            .rev()
            .flat_map(|line| line.rsplit(|byte| *byte == b','));
        for hop in hops {
            if !self.is_proxy(address) {
                break;
            }
            // A trusted proxy writes only addresses: the hop that wrote anything else is the client.
            let Some(further) = parse_hop(hop) else {
                break;
            };
            address = further;
        }
        self.of_peer(address)
    }
}

/// The text for a client of a network that may not use the proxy.
pub fn denied() -> Refusal {
    Refusal::new(Reason::Denied, "this network may not use the proxy")
}

/// An address with or without port and brackets, normalised.
fn parse_hop(hop: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(hop.trim_ascii()).ok()?;
    let address = text
        .parse::<IpAddr>()
        .or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()))
        .ok()
        .or_else(|| bracketed(text).map(IpAddr::V6))?;
    Some(address.to_canonical())
}

/// `[::1]` without a port.
fn bracketed(text: &str) -> Option<Ipv6Addr> {
    text.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trust(proxies: &[&str], allow: &[&str], deny: &[&str]) -> Trust {
        let networks = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        let proxies = proxies.iter().map(|text| text.parse().unwrap());
        Trust {
            proxies: proxies.collect(),
            allow: networks(allow),
            deny: networks(deny),
            ..Trust::default()
        }
    }

    fn client(peer: &str, lines: &[&str]) -> String {
        let identities = Identities::new(&trust(
            &["10.0.0.0/8", "127.0.0.1/32", "2001:db8:ffff::/48"],
            &[],
            &[],
        ))
        .unwrap();
        identities
            .of_request(
                peer.parse().unwrap(),
                lines.iter().map(|line| line.as_bytes()),
            )
            .address
            .to_string()
    }

    #[test]
    fn identity_34_an_untrusted_peer_is_itself_whatever_it_claims() {
        for lines in [
            &["1.2.3.4"][..],
            &["127.0.0.1"],
            &["1.2.3.4, 10.0.0.1"],
            &["1.2.3.4", "10.0.0.1"],
            &["", ",,,", "[::1]:80"],
        ] {
            assert_eq!(client("203.0.113.9", lines), "203.0.113.9", "{lines:?}");
        }
    }

    #[test]
    fn identity_34_the_first_untrusted_hop_from_the_right_is_the_client() {
        assert_eq!(client("127.0.0.1", &[]), "127.0.0.1");
        assert_eq!(client("127.0.0.1", &["203.0.113.9"]), "203.0.113.9");
        // Spoofed values stand left of what our own proxy has seen.
        assert_eq!(
            client("127.0.0.1", &["8.8.8.8, 10.1.1.1,203.0.113.9 , 10.0.0.7"]),
            "203.0.113.9"
        );
        assert_eq!(
            client("127.0.0.1", &["8.8.8.8", "203.0.113.9", "10.0.0.7"]),
            "203.0.113.9"
        );
        // All hops are ours: the outermost is the client.
        assert_eq!(client("127.0.0.1", &["10.0.0.8, 10.0.0.7"]), "10.0.0.8");
    }

    #[test]
    fn identity_34_ports_brackets_and_mapped_addresses_are_understood() {
        for (line, expected) in [
            ("203.0.113.9:4711", "203.0.113.9"),
            ("[2001:db8::1]:4711", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
            ("::ffff:203.0.113.9", "203.0.113.9"),
            ("[::ffff:203.0.113.9]:80", "203.0.113.9"),
            ("198.51.100.1, 2001:db8:ffff::1", "198.51.100.1"),
            ("198.51.100.1, ::ffff:10.0.0.1", "198.51.100.1"),
        ] {
            assert_eq!(client("127.0.0.1", &[line]), expected, "{line}");
        }
        assert_eq!(client("::ffff:127.0.0.1", &["203.0.113.9"]), "203.0.113.9");
    }

    #[test]
    fn identity_34_garbage_leaves_the_last_trusted_address() {
        for line in [
            "",
            " ",
            "unknown",
            "_hidden",
            "1.2.3",
            "1.2.3.4.5",
            "256.1.1.1",
            "01.2.3.4",
            "1.2.3.4:",
            "1.2.3.4:99999",
            "[::1",
            "::1]",
            "[1.2.3.4]",
            "fe80::1%eth0",
            "\"203.0.113.9\"",
            "for=203.0.113.9",
            "203.0.113.9 203.0.113.8",
        ] {
            assert_eq!(client("127.0.0.1", &[line]), "127.0.0.1", "{line}");
            let line = format!("203.0.113.9, {line}, 10.0.0.5");
            assert_eq!(client("127.0.0.1", &[&line]), "10.0.0.5", "{line}");
        }
        let identities = Identities::new(&trust(&["127.0.0.0/8"], &[], &[])).unwrap();
        let identity = identities.of_request(
            "127.0.0.1".parse().unwrap(),
            [&b"203.0.113.9, \xff\xfe"[..]].into_iter(),
        );
        assert_eq!(identity.address.to_string(), "127.0.0.1");
    }

    #[test]
    fn identity_34_ten_thousand_hops_end() {
        let many = vec!["10.0.0.1"; 10_000].join(",");
        assert_eq!(client("127.0.0.1", &[&many]), "10.0.0.1");
        let many = format!("203.0.113.9,{many}");
        assert_eq!(client("127.0.0.1", &[&many]), "203.0.113.9");
    }

    #[test]
    fn a_client_is_a_prefix() {
        let identities = Identities::new(&trust(&[], &[], &[])).unwrap();
        let key = |address: &str| identities.of_peer(address.parse().unwrap()).client;
        assert_eq!(key("2001:db8:1:2::1"), key("2001:db8:1:2:ffff::1"));
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
        assert_ne!(key("192.0.2.2"), key("192.0.2.1"));
    }

    #[test]
    fn the_longest_prefix_decides_who_may_enter() {
        let may = |allow: &[&str], deny: &[&str], address: &str| {
            Identities::new(&trust(&[], allow, deny))
                .unwrap()
                .of_peer(address.parse().unwrap())
                .allowed
        };
        assert!(may(&[], &[], "192.0.2.1"));
        assert!(!may(&[], &["192.0.2.0/24"], "192.0.2.1"));
        assert!(may(&["192.0.2.1"], &["192.0.2.0/24"], "192.0.2.1"));
        assert!(!may(&["192.0.2.1"], &["192.0.2.0/24"], "192.0.2.2"));
        assert!(!may(&["192.0.2.0/24"], &[], "198.51.100.1"));
        assert!(!may(&["192.0.2.0/24"], &["192.0.2.7"], "::ffff:192.0.2.7"));
        assert!(!may(&["192.0.2.7"], &["192.0.2.7"], "192.0.2.7"));
    }

    #[test]
    fn bans_win_over_rules_survive_a_reload_and_end() {
        let rules = || Identities::new(&trust(&["10.0.0.0/8"], &["192.0.2.0/24"], &[])).unwrap();
        let live = LiveIdentities::default();
        live.follow(rules());
        let ban = |who: &str, until| Ban {
            who: who.parse().unwrap(),
            until,
            why: String::new(),
        };
        let allows = |address: &str| live.load().allows(address.parse().unwrap());
        // A longer prefix that the rules allow does not help.
        live.ban(ban("192.0.0.0/16", Some(Nanos::from_secs(9))))
            .unwrap();
        assert!(!allows("192.0.2.7"));
        live.follow(rules());
        assert!(!allows("192.0.2.7"));
        assert_eq!(live.bans(Nanos::from_secs(8)).len(), 1);
        assert!(live.bans(Nanos::from_secs(9)).is_empty());
        assert!(allows("192.0.2.7"));
        // One address of a client is the client.
        let who = live.ban(ban("2001:db8::7/128", None)).unwrap();
        assert_eq!(who, "2001:db8::/64".parse().unwrap());
        assert!(live.unban("2001:db8::9/128".parse().unwrap()));
        // A proxy speaks for others; a network that has one in it is another matter.
        assert!(
            live.ban(ban("10.1.2.3/32", None))
                .unwrap_err()
                .contains("trusted proxy")
        );
        live.ban(ban("0.0.0.0/0", None)).unwrap();
        assert!(!allows("192.0.2.7"));
    }
}
