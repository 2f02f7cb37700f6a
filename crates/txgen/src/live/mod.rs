//! What is shown of a run while it goes on: a full-screen view on a terminal, a line a second without
//! one, JSON lines for programs, metrics for Prometheus.
//!
//! Read first: [`LiveState`] (the state that is shown), [`Display`] (passes it to every view). The run updates
//! the display; nothing here changes the load. The full-screen view and the metrics have
//! threads of their own, so a terminal that hangs or a slow scraper does not hold up the run.

mod display;
mod metrics;
#[cfg(feature = "tui")]
mod screen;
mod state;
#[cfg(feature = "tui")]
mod terminal;

pub use display::Display;
pub(crate) use state::Update;
pub use state::{LiveState, Message, NodeBoard, NodeState, Phase, RunInfo};
pub use terminal::LogWriter;

/// In place of `terminal` in a build without the feature `tui`: no terminal can be drawn on.
#[cfg(not(feature = "tui"))]
mod terminal {
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
}
