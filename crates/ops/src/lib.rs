//! What `txgen` and `sentinel` both offer their operator: the HTTP listener for metrics and status
//! pages, the limit of open files, exit codes, and the command that prints the manual.
//!
//! It is not a web framework and not a home for shared helpers: what only one program needs belongs
//! to that program, and what is not the operator's belongs to another crate.
//!
//! Read first: [`listener::serve`], [`listener::Page`], [`CommandError`].

pub mod accept;
pub mod command;
pub mod listener;
pub mod process;

pub use command::CommandError;
pub use listener::ListenAddress;
