//! A network: an address prefix of either family.

// The addresses of `core`, where there are no sockets.
use core::net::IpAddr;
use std::{fmt, str::FromStr};

use ipnet::IpNet;

use crate::error::Error;

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
}
