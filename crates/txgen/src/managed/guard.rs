//! A program that ends when the one that started it does, however that ended.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::cli::GuardArgs;

/// Turns this process into the program, to be killed with the process that started it.
///
/// The kernel sends the signal when the parent ends, also when that was killed; the order survives
/// the exec. It comes back only with an error.
pub(crate) fn become_program(args: &GuardArgs) -> io::Error {
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
