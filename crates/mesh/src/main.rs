//! The `txmesh` command.

use std::process::ExitCode;

use ops::command::{conclude, parse};

fn main() -> ExitCode {
    match parse(std::env::args_os()) {
        Ok(cli) => conclude("txmesh", mesh::execute(cli)),
        Err(code) => code,
    }
}
