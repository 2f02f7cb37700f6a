//! `txgen` in a folder of its own.

use std::ops::Deref;

use testkit::Judged;

use super::{RunFolder, Summary};

/// A working folder of `txgen`; relative paths on command lines are inside it.
pub(crate) struct Place(testkit::Place);

impl Place {
    pub(crate) fn new() -> Self {
        let program = env!("CARGO_BIN_EXE_txgen");
        Self(testkit::Place::new(program, "TXGEN_"))
    }

    /// Runs `txgen` with the words of `line` to its end.
    pub(crate) fn txgen(&self, line: &str) -> testkit::Ended {
        self.run_to_end(line)
    }

    /// Runs `txgen` to its end with these variables in its environment.
    pub(crate) fn txgen_with(&self, variables: &[(&str, &str)], line: &str) -> testkit::Ended {
        self.run_with(variables, line)
    }

    /// Runs a script of the shell to its end; `$TXGEN` is the program.
    pub(crate) fn shell(&self, script: &str) -> testkit::Ended {
        self.0.shell("TXGEN", script)
    }

    /// A folder that a run left here.
    pub(crate) fn run(&self, name: &str) -> RunFolder {
        RunFolder::new(self.path().join(name))
    }
}

impl Deref for Place {
    type Target = testkit::Place;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Judged for Summary {
    fn schedule(&self) -> &str {
        self.text("verdict.schedule")
    }

    fn bars(&self) -> Vec<&str> {
        self.list("verdict.bars")
    }

    fn assert_conserved(&self) {
        Self::assert_conserved(self);
    }
}
