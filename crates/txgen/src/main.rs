//! The `txgen` command.

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use txgen::cli::Cli;

fn main() -> ExitCode {
    let cli = match Cli::try_parse_from(txgen::tm_bench::with_two_dashes(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => {
            // clap prints help and version to stdout, everything else to stderr.
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(txgen::exit::USAGE),
            };
        }
    };
    tracing_subscriber::fmt()
        .with_writer(|| txgen::live::LogWriter)
        .with_max_level(log_level())
        .init();
    match txgen::command::execute(cli) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            use std::io::Write as _;
            let text = format!("{:#}", error.source);
            let _ = writeln!(std::io::stderr(), "txgen: {text}");
            ExitCode::from(error.code)
        }
    }
}

/// `TXGEN_LOG=debug`; warnings and errors without it.
fn log_level() -> tracing::Level {
    std::env::var("TXGEN_LOG")
        .ok()
        .and_then(|level| level.parse().ok())
        .unwrap_or(tracing::Level::WARN)
}
