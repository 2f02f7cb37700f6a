//! `sentinel top`: the figures of a running sentinel in the terminal.

mod rows;
#[cfg(feature = "tui")]
mod screen;
mod source;
#[cfg(test)]
mod tests;
mod text;

pub use source::Address;

#[cfg(feature = "tui")]
use std::io::IsTerminal as _;
use std::io::{self, Write as _};
use std::time::Duration;

use ops::command::{CommandError, exit, failed};
use source::Source;

/// Shows the figures of the sentinel whose operator's listener this is, until it is ended.
///
/// # Errors
/// The first answer cannot be had; as text, any later one.
pub fn run(admin: &Address, once: bool) -> Result<u8, CommandError> {
    let source = Source::new(admin).map_err(failed)?;
    #[cfg(feature = "tui")]
    if !once && io::stdout().is_terminal() {
        return screen::run(&source).map_err(failed);
    }
    loop {
        let overview = source.ask().map_err(failed)?;
        let text = text::of(&overview);
        // A reader that has seen enough closes the pipe.
        if io::stdout().lock().write_all(text.as_bytes()).is_err() || once {
            return Ok(exit::DONE);
        }
        std::thread::sleep(EVERY);
    }
}

/// The figures change no oftener.
const EVERY: Duration = Duration::from_secs(1);
