//! Where nodes listen, and which nodes dial which others.

use core::net::IpAddr;
use std::{fmt, str::FromStr};

use base::Random;

/// For each of `nodes` nodes, the nodes that it dials so that each pair has one link.
pub fn full(nodes: usize) -> Vec<Vec<usize>> {
    (0..nodes).map(|node| (0..node).collect()).collect()
}

/// For each of `nodes` nodes, `links` random others that it dials; no pair is linked twice.
///
/// A node dials one that came before it, so the graph is connected for `links` of 1 and more; the
/// first nodes have fewer to choose from. A node has about twice as many links as it dials.
pub fn random(nodes: usize, links: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut random = Random::new(seed);
    (0..nodes)
        .map(|node| {
            let mut others: Vec<usize> = (0..node).collect();
            shuffle(&mut others, &mut random);
            others.truncate(links);
            others
        })
        .collect()
}

/// Fisher and Yates.
pub(crate) fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(last + 1, random));
    }
}

/// A number of 0 to `bound` − 1; 0 for a bound of 0.
pub(crate) fn below(bound: usize, random: &mut Random) -> usize {
    ((random.unit() * bound as f64) as usize).min(bound.saturating_sub(1))
}

/// A host and the port on which a node accepts connections.
///
/// The rules are those of factom-p2p, endpoint.go, except that its ports may also be negative or
/// above 65,535 there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    host: String,
    port: u16,
}

/// RFC 952's longest host name, in bytes.
const LONGEST_HOST: usize = 253;
/// RFC 1035's longest label, in bytes.
const LONGEST_LABEL: usize = 63;

impl Endpoint {
    /// An address or a host name, and a port of 1 to 65,535.
    ///
    /// # Errors
    /// The host is neither an address nor a host name, or the port is 0.
    pub fn new(host: &str, port: u16) -> Result<Self, EndpointError> {
        if port == 0 || !(host.parse::<IpAddr>().is_ok() || is_host_name(host)) {
            return Err(EndpointError(format!("{host}:{port}")));
        }
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }

    /// From a port written as text, as all versions carry it.
    ///
    /// # Errors
    /// As [`Endpoint::new`], or the port is no number of 1 to 65,535.
    pub fn from_texts(host: &str, port: &str) -> Result<Self, EndpointError> {
        match port.parse() {
            Ok(port) => Self::new(host, port),
            Err(_) => Err(EndpointError(format!("{host}:{port}"))),
        }
    }

    /// The address or host name.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// 1 to 65,535.
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let Some((host, port)) = text.rsplit_once(':') else {
            return Err(EndpointError(text.to_owned()));
        };
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        Self::from_texts(host, port)
    }
}

fn is_host_name(host: &str) -> bool {
    !host.is_empty()
        && host.len() <= LONGEST_HOST
        && host.split('.').all(|label| {
            (1..=LONGEST_LABEL).contains(&label.len())
                && !label.starts_with('-')
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        })
}

/// A text that names no endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an endpoint; write a host and a port of 1 to 65535, such as 127.0.0.1:8108")]
pub struct EndpointError(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_host_names_are_endpoints_and_other_texts_are_not() {
        for good in ["127.0.0.1:1", "[::1]:8108", "node-1.example:65535"] {
            assert_eq!(good.parse::<Endpoint>().unwrap().to_string(), good);
        }
        for bad in [
            "", "a", "a:0", "a:65536", "-a:1", "a..b:1", "a b:1", "a:-1", ":1",
        ] {
            assert!(bad.parse::<Endpoint>().is_err(), "{bad}");
        }
    }
}
