//! Exit codes: a contract with scripts.

/// The run is done and its schedule was kept.
pub const DONE: u8 = 0;
/// Something failed.
pub const FAILED: u8 = 1;
/// The command line or a configuration is wrong.
pub const USAGE: u8 = 2;
/// The run is invalid: the schedule was not kept.
pub const INVALID: u8 = 98;
/// A threshold was broken.
pub const THRESHOLD: u8 = 99;
/// Interrupted; everything recorded was still written.
pub const INTERRUPTED: u8 = 130;
