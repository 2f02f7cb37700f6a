//! From events, or from the rows of a folder, to rows and a summary.

pub(crate) mod account;
pub(crate) mod answers;
pub(crate) mod files;
pub(crate) mod merge;
mod pending;
pub(crate) mod recorder;
pub(crate) mod refusals;
pub(crate) mod segments;
mod waiting;
mod watermarks;
