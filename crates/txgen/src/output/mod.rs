//! What a person sees before and after a run; what is seen meanwhile is in [`crate::live`].

use std::io::{self, Write as _};

mod preview;
pub mod recorded;
mod table;

pub use preview::{describe_load, describe_target, preview};
pub use report::text::grouped;
pub use table::table;

use report::text::fit;

/// Prints a result on stdout, no wider than a terminal; gives the exit code of what is done. A reader that has
/// seen enough closes the pipe, which is no failure.
pub(crate) fn print(text: &str) -> u8 {
    ops::command::print(fit(text).as_bytes())
}

/// Says something on stderr, no wider than a terminal. A closed stderr ends nothing.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{}", fit(line));
}
