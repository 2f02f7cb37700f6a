//! Exit codes: a contract with scripts.

pub use ops::command::exit::{DONE, FAILED, USAGE};

/// The run is invalid: the schedule was not kept.
pub const INVALID: u8 = 98;
/// A threshold was broken.
pub const THRESHOLD: u8 = 99;
/// Interrupted; everything recorded was still written.
pub const INTERRUPTED: u8 = 130;
