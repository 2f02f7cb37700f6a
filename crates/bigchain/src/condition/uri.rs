//! Condition URIs: `ni:///sha-256;` fingerprint `?fpt=` kind `&cost=` number `&subtypes=` kinds.

use std::fmt;

use super::{Condition, Kind, Kinds};
use crate::base64url;
use crate::error::Error;

const SCHEME: &str = "ni:///sha-256;";

impl fmt::Display for Condition {
    /// The condition as a URI.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{SCHEME}{}?fpt={}&cost={}",
            base64url::encode(&self.fingerprint),
            self.kind.name(),
            self.cost
        )?;
        if !self.subtypes.is_empty() {
            write!(f, "&subtypes={}", self.subtypes.names().join(","))?;
        }
        Ok(())
    }
}

impl Condition {
    /// Reads a condition URI.
    ///
    /// The parameters may be in any order.
    ///
    /// # Errors
    /// [`Error::ConditionUri`] when the text is not a condition URI.
    pub fn from_uri(text: &str) -> Result<Self, Error> {
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or(Error::ConditionUri("it must begin with ni:///sha-256;"))?;
        let (fingerprint, query) = rest
            .split_once('?')
            .ok_or(Error::ConditionUri("it has no parameters"))?;
        let fingerprint = base64url::decode(fingerprint)
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or(Error::ConditionUri(
                "the fingerprint must be 32 bytes in base64url",
            ))?;
        parameters(query, fingerprint)
    }
}

fn parameters(query: &str, fingerprint: [u8; 32]) -> Result<Condition, Error> {
    let (mut kind, mut cost, mut subtypes) = (None, None, None);
    for parameter in query.split('&') {
        let (name, value) = parameter
            .split_once('=')
            .ok_or(Error::ConditionUri("a parameter without value"))?;
        let taken = match name {
            "fpt" => kind.replace(one_kind(value)?).is_some(),
            "cost" => cost.replace(number(value)?).is_some(),
            "subtypes" => subtypes.replace(several_kinds(value)?).is_some(),
            _ => return Err(Error::ConditionUri("an unknown parameter")),
        };
        if taken {
            return Err(Error::ConditionUri("a parameter twice"));
        }
    }
    let kind = kind.ok_or(Error::ConditionUri("it has no fpt"))?;
    if subtypes.is_some() && !kind.is_compound() {
        return Err(Error::ConditionUri(
            "only prefix and threshold have subtypes",
        ));
    }
    Ok(Condition {
        kind,
        fingerprint,
        cost: cost.ok_or(Error::ConditionUri("it has no cost"))?,
        subtypes: subtypes.unwrap_or_default(),
    })
}

fn one_kind(name: &str) -> Result<Kind, Error> {
    Kind::of_name(name).ok_or(Error::ConditionUri("an unknown kind"))
}

fn several_kinds(names: &str) -> Result<Kinds, Error> {
    names
        .split(',')
        .try_fold(Kinds::EMPTY, |kinds, name| Ok(kinds.with(one_kind(name)?)))
}

fn number(digits: &str) -> Result<u64, Error> {
    const REFUSED: Error = Error::ConditionUri("the cost must be a decimal number of 64 bits");
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(REFUSED);
    }
    digits.parse().map_err(|_| REFUSED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyPair;

    #[test]
    fn a_uri_comes_back_and_its_variants_pass() {
        let key = Condition::of_key(KeyPair::from_seed([1; 32]).public());
        let condition = Condition::threshold(1, &[key]);
        let uri = condition.to_string();
        assert_eq!(Condition::from_uri(&uri), Ok(condition));
        let swapped = uri.replace(
            "fpt=threshold-sha-256&cost=132096",
            "cost=132096&fpt=threshold-sha-256",
        );
        assert_ne!(swapped, uri);
        assert_eq!(Condition::from_uri(&swapped), Ok(condition));
        for bad in [
            "",
            "ni:///sha-256;",
            "ni:///sha-256;?fpt=x",
            "ni:///sha-256;AA?fpt=rsa-sha-256&cost=1",
        ] {
            assert!(Condition::from_uri(bad).is_err(), "{bad}");
        }
        for (from, to) in [
            ("cost=132096", "cost=+1"),
            ("cost=132096", "cost="),
            ("cost=", "cost=1&cost="),
            ("cost=132096", "cost=99999999999999999999"),
            ("&cost", "&x&cost"),
            ("fpt=threshold", "fpt=ed25519"),
        ] {
            let bad = uri.replace(from, to);
            assert!(Condition::from_uri(&bad).is_err(), "{bad}");
        }
    }
}
