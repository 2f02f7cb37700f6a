//! The part of Go's gob encoding that V9 and V10 need.
//!
//! Formats from the documentation of Go's `encoding/gob`. A stream declares its types before it uses
//! them, and the names and numbers of the types differ between implementations: a field is known by
//! its name, a type by the number in its declaration.

use super::CodecError;

/// The fields that a V9 or V10 message may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Header,
    Payload,
    Network,
    Version,
    Type,
    Length,
    TargetPeer,
    Crc32,
    NodeId,
    PeerPort,
    /// Read and not used.
    Other,
}

impl Field {
    fn named(name: &[u8]) -> Self {
        match name {
            b"Header" => Self::Header,
            b"Payload" => Self::Payload,
            b"Network" => Self::Network,
            b"Version" => Self::Version,
            b"Type" => Self::Type,
            b"Length" => Self::Length,
            b"TargetPeer" => Self::TargetPeer,
            b"Crc32" => Self::Crc32,
            b"NodeID" => Self::NodeId,
            b"PeerPort" => Self::PeerPort,
            _ => Self::Other,
        }
    }
}

/// The structs that a stream has declared, at most [`Types::MOST`], each with its fields and their types. No parcel has
/// a type of another kind.
#[derive(Debug, Default)]
pub(super) struct Types {
    known: Vec<(i64, Vec<(Field, i64)>)>,
}

/// What a message holds of the fields that matter, borrowed from it.
#[derive(Debug, Default)]
pub(super) struct Message<'a> {
    /// Whether its type has a header, as V9's and every handshake's.
    pub(super) has_header: bool,
    pub(super) network: u64,
    pub(super) version: u64,
    pub(super) kind: u64,
    pub(super) length: u64,
    pub(super) target: &'a [u8],
    pub(super) crc32: u64,
    pub(super) node_id: u64,
    pub(super) port: &'a [u8],
    pub(super) payload: &'a [u8],
}

const INT: i64 = 2;
const UINT: i64 = 3;
const BYTES: i64 = 5;
const STRING: i64 = 6;

impl Types {
    /// Two messages and a header are three.
    const MOST: usize = 32;
    /// The header has 13.
    const MOST_FIELDS: usize = 64;

    /// Reads one message of the stream, without its length: a value, or none for a declaration.
    pub(super) fn read<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<Message<'a>>, CodecError> {
        let mut reader = Reader { rest: bytes };
        let id = reader.int()?;
        if id < 0 {
            self.declare(id.saturating_neg(), &mut reader)?;
            return reader.end(None);
        }
        let mut message = Message::default();
        self.read_struct(id, &mut reader, &mut message, Level::Message)?;
        reader.end(Some(message))
    }

    fn declare(&mut self, id: i64, reader: &mut Reader<'_>) -> Result<(), CodecError> {
        if self.known.len() >= Self::MOST {
            return Err(CodecError::Gob("more than 32 types"));
        }
        if self.find(id).is_some() {
            return Err(CodecError::Gob("a type is declared twice"));
        }
        let fields = reader.definition()?;
        self.known.push((id, fields));
        Ok(())
    }

    fn find(&self, id: i64) -> Option<&[(Field, i64)]> {
        let mut known = self.known.iter();
        let (_, fields) = known.find(|(known, _)| *known == id)?;
        Some(fields)
    }

    fn read_struct<'a>(
        &self,
        id: i64,
        reader: &mut Reader<'a>,
        message: &mut Message<'a>,
        level: Level,
    ) -> Result<(), CodecError> {
        let fields = self.find(id);
        let fields = fields.ok_or(CodecError::Gob(
            "a value of a type that is no declared struct",
        ))?;
        message.has_header |= fields.iter().any(|(field, _)| *field == Field::Header);
        let mut next = 0;
        while let Some(index) = reader.delta(next)? {
            let field = fields.get(index);
            let field = field.ok_or(CodecError::Gob("a field that its type does not have"))?;
            match (*field, level) {
                ((Field::Header, header), Level::Message) => {
                    self.read_struct(header, reader, message, Level::Header)?;
                }
                (field, _) => reader.field(field, message)?,
            }
            next = index + 1;
        }
        Ok(())
    }
}

/// The struct that is read.
#[derive(Debug, Clone, Copy)]
enum Level {
    Message,
    /// The one struct within.
    Header,
}

/// Reads numbers and bytes from one message.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn uint(&mut self) -> Result<u64, CodecError> {
        let (number, length) = uint(self.rest)?.ok_or(CodecError::Gob("a number is cut off"))?;
        self.rest = &self.rest[length..];
        Ok(number)
    }

    fn int(&mut self) -> Result<i64, CodecError> {
        let number = self.uint()?;
        let half = (number >> 1) as i64;
        Ok(if number & 1 == 1 { !half } else { half })
    }

    fn bytes(&mut self) -> Result<&'a [u8], CodecError> {
        let length = usize::try_from(self.uint()?).unwrap_or(usize::MAX);
        let (bytes, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(CodecError::Gob("a value is longer than its message"))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn bytes_of(&mut self, type_id: i64) -> Result<&'a [u8], CodecError> {
        match type_id {
            BYTES | STRING => self.bytes(),
            _ => Err(CodecError::Gob("a text of another type")),
        }
    }

    fn number_of(&mut self, type_id: i64) -> Result<u64, CodecError> {
        match type_id {
            UINT => self.uint(),
            INT => u64::try_from(self.int()?)
                .map_err(|_| CodecError::Gob("a negative number in the header")),
            _ => Err(CodecError::Gob("a number of another type")),
        }
    }

    /// Reads a field that is no struct.
    fn field(
        &mut self,
        (field, type_id): (Field, i64),
        message: &mut Message<'a>,
    ) -> Result<(), CodecError> {
        match field {
            Field::Payload => message.payload = self.bytes_of(type_id)?,
            Field::TargetPeer => message.target = self.bytes_of(type_id)?,
            Field::PeerPort => message.port = self.bytes_of(type_id)?,
            Field::Network => message.network = self.number_of(type_id)?,
            Field::Version => message.version = self.number_of(type_id)?,
            Field::Type => message.kind = self.number_of(type_id)?,
            Field::Length => message.length = self.number_of(type_id)?,
            Field::Crc32 => message.crc32 = self.number_of(type_id)?,
            Field::NodeId => message.node_id = self.number_of(type_id)?,
            Field::Header | Field::Other => match type_id {
                BYTES | STRING => drop(self.bytes()?),
                _ => drop(self.number_of(type_id)?),
            },
        }
        Ok(())
    }

    /// The index of the next field of a struct, from `next` on; none at the struct's end.
    fn delta(&mut self, next: usize) -> Result<Option<usize>, CodecError> {
        Ok(match self.uint()? {
            0 => None,
            // Saturating: an index beyond every struct is refused where it is looked up.
            delta => {
                Some(next.saturating_add(usize::try_from(delta - 1).unwrap_or(usize::MAX / 2)))
            }
        })
    }

    fn end<T>(&self, value: T) -> Result<T, CodecError> {
        if self.rest.is_empty() {
            Ok(value)
        } else {
            Err(CodecError::Gob("bytes after the end of a value"))
        }
    }

    /// The struct `wireType`, whose field 2 is set for a struct: its name and number, and its fields.
    fn definition(&mut self) -> Result<Vec<(Field, i64)>, CodecError> {
        if self.delta(0)? != Some(2) {
            return Err(CodecError::Gob("a declaration of what is no struct"));
        }
        let mut fields = Vec::new();
        let mut next = 0;
        while let Some(index) = self.delta(next)? {
            match index {
                0 => drop(self.name_and_number()?),
                1 => fields = self.field_list()?,
                _ => return Err(CodecError::Gob("a declaration with unknown parts")),
            }
            next = index + 1;
        }
        match self.delta(3)? {
            None => Ok(fields),
            Some(_) => Err(CodecError::Gob("a declaration of two types")),
        }
    }

    fn field_list(&mut self) -> Result<Vec<(Field, i64)>, CodecError> {
        let count = self.uint()?;
        if count > Types::MOST_FIELDS as u64 {
            return Err(CodecError::Gob("a type of more than 64 fields"));
        }
        (0..count)
            .map(|_| {
                let (name, id) = self.name_and_number()?;
                Ok((Field::named(name), id))
            })
            .collect()
    }

    /// `fieldType` and `commonType` have the same form.
    fn name_and_number(&mut self) -> Result<(&'a [u8], i64), CodecError> {
        let (mut name, mut id) = (&[][..], 0);
        let mut next = 0;
        while let Some(index) = self.delta(next)? {
            match index {
                0 => name = self.bytes()?,
                1 => id = self.int()?,
                _ => return Err(CodecError::Gob("a declaration with unknown parts")),
            }
            next = index + 1;
        }
        Ok((name, id))
    }
}

/// A number at the beginning of `bytes` and how many bytes it takes; none when more are needed.
///
/// Below 128 it is its own byte; otherwise one byte gives how many follow, as 256 less the count.
pub(super) fn uint(bytes: &[u8]) -> Result<Option<(u64, usize)>, CodecError> {
    let Some(&first) = bytes.first() else {
        return Ok(None);
    };
    if first < 0x80 {
        return Ok(Some((u64::from(first), 1)));
    }
    let count = 256 - usize::from(first);
    if count > 8 {
        return Err(CodecError::Gob("a number of more than 8 bytes"));
    }
    let Some(digits) = bytes.get(1..=count) else {
        return Ok(None);
    };
    let number = digits
        .iter()
        .fold(0, |number, &digit| number << 8 | u64::from(digit));
    Ok(Some((number, count + 1)))
}

pub(super) fn put_uint(out: &mut Vec<u8>, number: u64) {
    if number < 0x80 {
        out.push(number as u8);
        return;
    }
    let skipped = number.leading_zeros() as usize / 8;
    out.push((256 - (8 - skipped)) as u8);
    out.extend_from_slice(&number.to_be_bytes()[skipped..]);
}

/// How many bytes [`put_uint`] writes.
pub(super) const fn uint_length(number: u64) -> usize {
    if number < 0x80 {
        1
    } else {
        9 - number.leading_zeros() as usize / 8
    }
}

/// Writes the fields of a struct in their order and leaves out what is zero, as gob does.
pub(super) struct StructWriter<'a> {
    pub(super) out: &'a mut Vec<u8>,
    skipped: u8,
}

impl<'a> StructWriter<'a> {
    pub(super) const fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, skipped: 0 }
    }

    pub(super) fn number(&mut self, number: u64) {
        if self.present(number != 0) {
            put_uint(self.out, number);
        }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        if self.present(!bytes.is_empty()) {
            put_uint(self.out, bytes.len() as u64);
            self.out.extend_from_slice(bytes);
        }
    }

    pub(super) fn end(self) {
        self.out.push(0);
    }

    fn present(&mut self, present: bool) -> bool {
        self.skipped += 1;
        if present {
            self.out.push(self.skipped);
            self.skipped = 0;
        }
        present
    }
}
