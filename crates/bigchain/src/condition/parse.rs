//! Reading fulfillments.

use super::der::Reader;
use super::{Condition, Ed25519, Fulfillment, Kind, Prefix, Threshold};
use crate::base64url;
use crate::error::Error;

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
