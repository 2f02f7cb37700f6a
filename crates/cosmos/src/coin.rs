//! Amounts of coins and prices of gas.

use std::fmt;
use std::str::FromStr;

use crate::Error;
use crate::proto::{self, Fields};

/// An amount of one denomination.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Coin {
    /// How many of the smallest unit. The SDK's integers have 256 bits; no supply needs more than 128.
    pub amount: u128,
    /// The denomination, for instance `stake` or `uatom`.
    pub denom: String,
}

/// The price of a unit of gas in one denomination, with 18 decimal places as the SDK has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GasPrice {
    /// In 10⁻¹⁸ of the smallest unit.
    pub atto: u128,
    /// The denomination.
    pub denom: String,
}

impl Coin {
    /// So many of this denomination.
    #[must_use]
    pub fn new(amount: u128, denom: impl Into<String>) -> Self {
        Self {
            amount,
            denom: denom.into(),
        }
    }

    /// Appends `cosmos.base.v1beta1.Coin`.
    pub fn write(&self, out: &mut Vec<u8>) {
        proto::bytes(out, 1, self.denom.as_bytes());
        proto::nested(out, 2, |out| decimal(out, self.amount));
    }

    /// Reads `cosmos.base.v1beta1.Coin`.
    ///
    /// # Errors
    /// [`Error::Malformed`] when it is none.
    pub fn read(message: &[u8]) -> Result<Self, Error> {
        let mut coin = Self::new(0, "");
        for field in Fields::of(message, COIN) {
            match field? {
                (1, value) => coin.denom = value.text(COIN)?.to_owned(),
                (2, value) => {
                    let text = value.text(COIN)?;
                    coin.amount = text.parse().map_err(|_| Error::Malformed(COIN))?;
                }
                _ => {}
            }
        }
        Ok(coin)
    }
}

/// Appends a number's decimal digits.
pub fn decimal(out: &mut Vec<u8>, number: u128) {
    let mut digits = [0; 39];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break out.extend_from_slice(&digits[at..]);
        }
    }
}

impl GasPrice {
    /// What so much gas costs, rounded up as the SDK rounds what it asks for.
    #[must_use]
    pub fn of(&self, gas: u64) -> Coin {
        let cost = self.atto.saturating_mul(u128::from(gas)).div_ceil(ATTO);
        Coin::new(cost, self.denom.clone())
    }
}

impl FromStr for Coin {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (number, denom) = split(text)?;
        let amount = number.parse().map_err(|_| Error::Coin(text.to_owned()))?;
        Ok(Self::new(amount, denom))
    }
}

impl FromStr for GasPrice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = || Error::Coin(text.to_owned());
        let (number, denom) = split(text)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.len() > PLACES {
            return Err(refused());
        }
        let atto = format!("{whole}{fraction:0<PLACES$}");
        Ok(Self {
            atto: atto.parse().map_err(|_| refused())?,
            denom: denom.to_owned(),
        })
    }
}

/// The number and the denomination behind it.
fn split(text: &str) -> Result<(&str, &str), Error> {
    let is_number = |character: char| character.is_ascii_digit() || character == '.';
    let end = text.find(|character| !is_number(character));
    let (number, denom) = text.split_at(end.unwrap_or(text.len()));
    // SDK, types/coin.go: a letter, then letters, digits and a few marks, 3 to 128 in all.
    let legal = |c: char| c.is_ascii_alphanumeric() || "/:._-".contains(c);
    let is_denom = (3..=128).contains(&denom.len())
        && denom.starts_with(|first: char| first.is_ascii_alphabetic())
        && denom.chars().all(legal);
    if is_denom && number.starts_with(|first: char| first.is_ascii_digit()) {
        Ok((number, denom))
    } else {
        Err(Error::Coin(text.to_owned()))
    }
}

impl fmt::Display for Coin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.amount, self.denom)
    }
}

impl fmt::Display for GasPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = format!("{:018}", self.atto % ATTO);
        write!(f, "{}", self.atto / ATTO)?;
        match fraction.trim_end_matches('0') {
            "" => {}
            digits => write!(f, ".{digits}")?,
        }
        f.write_str(&self.denom)
    }
}

const COIN: &str = "a coin";
/// SDK, `math.LegacyPrecision`.
const PLACES: usize = 18;
const ATTO: u128 = 1_000_000_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_prices_are_read_as_the_sdk_writes_them() {
        assert_eq!("200stake".parse::<Coin>().unwrap(), Coin::new(200, "stake"));
        let price: GasPrice = "0.025uatom".parse().unwrap();
        assert_eq!(price.of(80_001), Coin::new(2_001, "uatom"), "rounded up");
        assert_eq!(price.to_string(), "0.025uatom");
        let whole: GasPrice = "3.000000000000000000stake".parse().unwrap();
        assert_eq!(whole.to_string(), "3stake");
        for wrong in [
            "",
            "stake",
            "1",
            "1x",
            "-1stake",
            "1.5.2stake",
            "1 stake",
            "1.5stake",
        ] {
            assert!(wrong.parse::<Coin>().is_err(), "{wrong}");
        }
    }
}
