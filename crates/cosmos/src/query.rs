//! What a chain is asked through `abci_query`, and what it answers: paths, requests and replies of the
//! gRPC services that the SDK routes there.

use crate::message::read_any;
use crate::proto::{self, Fields, Value};
use crate::{Coin, Error, PublicKey};

/// `cosmos.auth.v1beta1`: an account by its address.
pub const ACCOUNT: &str = "/cosmos.auth.v1beta1.Query/Account";
/// `cosmos.auth.v1beta1`: what addresses begin with.
pub const BECH32_PREFIX: &str = "/cosmos.auth.v1beta1.Query/Bech32Prefix";
/// `cosmos.bank.v1beta1`: how much an account has of a denomination.
pub const BALANCE: &str = "/cosmos.bank.v1beta1.Query/Balance";
/// `cosmos.staking.v1beta1`: parameters, of them the denomination that is staked.
pub const STAKING_PARAMS: &str = "/cosmos.staking.v1beta1.Query/Params";
/// `cosmos.base.node`: the node's own settings, of them its least price of gas.
pub const NODE_CONFIG: &str = "/cosmos.base.node.v1beta1.Service/Config";
/// `cosmos.tx.v1beta1`: executes a transaction without effect.
pub const SIMULATE: &str = "/cosmos.tx.v1beta1.Service/Simulate";

/// What the chain knows of an account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// The address, as text.
    pub address: String,
    /// The key, once the account has signed something.
    pub key: Option<PublicKey>,
    /// The number that the chain gave it.
    pub number: u64,
    /// How many of its transactions have been executed.
    pub sequence: u64,
}

/// A request with an address in its first field: for [`ACCOUNT`].
#[must_use]
pub fn account_request(address: &str) -> Vec<u8> {
    let mut out = Vec::new();
    proto::bytes(&mut out, 1, address.as_bytes());
    out
}

/// A request for [`BALANCE`].
#[must_use]
pub fn balance_request(address: &str, denom: &str) -> Vec<u8> {
    let mut out = account_request(address);
    proto::bytes(&mut out, 2, denom.as_bytes());
    out
}

/// A request for [`SIMULATE`].
#[must_use]
pub fn simulate_request(tx: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    proto::bytes(&mut out, 2, tx);
    out
}

/// The texts of a request whose fields 1 and 2 are texts.
///
/// # Errors
/// [`Error::Malformed`] when it is none.
pub fn read_texts(request: &[u8]) -> Result<[&str; 2], Error> {
    let mut texts = [""; 2];
    for field in Fields::of(request, REQUEST) {
        if let (number @ (1 | 2), value) = field? {
            texts[number as usize - 1] = value.text(REQUEST)?;
        }
    }
    Ok(texts)
}

/// The transaction of a request for [`SIMULATE`].
///
/// # Errors
/// [`Error::Malformed`] when it is none.
pub fn read_simulate_request(request: &[u8]) -> Result<&[u8], Error> {
    bytes_of(request, 2, REQUEST)
}

impl Account {
    /// Reads the reply of [`ACCOUNT`].
    ///
    /// # Errors
    /// [`Error::Account`] for an account of another kind, as a module or with vesting.
    pub fn read(reply: &[u8]) -> Result<Self, Error> {
        let (type_url, value) = read_any(bytes_of(reply, 1, ACCOUNT_REPLY)?)?;
        if type_url != BASE_ACCOUNT {
            let name = type_url.rsplit('.').next().unwrap_or(type_url);
            return Err(Error::Account(name.to_owned()));
        }
        let mut account = Self::default();
        for field in Fields::of(value, ACCOUNT_REPLY) {
            match field? {
                (1, value) => value.text(ACCOUNT_REPLY)?.clone_into(&mut account.address),
                (2, value) => {
                    // A key of another kind: the account is not one of ours.
                    account.key = PublicKey::read(value.bytes(ACCOUNT_REPLY)?).ok();
                }
                (3, value) => account.number = value.number(ACCOUNT_REPLY)?,
                (4, value) => account.sequence = value.number(ACCOUNT_REPLY)?,
                _ => {}
            }
        }
        Ok(account)
    }

    /// The reply of [`ACCOUNT`].
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        proto::nested(&mut out, 1, |out| {
            proto::any(out, BASE_ACCOUNT, |out| {
                proto::bytes(out, 1, self.address.as_bytes());
                if let Some(key) = &self.key {
                    proto::nested(out, 2, |out| key.write(out));
                }
                proto::number(out, 3, self.number);
                proto::number(out, 4, self.sequence);
            });
        });
        out
    }
}

/// The text in the first field: the reply of [`BECH32_PREFIX`], and of [`NODE_CONFIG`] the least price.
///
/// # Errors
/// [`Error::Malformed`] when it is none.
pub fn read_first_text(reply: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes_of(reply, 1, REPLY)?).map_err(|_| Error::Malformed(REPLY))
}

/// The balance in the reply of [`BALANCE`].
///
/// # Errors
/// [`Error::Malformed`] when it is none.
pub fn read_balance(reply: &[u8]) -> Result<Coin, Error> {
    Coin::read(bytes_of(reply, 1, REPLY)?)
}

/// The staked denomination in the reply of [`STAKING_PARAMS`].
///
/// # Errors
/// [`Error::Malformed`] when it is none.
pub fn read_bond_denom(reply: &[u8]) -> Result<&str, Error> {
    let denom = bytes_of(bytes_of(reply, 1, REPLY)?, 5, REPLY)?;
    std::str::from_utf8(denom).map_err(|_| Error::Malformed(REPLY))
}

/// The gas used in the reply of [`SIMULATE`].
///
/// # Errors
/// [`Error::Malformed`] when it is none.
pub fn read_gas_used(reply: &[u8]) -> Result<u64, Error> {
    for field in Fields::of(bytes_of(reply, 1, REPLY)?, REPLY) {
        if let (2, value) = field? {
            return Ok(value.number(REPLY)?);
        }
    }
    Ok(0)
}

/// The reply of [`SIMULATE`], as far as it is read here.
#[must_use]
pub fn write_gas_used(used: u64) -> Vec<u8> {
    let mut out = Vec::new();
    proto::nested(&mut out, 1, |out| proto::number(out, 2, used));
    out
}

/// The bytes in a field of a message; empty when it is left out.
fn bytes_of<'a>(message: &'a [u8], wanted: u32, what: &'static str) -> Result<&'a [u8], Error> {
    let mut found = &[][..];
    for field in Fields::of(message, what) {
        if let (number, Value::Bytes(value)) = field?
            && number == wanted
        {
            found = value;
        }
    }
    Ok(found)
}

const BASE_ACCOUNT: &str = "/cosmos.auth.v1beta1.BaseAccount";
const ACCOUNT_REPLY: &str = "the chain's answer about an account";
const REQUEST: &str = "the request";
const REPLY: &str = "the chain's answer";
