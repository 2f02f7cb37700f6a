//! Rows as text in, columns out.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::Arc;

use bytes::Bytes;
use hex_simd::Out;
use measure::read::{TxReader, TxRow};
use parquet::data_type::{ByteArray, FixedLenByteArray, FixedLenByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;
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
    columns: [Values; COLUMNS.len()],
}

#[derive(Default)]
struct Values {
    /// Those that are there.
    values: Vec<i64>,
    /// 1 for each row that has a value, 0 for one that has none.
    levels: Vec<i16>,
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
            let value = (column.of)(row);
            values.levels.push(i16::from(value.is_some()));
            values.values.extend(value);
        }
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
            if let Some(mut column) = group.next_column()? {
                let typed = column.typed::<Int64Type>();
                typed.write_batch(&values.values, Some(&values.levels), None)?;
                column.close()?;
            }
            values.values.clear();
            values.levels.clear();
        }
        group.close()?;
        Ok(())
    }
}

/// 20 MB of memory, to write and to read; a file of 100 million rows has 763 groups.
const ROWS_IN_GROUP: usize = 1 << 17;
