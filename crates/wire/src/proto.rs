//! Protobuf's wire format, as far as the chains' messages need it.
//!
//! Zero values are left out, as proto3 does. The Cosmos SDK signs the bytes as they are sent (ADR-027), so its callers
//! write fields in ascending order.

/// A message that is cut off or not protobuf, named by what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Appends a varint.
pub fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends an integer field; zero is left out.
pub fn number(out: &mut Vec<u8>, field: u8, value: u64) {
    if value != 0 {
        out.push(field << 3);
        varint(out, value);
    }
}

/// Appends a bytes or string field; an empty one is left out.
pub fn bytes(out: &mut Vec<u8>, field: u8, value: &[u8]) {
    if !value.is_empty() {
        nested(out, field, |out| out.extend_from_slice(value));
    }
}

/// Appends an embedded message or an element of a repeated field, also if it is empty.
pub fn nested(out: &mut Vec<u8>, field: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(field << 3 | LENGTH_DELIMITED);
    let start = out.len();
    // Most messages are shorter than 128 bytes: their length takes one.
    out.push(0);
    write(out);
    let length = out.len() - start - 1;
    let mut remaining = length as u64;
    let mut at = start;
    while remaining >= 0x80 {
        out[at] = (remaining as u8 & 0x7f) | 0x80;
        remaining >>= 7;
        at += 1;
        out.insert(at, 0);
    }
    out[at] = remaining as u8;
}

/// Appends an `Any`: a message of the type that the URL names.
pub fn any(out: &mut Vec<u8>, type_url: &str, write: impl FnOnce(&mut Vec<u8>)) {
    bytes(out, 1, type_url.as_bytes());
    let before = out.len();
    nested(out, 2, write);
    if out.len() == before + 2 {
        // An empty message is a zero value.
        out.truncate(before);
    }
}

/// Bytes that [`nested`] takes for a value of that length and a field number below 16.
#[must_use]
pub const fn nested_len(value: usize) -> usize {
    let mut length_bytes = 1;
    let mut rest = value >> 7;
    while rest > 0 {
        length_bytes += 1;
        rest >>= 7;
    }
    1 + length_bytes + value
}

/// One field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A varint.
    Number(u64),
    /// A number of fixed length. No message that is read here has one, and Go refuses it where it expects a varint.
    Fixed,
    /// A string, bytes or an embedded message.
    Bytes(&'a [u8]),
}

/// The fields of a message in the order of its bytes.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
    /// What the message is, for errors.
    what: &'static str,
}

impl<'a> Fields<'a> {
    /// The fields of `message`, which is called `what` in errors.
    #[must_use]
    pub const fn of(message: &'a [u8], what: &'static str) -> Self {
        Self {
            rest: message,
            what,
        }
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for place in 0..10 {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f).checked_shl(7 * place)?;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let tag = self.varint()?;
        let field = u32::try_from(tag >> 3).ok()?;
        let value = match tag as u8 & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            LENGTH_DELIMITED => {
                let length = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        (field > 0).then_some((field, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field.ok_or(Malformed(self.what)))
    }
}

impl<'a> Value<'a> {
    /// The bytes of a string, bytes or message.
    ///
    /// # Errors
    /// [`Malformed`] when it is a number.
    pub fn bytes(self, what: &'static str) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) | Self::Fixed => Err(Malformed(what)),
        }
    }

    /// The text of a string.
    ///
    /// # Errors
    /// [`Malformed`] when it is none.
    pub fn text(self, what: &'static str) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes(what)?).map_err(|_| Malformed(what))
    }

    /// The value of a number.
    ///
    /// # Errors
    /// [`Malformed`] when it is none.
    pub fn number(self, what: &'static str) -> Result<u64, Malformed> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) | Self::Fixed => Err(Malformed(what)),
        }
    }
}

const LENGTH_DELIMITED: u8 = 2;

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::{Fields, Malformed, Value, bytes, nested, nested_len, number, varint};

    fn varint_bytes(value: u64) -> usize {
        let mut out = Vec::new();
        varint(&mut out, value);
        out.len()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in any::<u64>(), inner in prop::collection::vec(any::<u8>(), 0..40_000)) {
            let mut out = Vec::new();
            number(&mut out, 3, value);
            nested(&mut out, 5, |out| out.extend_from_slice(&inner));
            let fields: Vec<_> = Fields::of(&out, "test").map(Result::unwrap).collect();
            prop_assert_eq!(out.len() - usize::from(value > 0) * (1 + varint_bytes(value)), nested_len(inner.len()));
            let mut expected = vec![(5, Value::Bytes(&inner))];
            if value > 0 {
                expected.insert(0, (3, Value::Number(value)));
            }
            prop_assert_eq!(fields, expected);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(noise in prop::collection::vec(any::<u8>(), 0..200)) {
            for field in Fields::of(&noise, "noise") {
                let _ = field;
            }
        }
    }

    #[test]
    fn a_message_that_ends_early_is_an_error_once() {
        let mut out = Vec::new();
        bytes(&mut out, 1, b"whole");
        out.pop();
        let fields: Vec<_> = Fields::of(&out, "half").collect();
        assert_eq!(fields, [Err(Malformed("half"))]);
    }
}
