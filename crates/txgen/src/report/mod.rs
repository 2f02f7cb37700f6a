//! What a person sees before, during and after a run.

mod preview;
mod progress;
mod table;

pub use preview::{describe_load, describe_target, grouped, preview};
pub use progress::Progress;
pub use table::table;
