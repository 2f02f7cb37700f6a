//! A transaction's content to its bytes, and back.

use bitcoin::secp256k1::{self, Secp256k1, SignOnly, ecdsa};
use sha2::{Digest, Sha256};

use crate::message::Message;
use crate::proto::{Fields, Value};
use crate::{Coin, Error, Key, PublicKey, proto};

/// The content of a transaction.
#[derive(Debug, Clone, Copy)]
pub struct Draft<'a> {
    /// Executed in this order, all or none.
    pub messages: &'a [Message],
    /// What it pays for and how much it may use.
    pub fee: &'a Fee,
    /// A text for people.
    pub memo: &'a str,
    /// When an unordered transaction ends to be valid, in nanoseconds since the Unix epoch. Such a
    /// transaction has no sequence; this instant, unlike that of every other of its account, makes it
    /// unique (SDK 0.53, ADR-070).
    pub unordered_until_ns: Option<u64>,
}

/// What a transaction pays, and the most gas it may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fee {
    /// Sorted by denomination; empty where gas is free.
    pub coins: Vec<Coin>,
    /// Most gas.
    pub gas: u64,
}

/// Who signs, and what the chain knows of the account.
#[derive(Debug, Clone, Copy)]
pub struct Signer<'a> {
    /// The account's key.
    pub key: &'a Key,
    /// The number that the chain gave the account.
    pub account_number: u64,
    /// How many transactions of the account came before; ignored for an unordered transaction.
    pub sequence: u64,
}

/// Signs transactions; keeps its buffers from one to the next.
#[derive(Debug, Clone)]
pub struct Signing {
    secp: Secp256k1<SignOnly>,
    body: Vec<u8>,
    auth_info: Vec<u8>,
    document: Vec<u8>,
}

impl Default for Signing {
    fn default() -> Self {
        Self {
            secp: Secp256k1::signing_only(),
            body: Vec::new(),
            auth_info: Vec::new(),
            document: Vec::new(),
        }
    }
}

impl<'a> Draft<'a> {
    /// These messages, without a memo and in order.
    #[must_use]
    pub const fn new(messages: &'a [Message], fee: &'a Fee) -> Self {
        Self {
            messages,
            fee,
            memo: "",
            unordered_until_ns: None,
        }
    }

    /// `cosmos.tx.v1beta1.TxBody`.
    fn write_body(&self, out: &mut Vec<u8>) {
        for message in self.messages {
            proto::nested(out, 1, |out| message.write(out));
        }
        proto::bytes(out, 2, self.memo.as_bytes());
        if let Some(until_ns) = self.unordered_until_ns {
            proto::number(out, 4, 1);
            proto::nested(out, 5, |out| {
                proto::number(out, 1, until_ns / NANOS_PER_SECOND);
                proto::number(out, 2, until_ns % NANOS_PER_SECOND);
            });
        }
    }

    /// `cosmos.tx.v1beta1.AuthInfo`.
    fn write_auth_info(&self, signer: &Signer<'_>, out: &mut Vec<u8>) {
        proto::nested(out, 1, |out| {
            proto::nested(out, 1, |out| signer.key.public().write(out));
            proto::nested(out, 2, |out| {
                proto::nested(out, 1, |out| proto::number(out, 1, SIGN_MODE_DIRECT));
            });
            let sequence = match self.unordered_until_ns {
                Some(_) => 0,
                None => signer.sequence,
            };
            proto::number(out, 3, sequence);
        });
        proto::nested(out, 2, |out| {
            for coin in &self.fee.coins {
                proto::nested(out, 1, |out| coin.write(out));
            }
            proto::number(out, 2, self.fee.gas);
        });
    }
}

impl Signing {
    /// Appends `cosmos.tx.v1beta1.TxRaw` to `out`, signed for a chain in SIGN_MODE_DIRECT.
    pub fn sign(
        &mut self,
        chain_id: &str,
        draft: &Draft<'_>,
        signer: &Signer<'_>,
        out: &mut Vec<u8>,
    ) {
        self.body.clear();
        draft.write_body(&mut self.body);
        self.auth_info.clear();
        draft.write_auth_info(signer, &mut self.auth_info);
        self.document.clear();
        let parts = (&*self.body, &*self.auth_info);
        write_document(&mut self.document, parts, chain_id, signer.account_number);
        let digest = secp256k1::Message::from_digest(Sha256::digest(&self.document).into());
        let signature = self.secp.sign_ecdsa(&digest, &signer.key.secret);
        proto::bytes(out, 1, &self.body);
        proto::bytes(out, 2, &self.auth_info);
        proto::bytes(out, 3, &signature.serialize_compact());
    }
}

/// Appends `cosmos.tx.v1beta1.SignDoc` of a body and an auth info.
pub(crate) fn write_document(
    out: &mut Vec<u8>,
    (body, auth_info): (&[u8], &[u8]),
    chain_id: &str,
    account_number: u64,
) {
    proto::bytes(out, 1, body);
    proto::bytes(out, 2, auth_info);
    proto::bytes(out, 3, chain_id.as_bytes());
    proto::number(out, 4, account_number);
}

pub(crate) const SIGN_MODE_DIRECT: u64 = 1;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

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

/// A transaction's data about its signer.
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
