//! Accounts' addresses.

use std::fmt;

use bech32::{Bech32, Hrp};
use ripemd::Ripemd160;
use sha2::{Digest, Sha256};

use crate::Error;
use crate::message::read_any;
use crate::proto::{self, Fields, Value};

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

/// A compressed secp256k1 key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(pub [u8; 33]);

impl PublicKey {
    /// The address of the account that signs with it.
    #[must_use]
    pub fn address(&self) -> Address {
        Address(Ripemd160::digest(Sha256::digest(self.0)).into())
    }

    /// Reads an `Any` with a secp256k1 key.
    ///
    /// # Errors
    /// [`Error::Malformed`] when it is none.
    pub fn read(any: &[u8]) -> Result<Self, Error> {
        let (type_url, value) = read_any(any)?;
        if type_url != TYPE_URL {
            return Err(Error::Malformed(WHAT));
        }
        let key = Fields::of(value, WHAT).next();
        let Some((1, Value::Bytes(key))) = key.transpose()? else {
            return Err(Error::Malformed(WHAT));
        };
        key.try_into().map(Self).map_err(|_| Error::Malformed(WHAT))
    }

    /// Appends an `Any` with the key.
    pub fn write(&self, out: &mut Vec<u8>) {
        proto::any(out, TYPE_URL, |out| {
            proto::bytes(out, 1, &self.0);
        });
    }
}

const TYPE_URL: &str = "/cosmos.crypto.secp256k1.PubKey";
const WHAT: &str = "the transaction's signer info";

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
