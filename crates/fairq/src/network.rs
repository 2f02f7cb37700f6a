//! A network: an address prefix of either family.

// The addresses of `core`, where there are no sockets.
use core::net::{IpAddr, Ipv6Addr};
use std::{
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use crate::error::Error;

/// An address prefix, `192.0.2.0/24` or `2001:db8::/32`; a bare address is the full prefix.
///
/// IPv4-mapped IPv6 (`::ffff:192.0.2.0/120`) is the IPv4 network it stands for. An IPv6 network
/// contains no IPv4 address, not even `::/0`. 17 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    /// The address, IPv4 as IPv4-mapped IPv6, zero behind the prefix.
    address: [u8; 16],
    /// Bits of the 128.
    prefix: u8,
}

/// Where IPv4 starts in the 128 bits.
const V4_OFFSET: u8 = 96;
/// The 96 bits before a mapped IPv4 address.
const V4_MAPPED: u128 = 0xffff;

impl Network {
    /// The network of `prefix` bits, known to be in range, that contains a canonical address.
    pub(crate) fn cut(address: IpAddr, prefix: u8) -> Self {
        let prefix = match address {
            IpAddr::V4(_) => V4_OFFSET + prefix,
            IpAddr::V6(_) => prefix,
        };
        Self::masked(bits(address), prefix)
    }

    /// The same, `prefix` counted in the 128 bits.
    pub(crate) fn masked(bits: u128, prefix: u8) -> Self {
        Self {
            address: (bits & mask(prefix)).to_be_bytes(),
            prefix,
        }
    }

    /// Whether the address lies in this network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.is_ipv4() && bits(address) & mask(self.prefix) == self.bits()
    }

    /// Whether this is an IPv4 network.
    pub fn is_ipv4(&self) -> bool {
        self.prefix >= V4_OFFSET && self.bits() >> 32 == V4_MAPPED
    }

    /// Length of the prefix in bits: 0 to 32 for IPv4, 0 to 128 for IPv6.
    pub fn prefix(&self) -> u8 {
        if self.is_ipv4() {
            self.prefix - V4_OFFSET
        } else {
            self.prefix
        }
    }

    /// The first address of the network.
    pub fn address(&self) -> IpAddr {
        let address = Ipv6Addr::from(self.address);
        if self.is_ipv4() {
            IpAddr::V6(address).to_canonical()
        } else {
            IpAddr::V6(address)
        }
    }

    /// The 128 bits of the address.
    pub(crate) fn bits(&self) -> u128 {
        u128::from_be_bytes(self.address)
    }

    /// Bits of the 128 that the prefix covers.
    pub(crate) fn mapped_prefix(&self) -> u8 {
        self.prefix
    }
}

/// The 128 bits of a canonical address: IPv4 as IPv4-mapped IPv6.
pub(crate) fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn mask(prefix: u8) -> u128 {
    match 128 - u32::from(prefix.min(128)) {
        128 => 0,
        behind => u128::MAX << behind,
    }
}

pub(crate) fn check_prefix(is_ipv4: bool, prefix: u8) -> Result<(), Error> {
    let (family, longest) = if is_ipv4 { ("IPv4", 32) } else { ("IPv6", 128) };
    if prefix <= longest {
        return Ok(());
    }
    Err(Error(format!(
        "an {family} prefix is 0 to {longest} bits long, not {prefix}"
    )))
}

impl Hash for Network {
    /// The address alone: within one table all prefixes of a family are the same or few.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let address = u128::from_be_bytes(self.address);
        state.write_u64((address >> 64) as u64);
        state.write_u64(address as u64);
    }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        Self::masked(bits(address.to_canonical()), 128)
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
        let prefix: u8 = prefix
            .parse()
            .map_err(|_| refuse("the prefix is longer than an address"))?;
        check_prefix(given.is_ipv4(), prefix)?;
        let network = match (given, given.to_canonical()) {
            // `::ffff:192.0.2.0/120` is 192.0.2.0/24.
            (IpAddr::V6(mapped), IpAddr::V4(_)) if prefix >= V4_OFFSET => {
                Self::masked(mapped.to_bits(), prefix)
            }
            (IpAddr::V6(_), IpAddr::V4(_)) => {
                return Err(refuse("an IPv4-mapped prefix is at least 96 bits long"));
            }
            (given, _) => Self::cut(given, prefix),
        };
        if network.bits() != bits(given) {
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
        if self.prefix == 128 {
            return self.address().fmt(f);
        }
        f.pad(&format!("{}/{}", self.address(), self.prefix()))
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
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
            // Where the address is IPv4-mapped and the prefix long enough, the text is IPv4's.
            let network = Network::masked(u128::from_be_bytes(address), prefix);
            prop_assert_eq!(network.to_string().parse::<Network>().unwrap(), network);
            prop_assert!(network.contains(network.address()));
        }

        #[test]
        fn v4_text_and_back(address: [u8; 4], prefix in 0_u8..=32) {
            let network = Network::cut(IpAddr::from(address), prefix);
            prop_assert_eq!(network.to_string().parse::<Network>().unwrap(), network);
            prop_assert_eq!(network.prefix(), prefix);
            prop_assert!(network.is_ipv4() && network.contains(IpAddr::from(address)));
        }
    }
}
