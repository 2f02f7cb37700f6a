//! A transaction read from its bytes: whole, or what it says of its order and its gas without knowing its messages.

use bitcoin::secp256k1::{self, Secp256k1, ecdsa};
use sha2::{Digest, Sha256};

use crate::message::{Message, read_any};
use crate::proto::{Fields, Value};
use crate::sign::{SIGN_MODE_DIRECT, write_document};
use crate::{Address, Coin, Error, Fee, PublicKey};

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

/// What a transaction says of its place among those of its first signer, and of its gas. Nothing of it is
/// verified: who makes a transaction can write any signer into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outline {
    /// Its place in the order of its account; none for one without a sequence (`unordered`), and where the
    /// signer cannot be told.
    pub place: Option<Place>,
    /// The gas limit of its fee.
    pub gas: u64,
}

/// A place in the order of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The account's address. Of a key that is not secp256k1's, a hash that stands for it.
    pub signer: Address,
    /// The sequence.
    pub sequence: u64,
}

impl Outline {
    /// Reads `cosmos.tx.v1beta1.TxRaw`; `None` for other bytes, and for one with more than
    /// [`MOST_FIELDS`](Self::MOST_FIELDS) fields in a message.
    #[must_use]
    pub fn read(tx: &[u8]) -> Option<Self> {
        let (mut body, mut auth_info, mut is_other) = (None, None, false);
        each(tx, |field, value| match (field, value) {
            (1, Value::Bytes(bytes)) => body = Some(bytes),
            (2, Value::Bytes(bytes)) => auth_info = Some(bytes),
            (3, Value::Bytes(_)) => {}
            // A chain refuses unknown fields here.
            _ => is_other = true,
        })?;
        let (mut signer, mut gas) = (None, 0);
        each(auth_info.filter(|_| !is_other)?, |field, value| {
            match (field, value) {
                (1, Value::Bytes(bytes)) => signer = signer.or(Some(bytes)),
                (2, Value::Bytes(fee)) => gas = number(fee, 2),
                _ => {}
            }
        })?;
        let place = place(body?, signer?)?;
        Some(Self { place, gas })
    }

    /// Fields of a message that are looked at: an airdrop has some thousand messages in a transaction.
    pub const MOST_FIELDS: usize = 10_000;
}

/// The place that a body and its first signer's info name. The outer `None` is for bytes that are neither.
#[expect(clippy::option_option, reason = "not readable, and without a place")]
fn place(body: &[u8], signer: &[u8]) -> Option<Option<Place>> {
    let (mut message, mut is_unordered) = (None, false);
    each(body, |field, value| match (field, value) {
        (1, Value::Bytes(bytes)) => message = message.or(Some(bytes)),
        (4, Value::Number(flag)) => is_unordered = flag != 0,
        _ => {}
    })?;
    let (mut key, mut sequence) = (None, 0);
    each(signer, |field, value| match (field, value) {
        (1, Value::Bytes(bytes)) => key = Some(bytes),
        (3, Value::Number(number)) => sequence = number,
        _ => {}
    })?;
    let signer = match key {
        Some(key) => Some(address_of(key)),
        None => message.and_then(first_address),
    };
    let place = signer.map(|signer| Place { signer, sequence });
    Some(place.filter(|_| !is_unordered))
}

/// The address of the account of a key; that of another kind of key is a hash of it.
fn address_of(key: &[u8]) -> Address {
    PublicKey::read(key).map_or_else(|_| shortened(key), |key| key.address())
}

/// Where the chain knows the key, a transaction may leave it out: then the sender is the address in the
/// first message's first field, as in most of the SDK's messages.
fn first_address(message: &[u8]) -> Option<Address> {
    let (_, value) = read_any(message).ok()?;
    let Some(Ok((1, Value::Bytes(text)))) = Fields::of(value, "a message").next() else {
        return None;
    };
    let text = std::str::from_utf8(text.get(..text.len().min(MOST_CHARACTERS))?).ok()?;
    let (_, bytes) = bech32::decode(text).ok()?;
    Some(<[u8; 20]>::try_from(&*bytes).map_or_else(|_| shortened(&bytes), Address))
}

fn shortened(bytes: &[u8]) -> Address {
    let hash: [u8; 32] = Sha256::digest(bytes).into();
    Address(std::array::from_fn(|place| hash[place]))
}

/// A number field; 0 where there is none.
fn number(message: &[u8], wanted: u32) -> u64 {
    let mut found = 0;
    let _ = each(message, |field, value| match value {
        Value::Number(number) if field == wanted => found = number,
        _ => {}
    });
    found
}

/// Shows each field; `None` when the bytes are no message, or one with too many fields.
fn each<'a>(message: &'a [u8], mut show: impl FnMut(u32, Value<'a>)) -> Option<()> {
    let mut fields = Fields::of(message, "an outline");
    for field in fields.by_ref().take(Outline::MOST_FIELDS) {
        let (field, value) = field.ok()?;
        show(field, value);
    }
    fields.next().is_none().then_some(())
}

/// The longest text of an address: bech32's 90, and those of contracts.
const MOST_CHARACTERS: usize = 128;
