//! Columns in, the text of the rows out.

use std::fs::File;
use std::io::{self, Read};

use hex_simd::{AsciiCase, Out};
use measure::read::TXS_HEADER;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, FixedLenByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};

use super::columns::{COLUMNS, ID_BYTES, Kind, LETTERS};

/// Reads like `txs.csv`, in the memory of one group of rows.
pub(crate) struct Reading {
    file: SerializedFileReader<File>,
    case: AsciiCase,
    next_group: usize,
    /// The text of a group.
    text: Vec<u8>,
    /// How much of it was read.
    read: usize,
}

impl Reading {
    /// Reads the file's end, which says where everything is.
    pub(crate) fn open(file: File) -> io::Result<Self> {
        let file = SerializedFileReader::new(file)?;
        let metadata = file.metadata().file_metadata();
        let mut entries = metadata.key_value_metadata().into_iter().flatten();
        let letters = entries.find(|entry| entry.key == LETTERS);
        let is_lower = letters.is_some_and(|entry| entry.value.as_deref() == Some("lower"));
        Ok(Self {
            case: match is_lower {
                true => AsciiCase::Lower,
                false => AsciiCase::Upper,
            },
            file,
            next_group: 0,
            text: TXS_HEADER.as_bytes().to_vec(),
            read: 0,
        })
    }

    /// The next group's text; nothing after the last.
    fn advance(&mut self) -> Result<(), ParquetError> {
        self.read = 0;
        self.text.clear();
        if self.next_group == self.file.num_row_groups() {
            return Ok(());
        }
        let group = self.file.get_row_group(self.next_group)?;
        self.next_group += 1;
        let rows = group.metadata().num_rows() as usize;
        let (ids, _) = column::<FixedLenByteArrayType>(&*group, 0, rows)?;
        let mut columns = (1..=COLUMNS.len())
            .map(|place| Values::<Int64Type>::read(&*group, place, rows))
            .collect::<Result<Vec<_>, _>>()?;
        let last = COLUMNS.len() + 1;
        let mut codespaces = match group.num_columns() > last {
            true => Some(Values::<ByteArrayType>::read(&*group, last, rows)?),
            false => None,
        };
        for (row, id) in ids.iter().enumerate() {
            push_row(&mut self.text, id.data(), self.case, &mut columns, row);
            let codespace = codespaces.as_mut().and_then(|names| names.of(row));
            self.text.push(b',');
            self.text
                .extend_from_slice(codespace.as_ref().map_or(b"", ByteArray::data));
            self.text.push(b'\n');
        }
        Ok(())
    }
}

impl Read for Reading {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.text.len() {
            self.advance()?;
        }
        let read = (&self.text[self.read..]).read(buffer)?;
        self.read += read;
        Ok(read)
    }
}

fn push_row(
    text: &mut Vec<u8>,
    id: &[u8],
    case: AsciiCase,
    columns: &mut [Values<Int64Type>],
    row: usize,
) {
    let mut digits = [0; 2 * ID_BYTES];
    // The file's type says that an id has so many bytes.
    text.extend_from_slice(hex_simd::encode(id, Out::from_slice(&mut digits), case));
    for (values, column) in columns.iter_mut().zip(&COLUMNS) {
        text.push(b',');
        if let Some(value) = values.of(row) {
            push_value(text, value, column.kind);
        }
    }
}

fn push_value(text: &mut Vec<u8>, value: i64, kind: Kind) {
    let mut number = itoa::Buffer::new();
    let digits = number.format(value).as_bytes();
    match kind {
        // Microseconds of this century have 16 digits.
        Kind::Wall if digits.len() > DECIMALS => {
            let (millis, decimals) = digits.split_at(digits.len() - DECIMALS);
            text.extend_from_slice(millis);
            text.push(b'.');
            text.extend_from_slice(decimals);
        }
        _ => text.extend_from_slice(digits),
    }
}

/// Of a millisecond, as text.
const DECIMALS: usize = 3;

/// A column.
struct Values<T: DataType> {
    values: Vec<T::T>,
    levels: Vec<i16>,
    next: usize,
}

impl<T: DataType> Values<T> {
    fn read(group: &dyn RowGroupReader, place: usize, rows: usize) -> Result<Self, ParquetError> {
        let (values, levels) = column::<T>(group, place, rows)?;
        let next = 0;
        Ok(Self {
            values,
            levels,
            next,
        })
    }

    /// The value of the next row, which is this one.
    fn of(&mut self, row: usize) -> Option<T::T> {
        if self.levels.get(row) != Some(&1) {
            return None;
        }
        self.next += 1;
        self.values.get(self.next - 1).cloned()
    }
}

/// All values of a column, and for each row whether it has one.
fn column<T: DataType>(
    group: &dyn RowGroupReader,
    place: usize,
    rows: usize,
) -> Result<(Vec<T::T>, Vec<i16>), ParquetError> {
    let column = group.metadata().column(place);
    if column.column_type() != T::get_physical_type() {
        return Err(ParquetError::General(format!(
            "the column {} has another type than txgen writes",
            column.column_path()
        )));
    }
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(place)?);
    let (mut values, mut levels) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    let mut read = 0;
    while read < rows {
        let (more, ..) = reader.read_records(rows - read, Some(&mut levels), None, &mut values)?;
        if more == 0 {
            break;
        }
        read += more;
    }
    Ok((values, levels))
}
