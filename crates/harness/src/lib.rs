//! What the load programs share around a run: the folder that it is written to, signals, a start common to several
//! generators and the part of a schedule that each of them has, loads as files, and what a person reads of it.
//!
//! What it is not: it offers nothing and records nothing. What only one program needs belongs to that program.
//!
//! Read first: [`RunFolder`], [`Shutdown`], [`Phase`].

mod folder;
pub mod part;
mod quantities;
pub mod shutdown;
pub mod toml_errors;

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write as _};

pub use base::text;
use report::Table;
use report::text::fit;
pub use shutdown::{GuardArgs, become_program};

pub use self::folder::{RunFolder, default_folder, whole};
pub use self::part::{Part, StartAt, StartAtError};
pub use self::quantities::{BitRate, Phase, Scale, Share};
pub use self::shutdown::Shutdown;

/// Exit codes of a load beside those that all programs have: a contract with scripts.
pub mod exit {
    pub use ops::command::exit::{DONE, FAILED, USAGE};

    /// The run is invalid: the load was not the planned one.
    pub const INVALID: u8 = 98;
    /// Interrupted; everything recorded was still written.
    pub const INTERRUPTED: u8 = 130;
}

/// Prints a result on stdout, no wider than a terminal; gives the exit code of what is done. A reader that has
/// seen enough closes the pipe, which is no failure.
pub fn print(text: &str) -> u8 {
    ops::command::print(fit(text).as_bytes())
}

/// Prints a message on stderr, no wider than a terminal. A closed stderr ends nothing.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{}", fit(line));
}

/// Lines on stderr, one for each second of a run, below headings that come again now and then.
#[derive(Debug, Default)]
pub struct SecondLines {
    printed: u64,
}

impl SecondLines {
    /// Prints the table of a second, which has one row; its columns have the widths of those of all other seconds.
    pub fn print(&mut self, table: &Table) {
        let text = table.text();
        let headings = usize::from(!self.printed.is_multiple_of(LINES_PER_HEADER));
        text.lines().skip(headings).for_each(note);
        self.printed += 1;
    }

    /// Whether nothing was printed.
    #[must_use]
    pub const fn is_fresh(&self) -> bool {
        self.printed == 0
    }
}

const LINES_PER_HEADER: u64 = 20;

/// A random seed for a run that was given none: the standard library's randomly keyed hasher is seeded by the system.
pub fn fresh_seed() -> u64 {
    // Seeds are typed and read by people; 32 bits are enough to keep runs apart.
    RandomState::new().hash_one(std::process::id()) & u64::from(u32::MAX)
}
