//! What a transaction asks the chain to do.

use crate::proto::{self, Fields, Value};
use crate::{Address, Coin, Error, Prefix};

/// A message, as its type's URL and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    type_url: String,
    value: Vec<u8>,
}

/// Coins that a message of the bank module moves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Who pays.
    pub inputs: Vec<Party>,
    /// Who is paid.
    pub outputs: Vec<Party>,
}

/// Who pays or is paid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Party {
    /// The address, as text.
    pub address: String,
    /// How much.
    pub coins: Vec<Coin>,
}

impl Message {
    /// Any message.
    #[must_use]
    pub fn new(type_url: impl Into<String>, value: Vec<u8>) -> Self {
        Self {
            type_url: type_url.into(),
            value,
        }
    }

    /// `cosmos.bank.v1beta1.MsgSend`.
    #[must_use]
    pub fn send(prefix: &Prefix, from: Address, to: Address, coin: &Coin) -> Self {
        let mut value = Vec::with_capacity(TYPICAL_BYTES);
        payment(&mut value, &prefix.write(from), coin, |out| {
            proto::bytes(out, 2, prefix.write(to).as_bytes());
            3
        });
        Self::new(SEND, value)
    }

    /// `cosmos.bank.v1beta1.MsgMultiSend`: one payer, and as much for each of those who are paid.
    #[must_use]
    pub fn multi_send(prefix: &Prefix, from: Address, to: &[Address], coin: &Coin) -> Self {
        let mut value = Vec::with_capacity(TYPICAL_BYTES * to.len());
        let party = |out: &mut Vec<u8>, field, address, coin: &Coin| {
            proto::nested(out, field, |out| {
                payment(out, &prefix.write(address), coin, |_| 2);
            });
        };
        let paid = coin.amount.saturating_mul(to.len() as u128);
        party(&mut value, 1, from, &Coin::new(paid, coin.denom.clone()));
        for address in to {
            party(&mut value, 2, *address, coin);
        }
        Self::new(Self::MULTI_SEND, value)
    }

    /// The URL of its type.
    #[must_use]
    pub fn type_url(&self) -> &str {
        &self.type_url
    }

    /// Appends `google.protobuf.Any`.
    pub fn write(&self, out: &mut Vec<u8>) {
        proto::any(out, &self.type_url, |out| {
            out.extend_from_slice(&self.value);
        });
    }

    /// Reads `google.protobuf.Any`.
    ///
    /// # Errors
    /// [`Error::Malformed`] when it is none.
    pub fn read(message: &[u8]) -> Result<Self, Error> {
        let (type_url, value) = read_any(message)?;
        Ok(Self::new(type_url, value.to_vec()))
    }

    /// The transfer that it asks for; `None` for a message of another kind.
    ///
    /// # Errors
    /// [`Error::Malformed`] when the message is not of its type.
    pub fn transfer(&self) -> Result<Option<Transfer>, Error> {
        let mut transfer = Transfer::default();
        match &*self.type_url {
            SEND => {
                let (mut from, mut to) = (Party::default(), Party::default());
                for field in Fields::of(&self.value, SEND) {
                    match field? {
                        (1, value) => value.text(SEND)?.clone_into(&mut from.address),
                        (2, value) => value.text(SEND)?.clone_into(&mut to.address),
                        (3, value) => from.coins.push(Coin::read(value.bytes(SEND)?)?),
                        _ => {}
                    }
                }
                to.coins.clone_from(&from.coins);
                transfer.inputs.push(from);
                transfer.outputs.push(to);
            }
            Self::MULTI_SEND => {
                for field in Fields::of(&self.value, Self::MULTI_SEND) {
                    match field? {
                        (1, value) => transfer.inputs.push(Party::read(value)?),
                        (2, value) => transfer.outputs.push(Party::read(value)?),
                        _ => {}
                    }
                }
            }
            _ => return Ok(None),
        }
        Ok(Some(transfer))
    }

    /// The type of the message with several recipients.
    pub const MULTI_SEND: &str = "/cosmos.bank.v1beta1.MsgMultiSend";
}

impl Party {
    fn read(party: Value<'_>) -> Result<Self, Error> {
        let what = Message::MULTI_SEND;
        let mut read = Self::default();
        for field in Fields::of(party.bytes(what)?, what) {
            match field? {
                (1, value) => value.text(what)?.clone_into(&mut read.address),
                (2, value) => read.coins.push(Coin::read(value.bytes(what)?)?),
                _ => {}
            }
        }
        Ok(read)
    }
}

/// An address, what stands between, and the coins; `between` gives the number of the coins' field.
fn payment(
    out: &mut Vec<u8>,
    address: &str,
    coin: &Coin,
    between: impl FnOnce(&mut Vec<u8>) -> u8,
) {
    proto::bytes(out, 1, address.as_bytes());
    let field = between(out);
    proto::nested(out, field, |out| coin.write(out));
}

/// The type's URL and the bytes of `google.protobuf.Any`.
pub(crate) fn read_any(message: &[u8]) -> Result<(&str, &[u8]), Error> {
    let mut any = ("", &[][..]);
    for field in Fields::of(message, ANY) {
        match field? {
            (1, value) => any.0 = value.text(ANY)?,
            (2, Value::Bytes(value)) => any.1 = value,
            _ => {}
        }
    }
    Ok(any)
}

const SEND: &str = "/cosmos.bank.v1beta1.MsgSend";
const ANY: &str = "an Any";
/// Of a payment.
const TYPICAL_BYTES: usize = 128;
