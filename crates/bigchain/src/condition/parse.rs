//! Reading fulfillments.

#[cfg(feature = "rsa")]
use super::Rsa;
use super::der::Reader;
use super::{Condition, Ed25519, Fulfillment, Kind, Prefix, Threshold};
use crate::error::Error;
use crate::{Mode, base64url};

/// Deepest nesting of prefixes and thresholds that is read; the bound of the recursion.
pub const MAX_NESTING: usize = 100;

impl Fulfillment {
    /// Reads a fulfillment from its text.
    ///
    /// # Errors
    /// [`Error::Base64`] or [`Error::Der`]. Strict mode admits only the one text of a fulfillment;
    /// compatible mode what the original's decoder admits: bytes after the end, lengths in more
    /// bytes than they take, sets in any order.
    pub fn from_uri(text: &str, mode: Mode) -> Result<Self, Error> {
        Self::from_der(&base64url::decode(text, mode)?, mode)
    }

    /// Reads a fulfillment in DER.
    ///
    /// # Errors
    /// [`Error::Der`], as [`Self::from_uri`].
    pub fn from_der(bytes: &[u8], mode: Mode) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, mode);
        let fulfillment = read(&mut reader, MAX_NESTING)?;
        reader.end_of_text()?;
        Ok(fulfillment)
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
        #[cfg(feature = "rsa")]
        Kind::Rsa => Fulfillment::Rsa(Box::new(rsa(&mut content)?)),
        #[cfg(not(feature = "rsa"))]
        Kind::Rsa => {
            return Err(Error::Der(
                "a kind that is left out: build with the feature `rsa`",
            ));
        }
        Kind::Ed25519 => Fulfillment::Ed25519(ed25519(&mut content)?),
    };
    content.end()?;
    Ok(fulfillment)
}

fn prefix(content: &mut Reader<'_>, levels_left: usize) -> Result<Prefix, Error> {
    let prefix = content.content(0x80)?.to_vec();
    let max_message_length = content.integer(0x81)?;
    let mut inner = Reader::new(content.content(0xa2)?, content.mode());
    let fulfillment = read(&mut inner, levels_left)?;
    inner.end()?;
    Ok(Prefix {
        prefix,
        max_message_length,
        fulfillment,
    })
}

fn threshold(content: &mut Reader<'_>, levels_left: usize) -> Result<Threshold, Error> {
    let mode = content.mode();
    let fulfillments = set(Reader::new(content.content(0xa0)?, mode), |reader| {
        read(reader, levels_left)
    })?;
    let conditions = set(Reader::new(content.content(0xa1)?, mode), Condition::read)?;
    Ok(Threshold {
        fulfillments,
        conditions,
    })
}

/// The elements of a set; in strict mode they must be sorted.
fn set<T>(
    mut reader: Reader<'_>,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let mut elements = Vec::new();
    let mut previous: &[u8] = &[];
    while !reader.is_empty() {
        let start = reader.rest();
        elements.push(read(&mut reader)?);
        let element = &start[..start.len() - reader.rest().len()];
        if reader.mode() == Mode::Strict && element < previous {
            return Err(Error::Der("a set that is not sorted"));
        }
        previous = element;
    }
    Ok(elements)
}

#[cfg(feature = "rsa")]
fn rsa(content: &mut Reader<'_>) -> Result<Rsa, Error> {
    let modulus = content.content(0x80)?.to_vec();
    let signature = content.content(0x81)?.to_vec();
    Rsa::new(modulus, signature).ok_or(Error::Der("modulus or signature of a wrong size"))
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
