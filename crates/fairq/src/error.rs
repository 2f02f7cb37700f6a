//! What this crate refuses to be built from.

/// Why a setting or a text is not legal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A prefix longer than the addresses of its family.
    #[error("an {family} prefix is 0 to {longest} bits long, not {prefix}")]
    PrefixTooLong {
        /// `IPv4` or `IPv6`.
        family: &'static str,
        /// What was given, in bits.
        prefix: u8,
        /// The length of an address of that family, in bits.
        longest: u8,
    },
    /// Text that is no network.
    #[error(
        "`{text}` is not a network: {reason}; write an address such as 192.0.2.7, or a network such as 192.0.2.0/24 or 2001:db8::/32"
    )]
    NotANetwork {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A network whose address has bits set behind the prefix.
    #[error("`{text}` has bits set behind its prefix: the network is {network}")]
    HostBits {
        /// What was given.
        text: String,
        /// The network that contains it.
        network: String,
    },
    /// More networks than a map holds.
    #[error("a map of networks holds at most {limit}")]
    TooManyNetworks {
        /// The bound of the map.
        limit: usize,
    },
    /// A weight out of range.
    #[error("a weight is 1 to {heaviest}, not {weight}")]
    Weight {
        /// What was given.
        weight: u32,
        /// The greatest weight.
        heaviest: u32,
    },
    /// A bound of a queue or a table out of range.
    #[error("{name} is {least} to {most}, not {value}")]
    Limit {
        /// Which bound.
        name: &'static str,
        /// What was given.
        value: usize,
        /// The least legal value.
        least: usize,
        /// The greatest legal value.
        most: usize,
    },
}

/// `value` when it is in range, an error that names it when not.
pub(crate) fn check_limit(
    name: &'static str,
    value: usize,
    range: (usize, usize),
) -> Result<(), Error> {
    let (least, most) = range;
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::Limit {
        name,
        value,
        least,
        most,
    })
}
