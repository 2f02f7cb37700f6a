//! The rows of the run folder's tables and how each is written.
//!
//! Rows of seconds, steps and blocks are structs (they also go into JSON); rows of transactions are
//! written straight from the pending record.

mod block;
mod csv;
mod series;
mod step;
mod tx;

pub use block::BlockRow;
pub use series::SeriesRow;
pub use step::StepRow;

pub(crate) use block::BLOCKS_HEADER;
pub(crate) use series::SERIES_HEADER;
pub(crate) use step::STEPS_HEADER;
pub use tx::IdText;
pub(crate) use tx::{TXS_HEADER, TxWriter};
