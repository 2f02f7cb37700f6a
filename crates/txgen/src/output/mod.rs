//! What a person sees before and after a run; what is seen meanwhile is in [`crate::live`].

mod preview;
pub mod recorded;
mod table;

pub(crate) use harness::{note, print};
pub use preview::{describe_load, describe_target, preview};
pub use report::text::grouped;
pub use table::table;
