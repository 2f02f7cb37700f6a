//! The rows of the run folder's tables and how each is written.
//!
//! Rows of seconds, steps and blocks are structs (they also go into JSON); rows of transactions are
//! written straight from the pending record.

mod block;
mod kept;
mod latency;
mod node;
mod series;
mod step;
mod table;
mod tx;

pub use block::BlockRow;
pub use kept::{KeptRows, KeptRowsError};
pub(crate) use latency::COLUMNS as LATENCY_COLUMNS;
pub use latency::LatencyColumns;
pub use node::{NodeRow, SightRow};
pub use series::SeriesRow;
pub use step::StepRow;
pub use table::{TableRow, write_row};
pub use tx::{IdText, TXS_HEADER};
