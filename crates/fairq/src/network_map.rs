//! A value for each network, found by the longest prefix.

use core::net::IpAddr;
use std::collections::BTreeMap;

use crate::{error::Error, network::Network};

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
