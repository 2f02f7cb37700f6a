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
#[cfg_attr(not(feature = "tui"), path = "no_terminal.rs")]
mod terminal;
mod writers;

pub use display::Display;
pub(crate) use state::Update;
pub use state::{LiveState, Message, NodeBoard, NodeState, Phase, RunInfo};
pub use terminal::LogWriter;
