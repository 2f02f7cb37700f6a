//! Where an operator's listener listens.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// An address with a port; of a port alone, loopback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress(pub SocketAddr);

/// Why a text is no such address.
#[derive(Debug, thiserror::Error)]
#[error("{text:?} is not an address; write 9464 (on loopback), 0.0.0.0:9464 or [::]:9464")]
pub struct AddressError {
    text: String,
}

impl FromStr for ListenAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let port = text.strip_prefix(':').unwrap_or(text).parse();
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        port.map(loopback)
            .or_else(|_| text.replace("localhost:", "127.0.0.1:").parse())
            .map(Self)
            .map_err(|_| AddressError { text: text.into() })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_loopback() {
        for text in ["9464", ":9464", "127.0.0.1:9464", "localhost:9464"] {
            let address: ListenAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), "127.0.0.1:9464", "{text}");
        }
        let everywhere: ListenAddress = "[::]:9464".parse().unwrap();
        assert!(everywhere.0.ip().is_unspecified());
        for text in ["", "nine", "70000", "127.0.0.1", "host:x"] {
            let error = text.parse::<ListenAddress>().unwrap_err();
            assert!(error.to_string().contains("on loopback"), "{text}");
        }
    }
}
