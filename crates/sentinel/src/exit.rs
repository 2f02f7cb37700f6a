//! Exit codes: a contract with scripts and service managers.

/// Ended as asked.
pub const DONE: u8 = 0;
/// Something failed.
pub const FAILED: u8 = 1;
/// The command line or the configuration is wrong; starting again without a change is useless.
pub const USAGE: u8 = 2;
