//! Accounts' addresses.

use std::fmt;

use bech32::{Bech32, Hrp};

use crate::Error;

/// The 20 bytes of an address: RIPEMD-160 of SHA-256 of the public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(pub [u8; 20]);

/// What the addresses of a chain begin with, for instance `cosmos`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix(Hrp);

impl Prefix {
    /// Reads a prefix.
    ///
    /// # Errors
    /// [`Error::Prefix`] when bech32 does not allow it.
    pub fn new(text: &str) -> Result<Self, Error> {
        let refused = || Error::Prefix(text.to_owned());
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(refused());
        }
        Hrp::parse(text).map(Self).map_err(|_| refused())
    }

    /// The address as the chain writes it.
    #[must_use]
    pub fn write(&self, address: Address) -> String {
        bech32::encode::<Bech32>(self.0, &address.0).expect("20 bytes fit into a bech32 text")
    }

    /// Reads an address of this chain.
    ///
    /// # Errors
    /// [`Error::Address`] when it is none.
    pub fn read(&self, text: &str) -> Result<Address, Error> {
        let refused = || Error::Address {
            text: text.chars().take(MAX_CHARS).collect(),
            prefix: self.to_string(),
        };
        let (prefix, bytes) = bech32::decode(text).map_err(|_| refused())?;
        let bytes: [u8; 20] = bytes.try_into().map_err(|_| refused())?;
        if prefix.to_lowercase() != self.0.to_lowercase() {
            return Err(refused());
        }
        Ok(Address(bytes))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// Of a text that is no address, in messages.
const MAX_CHARS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_another_chain_is_refused_by_name() {
        let (cosmos, osmo) = (Prefix::new("cosmos").unwrap(), Prefix::new("osmo").unwrap());
        let text = osmo.write(Address([9; 20]));
        assert_eq!(osmo.read(&text).unwrap(), Address([9; 20]));
        let error = cosmos.read(&text).unwrap_err().to_string();
        assert!(error.contains("the prefix \"cosmos\""), "{error}");
        assert!(Prefix::new("Cosmos").is_err());
        assert!(Prefix::new("").is_err());
    }
}
