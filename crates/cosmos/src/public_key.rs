//! Public keys of accounts.

use ripemd::Ripemd160;
use sha2::{Digest, Sha256};

use crate::message::read_any;
use crate::proto::{self, Fields, Value};
use crate::{Address, Error};

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
