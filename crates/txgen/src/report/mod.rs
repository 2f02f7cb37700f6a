//! What a person sees before, during and after a run.

mod preview;
mod progress;
pub mod recorded;
mod table;

pub use measure::report::text::grouped;
pub use preview::{describe_load, describe_target, preview};
pub use progress::Progress;
pub use table::table;
