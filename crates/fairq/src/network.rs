//! A network, which is an address prefix of either family, and a map that finds the value of the longest prefix around an
//! address.

use core::net::IpAddr;
use std::{collections::BTreeMap, fmt, str::FromStr};

use ipnet::IpNet;

use crate::Error;

/// An address prefix, `192.0.2.0/24` or `2001:db8::/32`; a bare address is the full prefix.
///
/// IPv4-mapped IPv6 (`::ffff:192.0.2.0/120`) is the IPv4 network it stands for. An IPv6 network
/// contains no IPv4 address, not even `::/0`. 18 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network(IpNet);

/// Where IPv4 starts in the 128 bits.
const V4_OFFSET: u8 = 96;

impl Network {
    /// The network of `prefix` bits that contains an address, IPv4-mapped or not.
    ///
    /// # Errors
    /// A prefix longer than the address.
    pub fn new(address: IpAddr, prefix: u8) -> Result<Self, Error> {
        Self::around(address, prefix).ok_or_else(|| {
            let (family, longest) = match address.to_canonical() {
                IpAddr::V4(_) => ("IPv4", 32),
                IpAddr::V6(_) => ("IPv6", 128),
            };
            Error(format!(
                "an {family} prefix is 0 to {longest} bits long, not {prefix}"
            ))
        })
    }

    /// The same; none where the prefix is longer than the address.
    pub(crate) fn around(address: IpAddr, prefix: u8) -> Option<Self> {
        let network = IpNet::new(address.to_canonical(), prefix).ok()?;
        Some(Self(network.trunc()))
    }

    /// Whether the address lies in this network.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// Length of the prefix in bits: 0 to 32 for IPv4, 0 to 128 for IPv6.
    pub fn prefix(&self) -> u8 {
        self.0.prefix_len()
    }

    /// The first address of the network.
    pub fn address(&self) -> IpAddr {
        self.0.addr()
    }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        Self(address.to_canonical().into())
    }
}

impl FromStr for Network {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = |reason| Error(format!("`{text}` is not a network: {reason}; {ADVICE}"));
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let given: IpAddr = address
            .parse()
            .map_err(|_| refuse("what stands before the prefix is no IP address"))?;
        let Some(prefix) = prefix else {
            return Ok(Self::from(given));
        };
        if prefix.is_empty() || !prefix.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(refuse("the prefix after `/` is no number"));
        }
        let mut prefix: u8 = prefix
            .parse()
            .map_err(|_| refuse("the prefix is longer than an address"))?;
        // `::ffff:192.0.2.0/120` is 192.0.2.0/24.
        if given.is_ipv6() && given.to_canonical().is_ipv4() {
            prefix = prefix
                .checked_sub(V4_OFFSET)
                .ok_or_else(|| refuse("an IPv4-mapped prefix is at least 96 bits long"))?;
        }
        let network = Self::new(given, prefix)?;
        if network.address() != given.to_canonical() {
            return Err(Error(format!(
                "`{text}` has bits set behind its prefix: the network is {network}"
            )));
        }
        Ok(network)
    }
}

const ADVICE: &str =
    "write an address such as 192.0.2.7, or a network such as 192.0.2.0/24 or 2001:db8::/32";

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() {
            return self.address().fmt(f);
        }
        f.pad(&self.0.to_string())
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Values by network; an address finds the value of the longest prefix that contains it.
///
/// A lookup costs one search for each different prefix length in the map. At most
/// [`NetworkMap::LIMIT`] networks; they come from an operator's file, not from clients.
#[derive(Debug, Clone)]
pub struct NetworkMap<T> {
    networks: BTreeMap<Network, T>,
    /// The different prefix lengths of both families, the longest first.
    prefixes: Vec<u8>,
}

impl<T> NetworkMap<T> {
    /// The most networks a map holds.
    pub const LIMIT: usize = 65_536;

    /// No networks.
    pub const fn new() -> Self {
        Self {
            networks: BTreeMap::new(),
            prefixes: Vec::new(),
        }
    }

    /// Gives a network its value, and its former value back.
    ///
    /// # Errors
    /// The map is full and does not know the network.
    pub fn insert(&mut self, network: Network, value: T) -> Result<Option<T>, Error> {
        if self.networks.len() >= Self::LIMIT && !self.networks.contains_key(&network) {
            return Err(Error(format!(
                "a map of networks holds at most {}",
                Self::LIMIT
            )));
        }
        let prefix = network.prefix();
        if let Err(place) = self.prefixes.binary_search_by(|p| prefix.cmp(p)) {
            self.prefixes.insert(place, prefix);
        }
        Ok(self.networks.insert(network, value))
    }

    /// The value of the longest prefix that contains the address.
    pub fn get(&self, address: IpAddr) -> Option<&T> {
        let mut around =
            (self.prefixes.iter()).filter_map(|prefix| Network::around(address, *prefix));
        around.find_map(|network| self.networks.get(&network))
    }
}

impl<T> Default for NetworkMap<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn reads_and_shows() {
        for text in [
            "192.0.2.7",
            "192.0.2.0/24",
            "0.0.0.0/0",
            "2001:db8::/32",
            "::/0",
            "::1",
            "2001:db8:1:2::/64",
        ] {
            assert_eq!(network(text).to_string(), text);
        }
        assert_eq!(network("192.0.2.7/32").to_string(), "192.0.2.7");
        assert_eq!(network("::1/128").to_string(), "::1");
    }

    #[test]
    fn mapped_is_ipv4() {
        assert_eq!(network("::ffff:192.0.2.7"), network("192.0.2.7"));
        assert_eq!(network("::ffff:192.0.2.0/120"), network("192.0.2.0/24"));
        assert_eq!(network("::ffff:0:0/96"), network("0.0.0.0/0"));
        assert!(network("192.0.2.0/24").contains(ip("::ffff:192.0.2.9")));
    }

    #[test]
    fn families_do_not_mix() {
        assert!(!network("::/0").contains(ip("192.0.2.7")));
        assert!(!network("::/0").contains(ip("::ffff:192.0.2.7")));
        assert!(!network("0.0.0.0/0").contains(ip("::1")));
        assert!(network("::/0").contains(ip("::1")));
    }

    #[test]
    fn contains_its_own_and_no_other() {
        let home = network("10.0.0.0/8");
        assert!(home.contains(ip("10.255.255.255")) && home.contains(ip("10.0.0.0")));
        assert!(!home.contains(ip("11.0.0.0")) && !home.contains(ip("9.255.255.255")));
        assert!(network("2001:db8::/33").contains(ip("2001:db8:7fff::1")));
        assert!(!network("2001:db8::/33").contains(ip("2001:db8:8000::1")));
    }

    #[test]
    fn says_what_is_wrong() {
        let refused = |text: &str| text.parse::<Network>().unwrap_err().to_string();
        assert_eq!(
            refused("192.0.2.7/24"),
            "`192.0.2.7/24` has bits set behind its prefix: the network is 192.0.2.0/24"
        );
        assert_eq!(
            refused("2001:db8::1/64"),
            "`2001:db8::1/64` has bits set behind its prefix: the network is 2001:db8::/64"
        );
        assert_eq!(
            refused("192.0.2.0/33"),
            "an IPv4 prefix is 0 to 32 bits long, not 33"
        );
        assert!(refused("::/129").contains("0 to 128"));
        assert!(refused("::/999").contains("longer than an address"));
        assert!(refused("::/").contains("no number"));
        assert!(refused("::/+3").contains("no number"));
        assert!(refused("localhost").contains("no IP address"));
        assert!(refused("fe80::1%eth0").contains("no IP address"));
        assert!(refused("").contains("no IP address"));
        assert!(refused("192.0.2").contains("no IP address"));
        assert!(refused("::ffff:1.2.3.4/64").contains("at least 96"));
    }

    proptest! {
        #[test]
        fn text_and_back(address: [u8; 16], prefix in 0_u8..=128) {
            let address = IpAddr::from(address);
            let mapped_prefix = prefix.min(if address.to_canonical().is_ipv4() { 32 } else { 128 });
            let network = Network::new(address, mapped_prefix).unwrap();
            prop_assert_eq!(network.to_string().parse::<Network>().unwrap(), network);
            prop_assert!(network.contains(network.address()));
        }

        #[test]
        fn v4_text_and_back(address: [u8; 4], prefix in 0_u8..=32) {
            let network = Network::new(IpAddr::from(address), prefix).unwrap();
            prop_assert_eq!(network.to_string().parse::<Network>().unwrap(), network);
            prop_assert_eq!(network.prefix(), prefix);
            prop_assert!(network.contains(IpAddr::from(address)));
        }
    }

    fn map(texts: &[&'static str]) -> NetworkMap<&'static str> {
        let mut map = NetworkMap::new();
        for text in texts {
            map.insert(text.parse().unwrap(), *text).unwrap();
        }
        map
    }

    #[test]
    fn the_longest_prefix_decides() {
        let map = map(&[
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.1.0.0/16",
            "10.1.2.3",
            "2001:db8::/32",
        ]);
        let found = |text: &str| map.get(text.parse().unwrap()).copied();
        assert_eq!(found("10.1.2.3"), Some("10.1.2.3"));
        assert_eq!(found("::ffff:10.1.2.3"), Some("10.1.2.3"));
        assert_eq!(found("10.1.2.4"), Some("10.1.0.0/16"));
        assert_eq!(found("10.2.0.1"), Some("10.0.0.0/8"));
        assert_eq!(found("192.0.2.1"), Some("0.0.0.0/0"));
        assert_eq!(found("2001:db8::7"), Some("2001:db8::/32"));
        assert_eq!(found("2001:db9::7"), None);
    }

    #[test]
    fn all_of_ipv6_is_no_ipv4() {
        let map = map(&["::/0"]);
        assert_eq!(map.get("192.0.2.1".parse().unwrap()), None);
        assert_eq!(map.get("::1".parse().unwrap()), Some(&"::/0"));
    }

    #[test]
    fn the_second_value_replaces_the_first() {
        let mut map = NetworkMap::new();
        let home: Network = "10.0.0.0/8".parse().unwrap();
        assert_eq!(map.insert(home, 1).unwrap(), None);
        assert_eq!(map.insert(home, 2).unwrap(), Some(1));
        assert_eq!(map.get("10.9.9.9".parse().unwrap()), Some(&2));
    }

    #[test]
    fn it_holds_no_more_than_its_limit() {
        let mut map = NetworkMap::new();
        for n in 0..u32::try_from(NetworkMap::<u32>::LIMIT).unwrap() {
            let address = IpAddr::from(core::net::Ipv4Addr::from_bits(n));
            map.insert(address.into(), n).unwrap();
        }
        let one_more: Network = "192.0.2.0/24".parse().unwrap();
        assert!(
            map.insert(one_more, 0)
                .unwrap_err()
                .to_string()
                .contains("at most 65536")
        );
        // Its entries may still change.
        assert_eq!(map.insert("0.0.0.5".parse().unwrap(), 9).unwrap(), Some(5));
    }

    proptest! {
        #[test]
        fn as_a_look_at_each_would_say(
            networks in prop::collection::vec((0_u32..64, 26_u8..=32), 0..20),
            address in 0_u32..64,
        ) {
            let mut map = NetworkMap::new();
            let address = IpAddr::from(core::net::Ipv4Addr::from_bits(address));
            let mut best: Option<Network> = None;
            for (bits, prefix) in networks {
                let bits = core::net::Ipv4Addr::from_bits(bits);
                let network = Network::new(bits.into(), prefix).unwrap();
                map.insert(network, network).unwrap();
                if network.contains(address) && best.is_none_or(|b| b.prefix() < prefix) {
                    best = Some(network);
                }
            }
            prop_assert_eq!(map.get(address).copied(), best);
        }
    }
}
