//! Addresses, prefixes, and what networks are given.

use std::fmt::Write as _;
use std::net::SocketAddr;

use fairq::Network;

use super::{Given, Kind, plain, quoted};

/// Where to listen.
pub(in crate::config) struct Address;

impl Kind for Address {
    type Value = SocketAddr;

    fn read(given: &Given) -> Result<SocketAddr, String> {
        let text = given.text()?;
        text.parse().map_err(|_| {
            format!("{text:?} is not an address and a port; write for instance 127.0.0.1:26680")
        })
    }

    fn toml(address: &SocketAddr) -> String {
        quoted(&address.to_string())
    }
}

/// Weights of networks.
pub(in crate::config) struct Weights;

impl Kind for Weights {
    type Value = Vec<(Network, u32)>;

    fn read(given: &Given) -> Result<Self::Value, String> {
        given
            .pairs()?
            .into_iter()
            .map(|(network, weight)| {
                let weight = weight.parse().map_err(|_| {
                    format!("the weight {weight:?} of {network} is no whole number")
                })?;
                Ok((plain(network)?, weight))
            })
            .collect()
    }

    fn toml(weights: &Self::Value) -> String {
        let mut text = String::from("{");
        for (index, (network, weight)) in weights.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(text, "{comma} {} = {weight}", quoted(&network.to_string()))
                .expect("a string takes any text");
        }
        text.push_str(if weights.is_empty() { "}" } else { " }" });
        text
    }
}

/// The length of a prefix of an address that has `LONGEST` bits.
pub(in crate::config) struct Bits<const LONGEST: u8>;

impl<const LONGEST: u8> Kind for Bits<LONGEST> {
    type Value = u8;

    fn read(given: &Given) -> Result<u8, String> {
        let text = given.text()?;
        let digits = text.strip_prefix('/').unwrap_or(text);
        match digits.parse() {
            Ok(bits) if bits <= LONGEST => Ok(bits),
            Ok(bits) => Err(format!("a prefix is 0 to {LONGEST} bits long, not {bits}")),
            Err(_) => Err(format!(
                "{text:?} is not a prefix length; write for instance 64"
            )),
        }
    }

    fn toml(bits: &u8) -> String {
        bits.to_string()
    }
}
