//! From events, or from the rows of a folder, to rows and a summary.

pub(crate) mod account;
pub(crate) mod answers;
mod blocks;
pub(crate) mod files;
pub(crate) mod live;
pub(crate) mod merge;
mod pending;
pub(crate) mod plan;
pub(crate) mod recorder;
pub(crate) mod refusals;
mod segments;
mod span;
mod tally;
mod tx_writer;
mod waiting;
mod watermarks;
