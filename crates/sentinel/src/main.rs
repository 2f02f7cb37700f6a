//! The `sentinel` command.

use std::process::ExitCode;

use ops::command::{conclude, parse};

fn main() -> ExitCode {
    let cli = match parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let environment = std::env::vars_os().collect();
    conclude("sentinel", sentinel::command::execute(cli, environment))
}
