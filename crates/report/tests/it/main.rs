//! Reports of whole runs, recorded in memory.

#![expect(
    clippy::unwrap_used,
    reason = "all of this binary is tests, its helpers too"
)]

mod bep23;
mod evidence;
mod nodes;
mod page;
mod run;
