//! Reading fulfillments, and condition URIs: `ni:///sha-256;` fingerprint `?fpt=` kind `&cost=` number `&subtypes=`
//! kinds.

use std::fmt;

use super::der::Reader;
use super::{Condition, Ed25519, Fulfillment, Kind, Kinds, Prefix, Threshold};
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

/// Deepest nesting of prefixes and thresholds that is read; the bound of the recursion.
pub const MAX_NESTING: usize = 100;

impl Fulfillment {
    /// Reads a fulfillment from its text.
    ///
    /// # Errors
    /// [`Error::Base64`] or [`Error::Der`]. It admits what the original's decoder admits: bytes after the end, lengths
    /// in more bytes than they take, sets in any order.
    pub fn from_uri(text: &str) -> Result<Self, Error> {
        Self::from_der(&base64url::decode(text)?)
    }

    /// Reads a fulfillment in DER.
    ///
    /// # Errors
    /// [`Error::Der`], as [`Self::from_uri`].
    pub fn from_der(bytes: &[u8]) -> Result<Self, Error> {
        read(&mut Reader::new(bytes), MAX_NESTING)
    }
}

fn read(reader: &mut Reader<'_>, levels_left: usize) -> Result<Fulfillment, Error> {
    let (tag, mut content) = reader.nested()?;
    let kind = Kind::of_tag(tag).ok_or(Error::Der("a kind that does not exist"))?;
    let levels_left = levels_left
        .checked_sub(1)
        .ok_or(Error::Der("nested too deeply"))?;
    let fulfillment = match kind {
        Kind::Preimage => Fulfillment::Preimage(content.content(0x80)?.to_vec()),
        Kind::Prefix => Fulfillment::Prefix(Box::new(prefix(&mut content, levels_left)?)),
        Kind::Threshold => Fulfillment::Threshold(threshold(&mut content, levels_left)?),
        Kind::Rsa => return Err(Error::Der("RSA, which no transaction carries")),
        Kind::Ed25519 => Fulfillment::Ed25519(ed25519(&mut content)?),
    };
    content.end()?;
    Ok(fulfillment)
}

fn prefix(content: &mut Reader<'_>, levels_left: usize) -> Result<Prefix, Error> {
    let prefix = content.content(0x80)?.to_vec();
    let max_message_length = content.integer(0x81)?;
    let mut inner = Reader::new(content.content(0xa2)?);
    let fulfillment = read(&mut inner, levels_left)?;
    inner.end()?;
    Ok(Prefix {
        prefix,
        max_message_length,
        fulfillment,
    })
}

fn threshold(content: &mut Reader<'_>, levels_left: usize) -> Result<Threshold, Error> {
    let fulfillments = set(Reader::new(content.content(0xa0)?), |reader| {
        read(reader, levels_left)
    })?;
    let conditions = set(Reader::new(content.content(0xa1)?), Condition::read)?;
    Ok(Threshold {
        fulfillments,
        conditions,
    })
}

/// The elements of a set, in any order.
fn set<T>(
    mut reader: Reader<'_>,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let mut elements = Vec::new();
    while !reader.is_empty() {
        elements.push(read(&mut reader)?);
    }
    Ok(elements)
}

fn ed25519(content: &mut Reader<'_>) -> Result<Ed25519, Error> {
    Ok(Ed25519 {
        public_key: content
            .content(0x80)?
            .try_into()
            .map_err(|_| Error::Der("a key has 32 bytes"))?,
        signature: content
            .content(0x81)?
            .try_into()
            .map_err(|_| Error::Der("a signature has 64 bytes"))?,
    })
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
