//! A transaction's signer, sequence and gas, read without decoding its messages.

use sha2::{Digest, Sha256};

use crate::message::read_any;
use crate::proto::{Fields, Value};
use crate::{Address, PublicKey};

/// A transaction's place among those of its first signer, and its gas, as it claims them. Nothing of it is
/// verified: a transaction can name any signer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outline {
    /// Its place in the order of its account; none for one without a sequence (`unordered`), and where the
    /// signer is unknown.
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
