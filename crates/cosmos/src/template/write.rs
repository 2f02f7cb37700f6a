//! A template as the bytes of a message, its placeholders filled.

use super::{Filling, Part, Piece, wrong};
use crate::{Error, proto};

/// Writes fields that say something, in their order.
///
/// # Errors
/// [`Error::Template`] when what should be a number is none, filled like this.
pub(super) fn write_fields(
    fields: &[(u32, Part)],
    filling: &Filling<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    for (number, part) in fields {
        let start = out.len();
        let is_said = write_part(*number, part, filling, out)?;
        if !is_said {
            out.truncate(start);
        }
    }
    Ok(())
}

/// Writes a field; whether it says anything that its absence would not.
fn write_part(
    number: u32,
    part: &Part,
    filling: &Filling<'_>,
    out: &mut Vec<u8>,
) -> Result<bool, Error> {
    Ok(match part {
        Part::Number(value) => write_number(out, number, *value),
        Part::NumberOf(pieces) => {
            let text = filled(pieces, filling);
            let value = text.parse().map_err(|_| {
                wrong(
                    &format!("field {number}"),
                    &format!("is {text:?}, which is no number"),
                )
            })?;
            write_number(out, number, value)
        }
        Part::Fixed32(value) => {
            proto::varint(out, u64::from(number) << 3 | 5);
            out.extend_from_slice(&value.to_le_bytes());
            *value != 0
        }
        Part::Fixed64(value) => {
            proto::varint(out, u64::from(number) << 3 | 1);
            out.extend_from_slice(&value.to_le_bytes());
            *value != 0
        }
        Part::Text(pieces) => write_bytes(out, number, filled(pieces, filling).as_bytes()),
        Part::Bytes(bytes) => write_bytes(out, number, bytes),
        Part::Message(fields) => {
            let mut inner = Vec::with_capacity(TYPICAL_BYTES);
            write_fields(fields, filling, &mut inner)?;
            write_bytes(out, number, &inner);
            true
        }
        Part::Any(template) => {
            let mut inner = Vec::with_capacity(TYPICAL_BYTES);
            template.message(filling)?.write(&mut inner);
            write_bytes(out, number, &inner)
        }
        Part::Each(parts) => {
            for part in parts {
                write_part(number, part, filling, out)?;
            }
            !parts.is_empty()
        }
    })
}

fn write_number(out: &mut Vec<u8>, field: u32, value: u64) -> bool {
    proto::varint(out, u64::from(field) << 3);
    proto::varint(out, value);
    value != 0
}

fn write_bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) -> bool {
    proto::varint(out, u64::from(field) << 3 | 2);
    proto::varint(out, value.len() as u64);
    out.extend_from_slice(value);
    !value.is_empty()
}

fn filled(pieces: &[Piece], filling: &Filling<'_>) -> String {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Plain(plain) => text.push_str(plain),
            Piece::From => text.push_str(filling.from),
            Piece::To => text.push_str(filling.to),
            Piece::Index => text.push_str(&filling.index.to_string()),
        }
    }
    text
}

pub(super) const TYPICAL_BYTES: usize = 128;
