//! In place of `terminal` in a build without the feature `tui`: no terminal can be drawn on.

use std::io::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;

use super::state::LiveState;
use crate::shutdown::Shutdown;

pub(super) const fn is_usable() -> bool {
    false
}

/// The full-screen view, of which there is none.
#[derive(Debug)]
pub(super) enum FullScreen {}

impl FullScreen {
    pub(super) fn open(_: Arc<Mutex<LiveState>>, _: Shutdown) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) const fn is_shown(&self) -> bool {
        match *self {}
    }
}

/// Where log lines go: to stderr.
#[derive(Debug, Default, Clone, Copy)]
pub struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        io::stderr().write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
