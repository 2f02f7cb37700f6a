//! The part of protobuf's encoding that V11 needs, on borrowed bytes.
//!
//! `prost` would copy each payload before the node has looked up whether it has seen it; three of four have
//! been seen. The encoding is protobuf.dev's "Encoding".

use super::CodecError;

/// A field of a message.
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A fixed-width number, which no field of ours is.
    Other,
}

/// Reads the fields of one message in the order of the wire.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) const fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The next field's number and value, or none at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, CodecError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.skip(8)?,
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.skip(4)?,
            _ => return Err(CodecError::Protobuf("a wire type that is not supported")),
        };
        match tag >> 3 {
            0 => Err(CodecError::Protobuf("field number 0")),
            number => Ok(Some((number, value))),
        }
    }

    fn skip(&mut self, length: u64) -> Result<Value<'a>, CodecError> {
        self.take(length)?;
        Ok(Value::Other)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], CodecError> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(CodecError::Protobuf("a field is longer than its message"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, CodecError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self
                .rest
                .split_first()
                .ok_or(CodecError::Protobuf("a number is cut off"))?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(CodecError::Protobuf("a number of more than 10 bytes"))
    }
}

/// UTF-8, as protobuf's `string` promises.
pub(super) fn text(bytes: &[u8]) -> Result<&str, CodecError> {
    std::str::from_utf8(bytes).map_err(|_| CodecError::Protobuf("a text is not UTF-8"))
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Leaves zero out, as proto3 does.
pub(super) fn put_number(out: &mut Vec<u8>, field: u8, value: u64) {
    if value != 0 {
        out.push(field << 3);
        put_varint(out, value);
    }
}

/// Leaves nothing out: the caller decides what an empty value means.
pub(super) fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
