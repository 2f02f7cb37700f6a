//! Tables whose rows are structs: the columns are the fields that serde sees, in the order of the
//! header.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// A row of one of the run folder's tables.
pub trait TableRow: Serialize + DeserializeOwned + Default {
    /// The file's name inside the run folder.
    const FILE: &'static str;
    /// The first line as it is written, with its line break.
    const HEADER: &'static str;
    /// From this column on they came later: files of earlier versions lack some or all of them.
    const FIRST_LATER: Option<&'static str> = None;

    /// The names of the columns, in their order.
    fn columns() -> impl Iterator<Item = &'static str> + Clone {
        Self::HEADER.trim_end().split(',')
    }
}

/// Appends a row: numbers that are not whole have three decimals, what is missing is empty, a flag is
/// 0 or 1, and a text is quoted where RFC 4180 asks for it.
pub fn write_row<T: TableRow>(row: &T, out: &mut Vec<u8>) {
    let row = serde_json::to_value(row).expect("a row is a struct of numbers and texts");
    let mut writer = csv::WriterBuilder::new()
        .buffer_capacity(ROW_BYTES)
        .from_writer(out);
    writer
        .write_record(T::columns().map(|column| field(&row[column])))
        .and_then(|()| writer.flush().map_err(csv::Error::from))
        .expect("a vector takes every write");
}

fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(flag) => u8::from(*flag).to_string(),
        Value::Number(number) if number.is_f64() => {
            format!("{:.3}", number.as_f64().unwrap_or_default())
        }
        Value::String(text) => text.clone(),
        number => number.to_string(),
    }
}

/// A row of the widest table has some fifty fields.
const ROW_BYTES: usize = 512;
