//! What a transaction asks the chain to do.

use crate::proto::{self, Fields, Value};
use crate::{Address, Coin, Error, Prefix};

/// A message, as its type's URL and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    type_url: String,
    value: Vec<u8>,
}

/// A transfer of coins that a message of the bank module asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// The payer's address, as text.
    pub from: String,
    /// Who is paid, as text.
    pub to: String,
    /// What is paid.
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
        Self::new(MULTI_SEND, value)
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

    /// The transfers that it asks for; `None` for a message of another kind.
    ///
    /// # Errors
    /// [`Error::Malformed`] when the message is not what its type says.
    pub fn payments(&self) -> Result<Option<Vec<Payment>>, Error> {
        match &*self.type_url {
            SEND => read_payment(&self.value, SEND, 3).map(|payment| Some(vec![payment])),
            MULTI_SEND => {
                let mut from = String::new();
                let mut payments = Vec::new();
                for field in Fields::of(&self.value, MULTI_SEND) {
                    let (number, value) = field?;
                    let party = read_payment(value.bytes(MULTI_SEND)?, MULTI_SEND, 2)?;
                    match number {
                        1 => from = party.from,
                        2 => payments.push(Payment {
                            to: party.from,
                            from: from.clone(),
                            coins: party.coins,
                        }),
                        _ => {}
                    }
                }
                Ok(Some(payments))
            }
            _ => Ok(None),
        }
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

/// A message with an address in field 1, coins in `coins`, and in between who is paid.
fn read_payment(message: &[u8], what: &'static str, coins: u32) -> Result<Payment, Error> {
    let mut read = Payment {
        from: String::new(),
        to: String::new(),
        coins: Vec::new(),
    };
    for field in Fields::of(message, what) {
        match field? {
            (1, value) => read.from = value.text(what)?.to_owned(),
            (number, value) if number == coins => read.coins.push(Coin::read(value.bytes(what)?)?),
            (2, value) => read.to = value.text(what)?.to_owned(),
            _ => {}
        }
    }
    Ok(read)
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
const MULTI_SEND: &str = "/cosmos.bank.v1beta1.MsgMultiSend";
const ANY: &str = "an Any";
/// Of a payment.
const TYPICAL_BYTES: usize = 128;
