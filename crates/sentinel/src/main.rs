//! The `sentinel` command.

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;
use sentinel::cli::Cli;
use sentinel::exit;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // clap prints help and version to stdout, everything else to stderr.
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(exit::USAGE),
            };
        }
    };
    let environment = std::env::vars_os().collect();
    match sentinel::command::execute(cli, environment) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            use std::io::Write as _;
            let text = format!("{:#}", error.source);
            let mut stderr = std::io::stderr().lock();
            for line in text.lines() {
                let _ = writeln!(stderr, "sentinel: {line}");
            }
            ExitCode::from(error.code)
        }
    }
}
