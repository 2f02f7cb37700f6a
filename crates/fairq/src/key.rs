//! What counts as one client: an address, or the prefix that one customer is given; and the keyed hash of every table whose
//! keys come from clients.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{fmt, hash::BuildHasher};

use siphasher::sip::SipHasher13;

use crate::{Error, network::Network};

base::settings! {
    /// How many bits of an address tell one client from another.
    ///
    /// The defaults are 32 for IPv4 and 64 for IPv6: any customer has 2^64 IPv6 addresses at least.
    /// A smaller prefix joins more addresses into one client; 0 makes the whole family one client.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct KeyScheme {
        v4_prefix: u8 = 32,
        v6_prefix: u8 = 64,
    }
}

impl KeyScheme {
    /// `v4_prefix` of 0 to 32 bits, `v6_prefix` of 0 to 128 bits.
    ///
    /// # Errors
    /// A prefix longer than an address.
    pub fn new(v4_prefix: u8, v6_prefix: u8) -> Result<Self, Error> {
        Network::new(Ipv4Addr::UNSPECIFIED.into(), v4_prefix)?;
        Network::new(Ipv6Addr::UNSPECIFIED.into(), v6_prefix)?;
        Ok(Self {
            v4_prefix,
            v6_prefix,
        })
    }

    /// The client that this address belongs to. IPv4-mapped IPv6 is the IPv4 address.
    pub fn key(&self, address: IpAddr) -> ClientKey {
        let prefix = match address.to_canonical() {
            IpAddr::V4(_) => self.v4_prefix,
            IpAddr::V6(_) => self.v6_prefix,
        };
        ClientKey(Network::around(address, prefix).expect("the prefixes were checked"))
    }
}

/// One client: an address prefix. 18 bytes.
///
/// Shown as the address (`127.0.0.2`) or the prefix (`2001:db8:1:2::/64`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientKey(Network);

/// The prefix that an IPv6 site is usually given (RFC 6177 and the registries' practice).
const V6_SITE_PREFIX: u8 = 48;

impl ClientKey {
    /// The addresses of this client.
    pub const fn network(&self) -> Network {
        self.0
    }

    /// The tiers in which what a client holds is bounded: the client, and the IPv6 /48 around it. The
    /// second counts as [`SITE_CLIENTS`](Self::SITE_CLIENTS) clients.
    pub fn tiers(self) -> impl Iterator<Item = Self> + Clone {
        std::iter::once(self).chain(self.site().map(Self))
    }

    /// How many clients an IPv6 /48 counts as where its clients are bounded together: a single
    /// customer may own one, with its 65,536 networks of 64 bits.
    pub const SITE_CLIENTS: usize = 4;

    /// The IPv6 /48 around this client; none for IPv4 and for clients that are as wide themselves.
    pub(crate) fn site(&self) -> Option<Network> {
        let is_narrower = self.0.prefix() > V6_SITE_PREFIX;
        let network = is_narrower.then_some(self.0)?;
        Network::around(network.address(), V6_SITE_PREFIX)
    }
}

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// SipHash-1-3 under a secret seed: keys that collide cannot be chosen without the seed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyedHash([u64; 2]);

impl KeyedHash {
    /// One of several independent hashes of the same seed.
    pub(crate) fn new(seed: [u64; 2], domain: u64) -> Self {
        Self([seed[0], seed[1] ^ domain])
    }
}

impl BuildHasher for KeyedHash {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0[0], self.0[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(scheme: KeyScheme, text: &str) -> String {
        scheme.key(text.parse().unwrap()).to_string()
    }

    #[test]
    fn one_ipv4_address_or_one_ipv6_64() {
        let scheme = KeyScheme::default();
        assert_eq!(key(scheme, "127.0.0.2"), "127.0.0.2");
        assert_eq!(key(scheme, "::ffff:127.0.0.2"), "127.0.0.2");
        assert_eq!(key(scheme, "2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
        assert_eq!(key(scheme, "::1"), "::/64");
    }

    #[test]
    fn other_prefixes() {
        let scheme = KeyScheme::new(24, 48).unwrap();
        assert_eq!(key(scheme, "192.0.2.77"), "192.0.2.0/24");
        assert_eq!(key(scheme, "2001:db8:1:2::9"), "2001:db8:1::/48");
        let all = KeyScheme::new(0, 0).unwrap();
        assert_eq!(key(all, "192.0.2.77"), "0.0.0.0/0");
        assert_eq!(key(all, "2001:db8::1"), "::/0");
        let full = KeyScheme::new(32, 128).unwrap();
        assert_eq!(key(full, "2001:db8::1"), "2001:db8::1");
    }

    #[test]
    fn too_long_a_prefix_is_refused() {
        assert_eq!(
            KeyScheme::new(33, 64).unwrap_err().to_string(),
            "an IPv4 prefix is 0 to 32 bits long, not 33"
        );
        assert!(KeyScheme::new(32, 129).is_err());
    }

    #[test]
    fn a_site_is_a_48_and_only_of_ipv6() {
        let site = |scheme: KeyScheme, text: &str| scheme.key(text.parse().unwrap()).site();
        let scheme = KeyScheme::default();
        assert_eq!(
            site(scheme, "2001:db8:1:2::9"),
            Some("2001:db8:1::/48".parse().unwrap())
        );
        assert_eq!(site(scheme, "192.0.2.77"), None);
        assert_eq!(site(KeyScheme::new(32, 48).unwrap(), "2001:db8::"), None);
        let key = scheme.key("2001:db8:1:2::9".parse().unwrap());
        let tiers: Vec<_> = key.tiers().map(|tier| tier.to_string()).collect();
        assert_eq!(tiers, ["2001:db8:1:2::/64", "2001:db8:1::/48"]);
    }

    #[test]
    fn a_key_is_small() {
        assert_eq!(size_of::<ClientKey>(), 18);
        assert_eq!(size_of::<Option<ClientKey>>(), 18);
    }
}
