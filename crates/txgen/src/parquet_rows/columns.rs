//! What the columns are: those of `txs.csv`, by the same names and in the same order.

use measure::read::TxRow;
use pacing::Nanos;
use parquet::basic::Encoding;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

/// A column between the first, which is the id, and the last, which is a name space.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) of: fn(&TxRow<'_>) -> Option<i64>,
}

/// How a value is kept, and how it is written as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A whole number of which there are few different ones.
    Few,
    /// Nanoseconds since the origin.
    Stamp,
    /// Microseconds since the Unix epoch; as text milliseconds with three decimals.
    Wall,
}

pub(super) const COLUMNS: [Column; 13] = [
    column("size", Kind::Few, |row| Some(row.size.cast_signed())),
    column("ts_send", Kind::Wall, |row| {
        Some(row.send_unix_us.cast_signed())
    }),
    column("ts_accept", Kind::Wall, |row| signed(row.accept_unix_us)),
    column("ts_commit", Kind::Wall, |row| signed(row.commit_unix_us)),
    column("ts_error", Kind::Wall, |row| signed(row.error_unix_us)),
    column("due_ns", Kind::Stamp, |row| stamp(Some(row.due))),
    column("sent_ns", Kind::Stamp, |row| stamp(Some(row.sent))),
    column("accepted_ns", Kind::Stamp, |row| stamp(row.accepted)),
    column("committed_ns", Kind::Stamp, |row| stamp(row.committed)),
    column("height", Kind::Few, |row| signed(row.height)),
    column("code", Kind::Few, |row| row.code),
    column("endpoint", Kind::Few, |row| Some(i64::from(row.endpoint))),
    column("step", Kind::Few, |row| Some(i64::from(row.step))),
];

const fn column(name: &'static str, kind: Kind, of: fn(&TxRow<'_>) -> Option<i64>) -> Column {
    Column { name, kind, of }
}

fn signed(value: Option<u64>) -> Option<i64> {
    value.map(u64::cast_signed)
}

fn stamp(value: Option<Nanos>) -> Option<i64> {
    signed(value.map(Nanos::as_nanos))
}

/// The last column, a text, which the first versions did not write.
pub(super) const CODESPACE: &str = "codespace";
/// The id's column: 32 bytes.
pub(super) const ID: &str = "txid";
pub(super) const ID_BYTES: usize = 32;
/// The key under which the file says in which letters ids are written: `upper` or `lower`.
pub(super) const LETTERS: &str = "tidegate.txid";

/// The schema, in Parquet's own notation.
pub(super) fn schema() -> String {
    let columns = COLUMNS.iter().map(|column| match column.kind {
        Kind::Wall => format!("OPTIONAL INT64 {} (TIMESTAMP(MICROS,true)); ", column.name),
        Kind::Few | Kind::Stamp => format!("OPTIONAL INT64 {}; ", column.name),
    });
    let columns: String = columns.collect();
    format!(
        "message transactions {{ REQUIRED FIXED_LEN_BYTE_ARRAY ({ID_BYTES}) {ID}; {columns} \
         OPTIONAL BYTE_ARRAY {CODESPACE} (STRING); }}"
    )
}

/// Times follow each other: their differences take a few bytes (Parquet's encodings, "Delta encoding").
/// Nothing compresses the ids, which are most of what is left, so there is no compression.
pub(super) fn properties() -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_column_dictionary_enabled(ColumnPath::from(ID), false);
    for column in COLUMNS.iter().filter(|column| column.kind != Kind::Few) {
        let path = ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}
