//! A run folder read back into types, one row at a time, from any [`BufRead`](std::io::BufRead).
//!
//! - [`RowReader`] gives the rows of `series.csv`, `steps.csv` and `blocks.csv` as the structs that
//!   wrote them.
//! - [`TxReader`] gives the rows of `txs.csv`, each borrowed from the line it came from, so a file
//!   of any length takes the memory of one row.
//! - [`HlogReader`] gives the intervals of `latency.hlog`, each decoded only on request.
//! - [`Manifest::read_from`](crate::Manifest::read_from) and
//!   [`Summary::read_from`](crate::Summary::read_from) check the version first.
//!
//! A run that was killed leaves files that end in the middle of a row at worst. What follows the
//! last line break is never a row: readers leave it out and report it ([`RowReader::is_torn`]).
//! Anything else that is wrong is an error with its file, line and column. Columns are found by
//! their names in the first line; columns that a reader does not know are passed over.

mod hlog;
mod lines;
mod rows;
mod table;
mod tx;

pub use crate::format::document::ReadError;
pub use crate::format::rows::{TXS_HEADER, TableRow};
pub use hlog::{HlogInterval, HlogReader};
pub use rows::RowReader;
pub use tx::{TxFate, TxReader, TxRow};
