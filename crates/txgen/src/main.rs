//! The `txgen` command.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use ops::command::{conclude, parse_with};

fn main() -> ExitCode {
    let arguments = txgen::tm_bench::with_two_dashes(std::env::args_os());
    let cli = match parse_with(arguments, txgen::cli::BROUGHT) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    tracing_subscriber::fmt()
        .with_writer(|| txgen::live::LogWriter)
        .with_ansi(has_colours())
        .with_max_level(log_level())
        .init();
    conclude("txgen", txgen::command::execute(cli))
}

/// A log file has no use for escape sequences, and <https://no-color.org> has no use for colours.
fn has_colours() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !unwanted && std::io::stderr().is_terminal()
}

/// `TXGEN_LOG=debug`; warnings and errors without it.
fn log_level() -> tracing::Level {
    std::env::var("TXGEN_LOG")
        .ok()
        .and_then(|level| level.parse().ok())
        .unwrap_or(tracing::Level::WARN)
}
