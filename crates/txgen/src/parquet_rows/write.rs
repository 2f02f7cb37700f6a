//! Rows as text in, columns out.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::Arc;

use bytes::Bytes;
use hex_simd::Out;
use measure::read::{TxReader, TxRow};
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::columns::{COLUMNS, ID_BYTES, LETTERS, properties, schema};

/// Writes rows until there are no more.
pub(super) fn write(rows: impl Read, file: File) -> io::Result<()> {
    let mut rows = TxReader::new(BufReader::new(rows)).map_err(io::Error::other)?;
    let schema = parse_message_type(&schema())?;
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties()))?;
    let mut group = Group::default();
    let mut letters = "upper";
    while let Some(row) = rows.next_row().map_err(io::Error::other)? {
        if row.txid.bytes().any(|digit| digit.is_ascii_lowercase()) {
            letters = "lower";
        }
        group.push(&row)?;
        if group.rows() == ROWS_IN_GROUP {
            group.write(&mut writer)?;
        }
    }
    if group.rows() > 0 {
        group.write(&mut writer)?;
    }
    writer.append_key_value_metadata(KeyValue::new(LETTERS.into(), letters.to_owned()));
    writer.close()?;
    Ok(())
}

/// Rows that are written together.
#[derive(Default)]
struct Group {
    ids: Vec<u8>,
    columns: [Values<Int64Type>; COLUMNS.len()],
    codespaces: Values<ByteArrayType>,
}

struct Values<T: DataType> {
    /// Those that are there.
    values: Vec<T::T>,
    /// 1 for each row that has a value, 0 for one that has none.
    levels: Vec<i16>,
}

impl<T: DataType> Default for Values<T> {
    fn default() -> Self {
        let (values, levels) = (Vec::new(), Vec::new());
        Self { values, levels }
    }
}

impl<T: DataType> Values<T> {
    fn push(&mut self, value: Option<T::T>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }

    /// Writes the next column of a group.
    fn write(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, File>,
    ) -> Result<(), ParquetError> {
        if let Some(mut column) = group.next_column()? {
            let typed = column.typed::<T>();
            typed.write_batch(&self.values, Some(&self.levels), None)?;
            column.close()?;
        }
        self.values.clear();
        self.levels.clear();
        Ok(())
    }
}

impl Group {
    fn rows(&self) -> usize {
        self.ids.len() / ID_BYTES
    }

    fn push(&mut self, row: &TxRow<'_>) -> io::Result<()> {
        let (digits, mut id) = (row.txid.as_bytes(), [0; ID_BYTES]);
        let is_id = digits.len() == 2 * ID_BYTES
            && hex_simd::decode(digits, Out::from_slice(&mut id)).is_ok();
        if !is_id {
            let problem = format!("{:?} is no id of {ID_BYTES} bytes", row.txid);
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        self.ids.extend_from_slice(&id);
        for (values, column) in self.columns.iter_mut().zip(&COLUMNS) {
            values.push((column.of)(row));
        }
        let is_named = !row.codespace.is_empty();
        self.codespaces.push(is_named.then(|| row.codespace.into()));
        Ok(())
    }

    fn write(&mut self, writer: &mut SerializedFileWriter<File>) -> Result<(), ParquetError> {
        let ids = Bytes::from(std::mem::take(&mut self.ids));
        let starts = (0..ids.len()).step_by(ID_BYTES);
        let ids: Vec<FixedLenByteArray> = starts
            .map(|start| ByteArray::from(ids.slice(start..start + ID_BYTES)).into())
            .collect();
        let mut group = writer.next_row_group()?;
        if let Some(mut column) = group.next_column()? {
            let typed = column.typed::<FixedLenByteArrayType>();
            typed.write_batch(&ids, None, None)?;
            column.close()?;
        }
        for values in &mut self.columns {
            values.write(&mut group)?;
        }
        self.codespaces.write(&mut group)?;
        group.close()?;
        Ok(())
    }
}

/// 20 MB of memory, to write and to read; a file of 100 million rows has 763 groups.
const ROWS_IN_GROUP: usize = 1 << 17;
