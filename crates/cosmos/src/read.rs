//! A transaction read from its bytes.

use bitcoin::secp256k1::{self, Secp256k1, ecdsa};
use sha2::{Digest, Sha256};

use crate::message::Message;
use crate::proto::{Fields, Value};
use crate::sign::{SIGN_MODE_DIRECT, write_document};
use crate::{Coin, Error, Fee, PublicKey};

/// A transaction with one signer who signed in SIGN_MODE_DIRECT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedTx<'a> {
    body: &'a [u8],
    auth_info: &'a [u8],
    signature: &'a [u8],
    size: usize,
    /// In their order.
    pub messages: Vec<Message>,
    /// The text for people.
    pub memo: &'a str,
    /// The last height of a block that may hold it; 0 for any.
    pub timeout_height: u64,
    /// Whether it has no sequence.
    pub unordered: bool,
    /// Who signed.
    pub signer: Signed,
    /// What it pays.
    pub fee: Fee,
}

/// What a transaction says of its signer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signed {
    /// The key; absent where the chain knows it.
    pub key: Option<PublicKey>,
    /// The sequence.
    pub sequence: u64,
}

impl<'a> SignedTx<'a> {
    /// Reads `cosmos.tx.v1beta1.TxRaw`.
    ///
    /// # Errors
    /// [`Error::Malformed`] when it is none, or has not exactly one signer of this kind.
    pub fn read(tx: &'a [u8]) -> Result<Self, Error> {
        let mut read = Self {
            body: &[],
            auth_info: &[],
            signature: &[],
            size: tx.len(),
            messages: Vec::new(),
            memo: "",
            timeout_height: 0,
            unordered: false,
            signer: Signed {
                key: None,
                sequence: 0,
            },
            fee: Fee::default(),
        };
        for field in Fields::of(tx, TX) {
            match field? {
                (1, value) => read.body = value.bytes(TX)?,
                (2, value) => read.auth_info = value.bytes(TX)?,
                (3, value) if read.signature.is_empty() => read.signature = value.bytes(TX)?,
                _ => return Err(Error::Malformed(TX)),
            }
        }
        read.read_body()?;
        read.read_auth_info()?;
        Ok(read)
    }

    /// Its bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// The signature; empty where there is none.
    #[must_use]
    pub const fn signature(&self) -> &[u8] {
        self.signature
    }

    /// Whether the signature is that of its key for this chain and account.
    #[must_use]
    pub fn is_signed_for(&self, chain_id: &str, account_number: u64) -> bool {
        self.signer
            .key
            .is_some_and(|key| self.is_signed_by(&key, chain_id, account_number))
    }

    /// Whether the signature is that of this key for this chain and account.
    #[must_use]
    pub fn is_signed_by(&self, key: &PublicKey, chain_id: &str, account_number: u64) -> bool {
        let parts = (self.body, self.auth_info);
        let mut document = Vec::with_capacity(self.body.len() + self.auth_info.len() + 64);
        write_document(&mut document, parts, chain_id, account_number);
        let digest = secp256k1::Message::from_digest(Sha256::digest(&document).into());
        let key = secp256k1::PublicKey::from_slice(&key.0);
        let signature = ecdsa::Signature::from_compact(self.signature);
        match (key, signature) {
            (Ok(key), Ok(signature)) => {
                let secp = Secp256k1::verification_only();
                secp.verify_ecdsa(&digest, &signature, &key).is_ok()
            }
            _ => false,
        }
    }

    fn read_body(&mut self) -> Result<(), Error> {
        for field in Fields::of(self.body, BODY) {
            match field? {
                (1, value) => self.messages.push(Message::read(value.bytes(BODY)?)?),
                (2, value) => self.memo = value.text(BODY)?,
                (3, value) => self.timeout_height = value.number(BODY)?,
                (4, value) => self.unordered = value.number(BODY)? != 0,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_auth_info(&mut self) -> Result<(), Error> {
        let mut signers = 0;
        for field in Fields::of(self.auth_info, AUTH_INFO) {
            match field? {
                (1, value) => {
                    signers += 1;
                    self.signer = Signed::read(value.bytes(AUTH_INFO)?)?;
                }
                (2, value) => self.fee = Fee::read(value.bytes(AUTH_INFO)?)?,
                _ => {}
            }
        }
        match signers {
            1 => Ok(()),
            _ => Err(Error::Malformed(AUTH_INFO)),
        }
    }
}

impl Signed {
    fn read(message: &[u8]) -> Result<Self, Error> {
        let mut signed = Self {
            key: None,
            sequence: 0,
        };
        for field in Fields::of(message, SIGNER) {
            match field? {
                (1, value) => signed.key = Some(PublicKey::read(value.bytes(SIGNER)?)?),
                (2, value) if !is_direct(value)? => return Err(Error::Malformed(SIGNER)),
                (3, value) => signed.sequence = value.number(SIGNER)?,
                _ => {}
            }
        }
        Ok(signed)
    }
}

impl Fee {
    fn read(message: &[u8]) -> Result<Self, Error> {
        let mut fee = Self::default();
        for field in Fields::of(message, FEE) {
            match field? {
                (1, value) => fee.coins.push(Coin::read(value.bytes(FEE)?)?),
                (2, value) => fee.gas = value.number(FEE)?,
                _ => {}
            }
        }
        Ok(fee)
    }
}

/// Whether a `ModeInfo` is that of one signer in SIGN_MODE_DIRECT.
fn is_direct(mode: Value<'_>) -> Result<bool, Error> {
    let single = Fields::of(mode.bytes(SIGNER)?, SIGNER).next().transpose()?;
    let Some((1, Value::Bytes(single))) = single else {
        return Ok(false);
    };
    let mode = Fields::of(single, SIGNER).next().transpose()?;
    Ok(mode == Some((1, Value::Number(SIGN_MODE_DIRECT))))
}

const TX: &str = "the transaction";
const BODY: &str = "the transaction's body";
const AUTH_INFO: &str = "the transaction's auth info";
const SIGNER: &str = "the transaction's signer info";
const FEE: &str = "the transaction's fee";
