//! What is written and read back: the documents and tables of a run folder, and the figures in them.

pub(crate) mod code;
pub(crate) mod counts;
pub(crate) mod document;
pub(crate) mod event;
pub(crate) mod evidence;
pub(crate) mod fate;
pub(crate) mod hlog;
pub(crate) mod latency;
pub(crate) mod manifest;
pub(crate) mod plan_document;
pub mod read;
pub(crate) mod rows;
pub(crate) mod summary;
pub(crate) mod windows;

use pacing::Nanos;

/// One second of the series.
pub(crate) const SECOND: Nanos = Nanos::from_nanos(1_000_000_000);
