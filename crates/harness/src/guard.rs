//! A program that ends when the one that started it does, however that ended.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Args;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// The hidden command `guard`, as which [`servers::Process`] calls a program of its own.
#[derive(Debug, Args)]
pub struct GuardArgs {
    /// The process that it ends with.
    #[arg(long)]
    pub parent: i32,
    /// The program and its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub command: Vec<OsString>,
}

/// Turns this process into the program, to be killed with the process that started it.
///
/// The kernel sends the signal when the parent ends, also when that was killed; the order survives
/// the exec. It comes back only with an error.
pub fn become_program(args: &GuardArgs) -> io::Error {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // The parent may have ended before the order was given.
    let parent = getppid().map(|id| id.as_raw_nonzero().get());
    if parent != Some(args.parent) {
        return io::Error::other("the program that started this one has ended");
    }
    let Some((program, arguments)) = args.command.split_first() else {
        return io::Error::other("no program is named");
    };
    Command::new(program).args(arguments).exec()
}
