//! The `txgen` command.

use std::process::ExitCode;

use ops::command::{conclude, parse};

fn main() -> ExitCode {
    let arguments = txgen::tm_bench::with_two_dashes(std::env::args_os());
    let cli = match parse(arguments) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    tracing_subscriber::fmt()
        .with_writer(|| txgen::live::LogWriter)
        .with_max_level(log_level())
        .init();
    conclude("txgen", txgen::command::execute(cli))
}

/// `TXGEN_LOG=debug`; warnings and errors without it.
fn log_level() -> tracing::Level {
    std::env::var("TXGEN_LOG")
        .ok()
        .and_then(|level| level.parse().ok())
        .unwrap_or(tracing::Level::WARN)
}
