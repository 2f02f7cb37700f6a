//! `txmesh` from outside: the program with its exit codes and messages, and the run folders it leaves.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod files;
mod network;

use testkit::Place;

#[test]
fn the_help_of_every_command_begins_with_examples_that_can_be_run() {
    let complaints = testkit::complaints_about_examples::<mesh::cli::Cli>();
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn the_manual_and_the_completions_name_every_command() {
    let place = Place::new(env!("CARGO_BIN_EXE_txmesh"), "TXMESH_");
    let manual = place.run_to_end("man");
    let script = place.run_to_end("completions zsh");
    for (command, _) in testkit::examples::<mesh::cli::Cli>() {
        manual.prints(&format!(".TH {} 1", command.replace(' ', "-")));
        let name = command.rsplit(' ').next().unwrap_or_default();
        script.prints(name);
    }
}
